//! Shardings for training on several devices.

use super::train::{Recipe, Step};
use anyhow::{Context, bail, ensure};
use oxidax::core::AxisSpec;
use oxidax::parallel::TreeSharding;
use oxidax::prelude::*;
use oxidax_models::gpt2::Gpt2;
use std::path::{Path, PathBuf};

/// Command line options for training on a mesh.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Spread {
    /// Mesh axes, as in `data=2,model=4`. `data` splits the batch, `model` the layers.
    #[arg(long)]
    mesh: Option<String>,
    /// Also split parameters and optimizer state along `data`, and gather each layer where it is
    /// used.
    #[arg(long, requires = "mesh")]
    fsdp: bool,
    /// A file with one rule per line: a pattern of leaf paths, and a mesh axis or `-` for each
    /// array axis, as in `*c_fc.weight - model`.
    #[arg(long, requires = "mesh")]
    shardings: Option<PathBuf>,
}

/// Shardings of the arguments of a step.
pub struct MeshPlan {
    mesh: Mesh,
    pub model: TreeSharding,
    pub state: TreeSharding,
    batch: PartitionSpec,
    /// Sharding of the model in the forward pass, if it differs.
    gathered: Option<TreeSharding>,
}

impl Spread {
    /// Returns the shardings that the options describe, or `None` without a mesh.
    pub fn plan(&self, model: &Gpt2, state: &optim::State) -> anyhow::Result<Option<MeshPlan>> {
        let Some(axes) = &self.mesh else { return Ok(None) };
        let mesh = mesh(axes)?;
        let layers = match &self.shardings {
            Some(path) => read(path)?,
            None if mesh.size("model").is_some() => layer_rules(),
            None => PartitionRules::default(),
        };
        let computing = layers.shardings(model, &mesh)?;
        let rules = match self.fsdp {
            true => fsdp_rules(model, &layers, &mesh)?,
            false => layers,
        };
        Ok(Some(MeshPlan {
            model: rules.shardings(model, &mesh)?,
            state: rules.shardings(state, &mesh)?,
            batch: if mesh.size("data").is_some() { p!["data"] } else { p![] },
            gathered: self.fsdp.then_some(computing),
            mesh,
        }))
    }
}

impl MeshPlan {
    /// Returns the recipe's step with these shardings.
    pub fn step(&self, recipe: &Recipe) -> anyhow::Result<Step> {
        let batch = self.mesh.sharding(self.batch.clone())?;
        let step = match self.gathered.clone() {
            None => recipe.step(),
            Some(whole) => {
                recipe.step_with(move |model| with_sharding_constraint(model, whole.clone()))
            }
        };
        let kept = None::<NamedSharding>;
        Ok(step.in_shardings((&self.model, &self.state, &batch, kept)).out_shardings((
            &self.model,
            &self.state,
            self.mesh.replicated(),
        )))
    }
}

/// Parses `data=2,model=4` and builds the mesh from the first devices.
fn mesh(text: &str) -> anyhow::Result<Mesh> {
    let axis = |part: &str| -> anyhow::Result<(String, usize)> {
        let (name, size) = part
            .split_once('=')
            .with_context(|| format!("`{part}` is not of the form `axis=size`"))?;
        let size = size.parse().with_context(|| format!("the size of `{name}`"))?;
        Ok((name.to_owned(), size))
    };
    let axes: Vec<(String, usize)> = text.split(',').map(axis).collect::<Result<_, _>>()?;
    let (needed, all) = (axes.iter().map(|(_, size)| size).product::<usize>(), devices()?);
    ensure!(
        needed <= all.len(),
        "the mesh {text} needs {needed} devices, there are {}; set `OXIDAX_CPU_DEVICES={needed}` for \
         virtual CPU devices",
        all.len()
    );
    let axes: Vec<(&str, usize)> = axes.iter().map(|(name, size)| (name.as_str(), *size)).collect();
    Ok(Mesh::new(&all[..needed], axes)?)
}

/// Splits pairs of layers as Megatron does: the first by columns, the second by rows. GPT-2's files
/// store queries, keys and values side by side, so the compiler inserts extra communication;
/// `examples/parallel` stores them separately.
fn layer_rules() -> PartitionRules {
    let mut rules = Vec::new();
    for (pair, (first, second)) in [("attn", ("c_attn", "c_proj")), ("mlp", ("c_fc", "c_proj"))] {
        // Stacked layers have a leading layer axis.
        rules.push((format!("*h.stack.{pair}.{first}.weight"), p![None, None, "model"]));
        rules.push((format!("*h.stack.{pair}.{first}.bias"), p![None, "model"]));
        rules.push((format!("*h.stack.{pair}.{second}.weight"), p![None, "model"]));
        rules.push((format!("*{pair}.{first}.weight"), p![None, "model"]));
        rules.push((format!("*{pair}.{first}.bias"), p!["model"]));
        rules.push((format!("*{pair}.{second}.weight"), p!["model"]));
    }
    PartitionRules::new(rules)
}

/// Adds `data` to the spec of each leaf, on its longest divisible axis that is not split yet.
fn fsdp_rules(
    model: &Gpt2,
    layers: &PartitionRules,
    mesh: &Mesh,
) -> anyhow::Result<PartitionRules> {
    let parts =
        mesh.size("data").context("`--fsdp` splits along `data`, but the mesh has no such axis")?;
    let leaves = tree::paths(model).into_iter().zip(tree::leaves(model));
    Ok(PartitionRules::new(leaves.map(|(path, leaf)| {
        let (shape, mut spec) = (leaf.shape(), layers.spec(&path).cloned().unwrap_or_default());
        spec.0.resize(shape.rank(), AxisSpec::default());
        let is_free =
            |&at: &usize| spec.0[at].names().is_empty() && shape[at].is_multiple_of(parts);
        if let Some(at) = (0..shape.rank()).filter(is_free).max_by_key(|&at| shape[at]) {
            spec.0[at] = "data".into();
        }
        (format!("*{path}"), spec)
    })))
}

/// Reads rules from a file.
fn read(path: &Path) -> anyhow::Result<PartitionRules> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
    let mut rules = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut words = line.split_whitespace();
        let Some(pattern) = words.next() else { bail!("`{line}` has no pattern") };
        let axes = words.map(|word| match word {
            "-" => AxisSpec::default(),
            names => AxisSpec::Axes(names.split('+').map(String::from).collect()),
        });
        rules.push((pattern.to_owned(), PartitionSpec(axes.collect())));
    }
    Ok(PartitionRules::new(rules))
}
