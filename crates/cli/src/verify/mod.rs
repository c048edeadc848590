//! `oxidax verify`: compares what JAX computes on this machine with what oxidax computes.

mod function;
mod python;
mod sources;
mod table;

use std::error::Error;
use std::io::{self, Write as _};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use oxidax::config::{self, ProcessConfig};
use oxidax_parity::{SUITES, Suite};
use python::Python;
use serde_json::Value;
use table::Totals;

/// The comparison to make.
#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// Suites of fixtures, by default all; or one function: `module:name` or `file.py:name`
    #[arg(value_name = "SUITE|FUNCTION")]
    targets: Vec<String>,
    /// Arguments of the function: types such as `f32[8,4]`, numbers, files of .npy and
    /// .safetensors, `module:function` for what that returns
    #[arg(long, num_args = 0.., value_name = "ARGUMENTS", allow_negative_numbers = true)]
    args: Vec<String>,
    /// Compare the derivatives of the function too
    #[arg(long)]
    gradients: bool,
    /// Turn 64-bit types on for the function
    #[arg(long)]
    x64: bool,
    /// The Python that has JAX; by default that of the active virtual environment, or `python3`
    #[arg(long, value_name = "FILE")]
    python: Option<PathBuf>,
    /// The platform on which oxidax computes; by default the one that it chooses
    #[arg(long)]
    platform: Option<String>,
    /// The platform on which JAX computes
    #[arg(long, default_value = "cpu")]
    jax_platform: String,
    /// Compare one in this many cases of each suite
    #[arg(long, default_value = "1", value_name = "N")]
    every: NonZeroU32,
    /// Compare with the fixtures in this folder, without Python
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["python", "every", "args"])]
    fixtures: Option<PathBuf>,
    /// Keep what JAX computed in this folder
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
}

/// The work that the targets name.
#[derive(Debug, PartialEq)]
enum Target<'a> {
    Suites(Vec<&'a str>),
    Function(&'a str),
}

fn target(targets: &[String]) -> Result<Target<'_>, String> {
    if let [function] = targets
        && function.contains(':')
    {
        return Ok(Target::Function(function));
    }
    let known = |name: &&String| SUITES.contains(&name.as_str());
    match targets.iter().find(|name| !known(name)) {
        Some(name) => Err(format!(
            "`{name}` is neither a function `module:name` nor a suite; the suites are {}",
            SUITES.join(", ")
        )),
        None if targets.is_empty() => Ok(Target::Suites(SUITES.to_vec())),
        None => Ok(Target::Suites(targets.iter().map(String::as_str).collect())),
    }
}

/// Prints the comparison. The exit code is 1 if results differ or were not computed.
pub(crate) fn run(verify: &Verify) -> Result<ExitCode, Box<dyn Error>> {
    let target = target(&verify.targets)?;
    if let Some(platform) = &verify.platform {
        config::update(ProcessConfig::new().platform(platform.as_str()))?;
    }
    let temporary = tempfile::tempdir()?;
    let folder = verify.keep.as_deref().unwrap_or(temporary.path());
    std::fs::create_dir_all(folder)?;
    let totals = match (target, &verify.fixtures) {
        (Target::Function(name), None) => {
            let python = Python::find(verify.python.as_deref())?;
            return function::run(verify, &python, name, folder);
        }
        (Target::Function(_), Some(_)) => {
            return Err("--fixtures compares suites; a function needs Python".into());
        }
        (Target::Suites(suites), Some(fixtures)) => {
            let mut totals = Totals::new();
            for name in suites {
                totals.add(name, Suite::open(fixtures, name)?)?;
            }
            totals
        }
        (Target::Suites(suites), None) => {
            let python = Python::find(verify.python.as_deref())?;
            let mut totals = Totals::new();
            let arguments = verify.arguments(&suites);
            python.compute(folder, &arguments, |report| {
                if let Some(versions) = versions(report, &python) {
                    writeln!(io::stdout(), "{versions}")?;
                }
                let Some(name) = report["suite"].as_str() else { return Ok(()) };
                match report["error"].as_str() {
                    Some(error) => totals.not_computed(name, error)?,
                    None => {
                        totals.failures_of_jax(name, &report["failures"]);
                        totals.add(name, Suite::open(folder, name)?)?;
                    }
                }
                Ok(())
            })?;
            totals
        }
    };
    totals.finish()
}

impl Verify {
    /// Returns the arguments of `oxidax_compat compute` for suites.
    fn arguments(&self, suites: &[&str]) -> Vec<String> {
        let every = self.every.to_string();
        let mut arguments = vec!["--platform", &self.jax_platform, "--stride", &every, "--suites"];
        arguments.extend(suites);
        arguments.into_iter().map(str::to_owned).collect()
    }
}

/// Returns the line that states the versions, if the report has them.
fn versions(report: &Value, python: &Python) -> Option<String> {
    let of = |name: &str| report["versions"][name].as_str();
    Some(format!(
        "JAX {} (jaxlib {}, NumPy {}, Python {}, {}) on {}; oxidax {} on {}",
        of("jax")?,
        of("jaxlib")?,
        of("numpy")?,
        of("python")?,
        python.program().display(),
        of("device")?,
        env!("CARGO_PKG_VERSION"),
        platform()
    ))
}

fn platform() -> String {
    match oxidax::parallel::default_device() {
        Ok(device) => device.to_string(),
        Err(error) => format!("no device ({})", error.to_string().lines().next().unwrap_or("")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_suites_or_one_function() {
        let words =
            |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(target(&[]), Ok(Target::Suites(SUITES.to_vec())));
        assert_eq!(target(&words(&["ops", "nn"])), Ok(Target::Suites(vec!["ops", "nn"])));
        assert_eq!(target(&words(&["a.py:f"])), Ok(Target::Function("a.py:f")));
        let error = target(&words(&["ops", "opps"])).expect_err("`opps` is not a suite");
        assert!(error.contains("`opps`") && error.contains("control_flow"), "{error}");
    }
}
