//! JAX on this machine, measured by turns with us.
//!
//! A script of `python-compat` (`jax_bench.py`, for one) runs with `--serve` in the Python that
//! `OXIDAX_BENCH_PYTHON` names and takes one measurement at each request, so that both sides meet the same moments
//! of a busy machine.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python-compat");

/// The other side.
pub(crate) struct Jax {
    process: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Jax {
    /// Starts JAX. Without `OXIDAX_BENCH_PYTHON` there is none, and this says so.
    pub(crate) fn start(script: &str) -> Result<Option<Jax>> {
        let Some(python) = std::env::var_os("OXIDAX_BENCH_PYTHON").map(PathBuf::from) else {
            eprintln!(
                "OXIDAX_BENCH_PYTHON is not set, so JAX's columns are missing; \
                 `python-compat/ci.sh` makes python-compat/.venv/bin/python, which has JAX"
            );
            return Ok(None);
        };
        let mut process = Command::new(&python)
            .args([&format!("{SCRIPTS}/{script}"), "--serve"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {} (OXIDAX_BENCH_PYTHON)", python.display()))?;
        let requests = process.stdin.take().context("JAX's standard input")?;
        let answers = BufReader::new(process.stdout.take().context("JAX's standard output")?);
        Ok(Some(Jax { process, requests, answers }))
    }

    /// Has JAX measure something.
    fn ask(&mut self, request: &Value) -> Result<Value> {
        writeln!(self.requests, "{request}").context("asking JAX")?;
        let mut answer = String::new();
        let length = self.answers.read_line(&mut answer).context("hearing from JAX")?;
        ensure!(length > 0, "JAX ended at {request}; its message stands above");
        serde_json::from_str(&answer).with_context(|| format!("JAX answered `{answer}`"))
    }

    /// What JAX measured at a request, in the order in which it says.
    pub(crate) fn numbers(&mut self, request: &Value) -> Result<Vec<f64>> {
        let answer = self.ask(request)?;
        serde_json::from_value(answer).with_context(|| format!("JAX's answer to {request}"))
    }
}

impl Drop for Jax {
    fn drop(&mut self) {
        // It waits for its next request, and a process that has ended already is no matter.
        if self.process.kill().is_ok() && self.process.wait().is_err() {
            eprintln!("JAX's process could not be waited for");
        }
    }
}
