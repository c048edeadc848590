//! The user's Python with JAX, and the process that computes with it.

use super::sources;
use oxidax_plugin::Config;
use serde_json::Value;
use std::error::Error;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The first version of JAX whose exported functions are read.
const OLDEST_JAX: &str = "0.4.31";

/// Prints the versions of Python and JAX as JSON, or the error of importing JAX.
const PROBE: &str = "\
import json, platform
found = {'python': platform.python_version()}
try:
    import jax, jaxlib
    found |= {'jax': jax.__version__, 'jaxlib': jaxlib.__version__}
except Exception as error:
    found['error'] = f'{type(error).__name__}: {error}'.splitlines()[0]
print(json.dumps(found))
";

/// A Python that can import JAX.
#[derive(Debug)]
pub(super) struct Python {
    program: PathBuf,
}

impl Python {
    /// Finds a Python that can import JAX: the given one, or that of the active virtual
    /// environment, or `python3` or `python` on the search path.
    ///
    /// # Errors
    /// None can. The error lists each with its version and the reason.
    pub(super) fn find(given: Option<&Path>) -> Result<Python, Box<dyn Error>> {
        let candidates = match given {
            Some(program) => vec![("--python", program.to_owned())],
            None => candidates(&Config::from_env()?),
        };
        let mut tried = String::new();
        for (origin, program) in candidates {
            match probe(&program) {
                Ok(()) => return Ok(Python { program }),
                Err(problem) => {
                    write!(tried, "\n  {} ({origin}): {problem}", program.display())?;
                }
            }
        }
        let tried = if tried.is_empty() { "\n  none was found".into() } else { tried };
        Err(format!(
            "no Python with JAX {OLDEST_JAX} or later:{tried}\n  help: `pip install jax \
             flatbuffers`, or name another one with `--python`"
        )
        .into())
    }

    /// Returns the path of the program.
    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// Runs `python -m oxidax_compat compute` with the embedded source, which is written below
    /// `folder`. `each` gets every line of JSON that the process prints.
    ///
    /// # Errors
    /// The process fails, or `each` does. What Python prints as an error goes to standard error.
    pub(super) fn compute(
        &self,
        folder: &Path,
        arguments: &[String],
        mut each: impl FnMut(&Value) -> Result<(), Box<dyn Error>>,
    ) -> Result<(), Box<dyn Error>> {
        let source = folder.join("python");
        sources::write(&source)?;
        let mut child = Command::new(&self.program)
            .args(["-m", "oxidax_compat", "compute"])
            .arg(folder)
            .args(arguments)
            .env("PYTHONPATH", self.search_path(&source)?)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().expect("it is piped");
        let mut outcome = Ok(());
        for line in BufReader::new(output).lines() {
            let line = line?;
            // Other lines are printed by the user's module.
            if let (Ok(()), Ok(report)) = (&outcome, serde_json::from_str::<Value>(&line)) {
                outcome = each(&report);
            }
        }
        let status = child.wait()?;
        outcome?;
        if !status.success() {
            let program = self.program.display();
            return Err(format!("{program} failed ({status}) while computing with JAX").into());
        }
        Ok(())
    }

    /// Returns Python's search path: the embedded source, then what Python searches already.
    fn search_path(&self, source: &Path) -> Result<String, Box<dyn Error>> {
        let script = "import os; print(os.environ.get('PYTHONPATH', ''))";
        let output = Command::new(&self.program).args(["-c", script]).output()?;
        let before = String::from_utf8_lossy(&output.stdout);
        let separator = if cfg!(windows) { ";" } else { ":" };
        let source = source.to_str().ok_or("the folder's name is not valid Unicode")?;
        match before.trim() {
            "" => Ok(source.to_owned()),
            before => Ok(format!("{source}{separator}{before}")),
        }
    }
}

/// Returns the programs to try, each with the reason.
fn candidates(config: &Config) -> Vec<(&'static str, PathBuf)> {
    let mut found = Vec::new();
    if let Some(environment) = &config.virtual_env {
        let folder = if cfg!(windows) { "Scripts" } else { "bin" };
        found.push(("VIRTUAL_ENV", environment.join(folder).join("python")));
    }
    for name in ["python3", "python"] {
        let name = format!("{name}{}", std::env::consts::EXE_SUFFIX);
        let mut programs = config.search_path.iter().map(|folder| folder.join(&name));
        if let Some(program) = programs.find(|program| program.is_file()) {
            found.push(("PATH", program));
        }
    }
    found
}

/// Checks that a Python can import a version of JAX that is new enough.
fn probe(program: &Path) -> Result<(), String> {
    let output = Command::new(program).args(["-c", PROBE]).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("it does not start: {error}"))?;
    let found: Value = serde_json::from_slice(&output.stdout).map_err(|_| {
        let text = String::from_utf8_lossy(&output.stderr);
        format!("it does not run: {}", text.lines().last().unwrap_or("it prints nothing"))
    })?;
    let python = found["python"].as_str().unwrap_or("?");
    match found["jax"].as_str() {
        None => {
            let error = found["error"].as_str().unwrap_or("no reason");
            Err(format!("Python {python}, which cannot import JAX ({error})"))
        }
        Some(jax) if numbers(jax) < numbers(OLDEST_JAX) => {
            Err(format!("Python {python} with JAX {jax}, which is older than {OLDEST_JAX}"))
        }
        Some(_) => Ok(()),
    }
}

/// Returns the numbers of a version: `[0, 4, 31]`.
fn numbers(version: &str) -> Vec<u32> {
    version.split('.').map_while(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        assert!(numbers("0.4.4") < numbers(OLDEST_JAX));
        assert!(numbers("0.10.2") > numbers(OLDEST_JAX));
        assert!(numbers("0.4.31.dev1") >= numbers(OLDEST_JAX));
    }

    #[test]
    fn the_active_environment_is_tried_first() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("python3"), "").expect("it can be written");
        let mut config = Config::bare();
        config.virtual_env = Some("/env".into());
        config.search_path = vec!["/missing".into(), folder.path().to_owned()];
        let found = candidates(&config);
        assert_eq!(found[0], ("VIRTUAL_ENV", "/env/bin/python".into()));
        assert_eq!(found[1], ("PATH", folder.path().join("python3")));
        assert_eq!(found.len(), 2);
    }
}
