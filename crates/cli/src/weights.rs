//! `oxidax weights list|map|convert`.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use oxidax_weights::{ExpectedTensor, GgufDType, Rules, WeightDType, Weights};

/// Actions on weights of this and other libraries.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// List names and types, without reading elements
    List {
        /// A file or folder: safetensors, PyTorch, GGUF, NumPy, Flax, Orbax
        file: PathBuf,
        /// Show the values beside the tensors too
        #[arg(long)]
        metadata: bool,
    },
    /// Print what rules make of the names and types, and write nothing
    Map {
        /// A file or folder
        file: PathBuf,
        #[command(flatten)]
        rules: RuleFiles,
        /// Weights with the names and types that the result should have
        #[arg(long, value_name = "FILE")]
        like: Option<PathBuf>,
    },
    /// Write a safetensors or GGUF file
    Convert {
        /// A file or folder
        file: PathBuf,
        /// The new file: `….safetensors` or `….gguf`
        output: PathBuf,
        #[command(flatten)]
        rules: RuleFiles,
        /// The type of floats: f32, f16, bf16, and in GGUF q4_0, q4_1, q5_0, q5_1 or q8_0
        #[arg(long, value_name = "TYPE", value_parser = dtype)]
        dtype: Option<WeightDType>,
    },
}

/// The rules that map names.
#[derive(Debug, Args)]
pub(crate) struct RuleFiles {
    /// A file with one rule on each line; docs/weights.md lists them
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// A rule, behind those of the file: `rename transformer.* -> *`
    #[arg(long = "rule", value_name = "RULE")]
    lines: Vec<String>,
}

impl RuleFiles {
    fn apply(&self, weights: &Weights) -> Result<Weights, Box<dyn Error>> {
        let mut rules = Rules::new();
        if let Some(path) = &self.rules {
            let failed = |error: &dyn Error| format!("{}: {error}", path.display());
            let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
            rules = Rules::parse(&text).map_err(|error| failed(&error))?;
        }
        Ok(rules.then(Rules::parse(&self.lines.join("\n"))?).apply(weights)?)
    }
}

fn dtype(text: &str) -> Result<WeightDType, String> {
    WeightDType::from_name(text)
        .filter(|dtype| dtype.is_float())
        .ok_or_else(|| format!("`{text}` is not a type of floats, such as f32, f16, bf16 or q8_0"))
}

/// Runs an action. `map` fails if the result is not like the other weights.
pub(crate) fn run(action: &Action) -> Result<(), Box<dyn Error>> {
    match action {
        Action::List { file, metadata } => list(&Weights::open(file)?, *metadata)?,
        Action::Map { file, rules, like } => {
            let mapped = rules.apply(&Weights::open(file)?)?;
            let expected = like.as_deref().map(expected).transpose()?.unwrap_or_default();
            print(&mapped.table(&expected))?;
            if !expected.is_empty() {
                mapped.check(&expected)?;
            }
        }
        Action::Convert { file, output, rules, dtype } => {
            let mapped = rules.apply(&Weights::open(file)?)?;
            convert(&mapped, output, *dtype)?;
            let count = mapped.tensors().len();
            print(&format!("wrote {count} tensors to {}\n", output.display()))?;
        }
    }
    Ok(())
}

fn print(text: &str) -> io::Result<()> {
    io::stdout().write_all(text.as_bytes())
}

/// Returns the types of other weights.
fn expected(path: &Path) -> Result<BTreeMap<String, ExpectedTensor>, Box<dyn Error>> {
    let weights = Weights::open(path)?;
    let tensors = weights.tensors().iter();
    let tensors = tensors
        .map(|(name, tensor)| (name.clone(), ExpectedTensor::new(tensor.dtype(), tensor.shape())));
    Ok(tensors.collect())
}

fn list(weights: &Weights, metadata: bool) -> io::Result<()> {
    let tensors = weights.tensors();
    let width = tensors.keys().map(|name| name.chars().count()).max().unwrap_or_default();
    let mut text = String::new();
    for (name, tensor) in tensors {
        text.push_str(&format!("{name:width$}  {tensor}\n"));
    }
    if metadata {
        for (key, value) in weights.metadata() {
            text.push_str(&format!("{key} = {value}\n"));
        }
    }
    let bytes = tensors.values().filter_map(|tensor| tensor.dtype().byte_len(tensor.shape()));
    let (count, bytes) = (tensors.len(), bytes.sum::<u64>());
    text.push_str(&format!("{}: {count} tensors, {bytes} bytes\n", weights.format()));
    for skipped in weights.skipped() {
        text.push_str(&format!("skipped: {skipped}\n"));
    }
    print(&text)
}

fn convert(
    weights: &Weights,
    output: &Path,
    dtype: Option<WeightDType>,
) -> Result<(), Box<dyn Error>> {
    match output.extension().and_then(|extension| extension.to_str()) {
        Some("gguf") => {
            let dtype = dtype.map_or(GgufDType::Keep, GgufDType::Floats);
            Ok(weights.save_gguf(output, dtype)?)
        }
        Some("safetensors") => {
            let rules = dtype.map_or(Rules::new(), |dtype| Rules::new().cast("*", dtype));
            Ok(rules.apply(weights)?.save_safetensors(output)?)
        }
        _ => Err(format!(
            "{}: the name of the new file ends with neither `.safetensors` nor `.gguf`",
            output.display()
        )
        .into()),
    }
}
