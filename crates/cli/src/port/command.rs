//! The arguments of `oxidax port`, and its output.

use std::error::Error;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use oxidax_port::{Options, Ported, port, rustfmt};

use super::package;
use crate::new::Dependency;

const EXAMPLES: &str = "\
Examples:
  python python-compat/port.py models.py:loss --args models.py:example_args -o loss.json
  oxidax port loss.json                 print the Rust program
  oxidax port loss.json -o loss         write a package with a test, then: cd loss && cargo test

`port.py` traces the function with JAX at the example arguments, and records JAX's results for the
test. It is in the folder python-compat of the repository and needs only jax and numpy.";

/// The traced function, and where to write the program.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Port {
    /// The file that `port.py` has written
    #[arg(value_name = "FILE.json")]
    file: PathBuf,
    /// Write a package to this new folder, instead of printing the program
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// The largest difference from JAX's results in the test, absolute or relative
    #[arg(long, default_value_t = 1e-5)]
    tolerance: f64,
    /// A clone of oxidax [default: the clone that this command was built from]
    #[arg(long, value_name = "PATH", requires = "output")]
    oxidax_path: Option<PathBuf>,
}

/// Prints the program, or writes a package.
pub(crate) fn run(arguments: &Port) -> Result<(), Box<dyn Error>> {
    let path = &arguments.file;
    let bytes = fs::read(path).map_err(|error| {
        format!(
            "reading {}: {error}\n  help: write it with `python port.py MODULE:FUNCTION --args …`",
            path.display()
        )
    })?;
    if !(0.0..=1.0).contains(&arguments.tolerance) {
        let tolerance = arguments.tolerance;
        return Err(format!("--tolerance {tolerance} is not between 0 and 1").into());
    }
    let mut options = Options::default();
    options.tolerance = arguments.tolerance;
    let ported = port(&bytes, &options).map_err(|error| format!("{}: {error}", path.display()))?;
    let source = formatted(&ported);
    let Some(folder) = &arguments.output else {
        io::stdout().write_all(source.as_bytes())?;
        return Ok(());
    };
    let tensors = path.parent().unwrap_or(Path::new("")).join(&ported.tensors);
    let dependency = match &arguments.oxidax_path {
        Some(path) => Dependency::clone_at(path)?,
        None => Dependency::own_clone()?,
    };
    package::write(folder, &ported, &source, &tensors, &dependency)?;
    eprintln!(
        "wrote the function `{}` and its test to {}\nto compare it with JAX: cd {} && cargo test",
        ported.name,
        folder.join("src/lib.rs").display(),
        crate::new::shell_word(folder),
    );
    Ok(())
}

/// Formats the program, with a note if `rustfmt` is missing.
fn formatted(ported: &Ported) -> String {
    rustfmt(&ported.source).unwrap_or_else(|| {
        eprintln!("note: the program is not formatted, because rustfmt did not run");
        ported.source.clone()
    })
}
