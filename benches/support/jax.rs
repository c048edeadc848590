//! JAX, PyTorch, candle, burn and C on this machine, measured in alternation with oxidax.
//!
//! A script of `python-compat`, for example `jax_bench.py`, runs with `--serve` in the Python named
//! by `OXIDAX_BENCH_PYTHON`. It measures once per request, so both sides see the same load of the
//! machine. PyTorch's Python is named by `OXIDAX_BENCH_TORCH`. The program named by
//! `OXIDAX_BENCH_FRAMEWORKS` (`benches/frameworks`) does this for candle and burn.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../python-compat");

/// Returns the path in an environment variable, which is relative to the root of the repository:
/// Cargo runs benchmarks in the folder of their package.
fn path_in(variable: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::env::var_os(variable).map(|path| root.join(path))
}

/// A process that measures on request.
pub struct Jax {
    name: &'static str,
    process: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Jax {
    /// Starts JAX, or prints a note if `OXIDAX_BENCH_PYTHON` is not set.
    #[allow(dead_code, reason = "one benchmark says more")]
    pub fn start(script: &str) -> Result<Option<Jax>> {
        Jax::start_with(script, &[])
    }

    /// Starts JAX with environment variables.
    pub fn start_with(script: &str, variables: &[(&str, &str)]) -> Result<Option<Jax>> {
        let Some(python) = path_in("OXIDAX_BENCH_PYTHON") else {
            eprintln!(
                "OXIDAX_BENCH_PYTHON is not set, so JAX's columns are missing; \
                 `python-compat/ci.sh` makes python-compat/.venv/bin/python, which has JAX"
            );
            return Ok(None);
        };
        let mut command = Command::new(&python);
        command.args([&format!("{SCRIPTS}/{script}"), "--serve"]);
        command.envs(variables.iter().copied());
        Jax::spawn("JAX", &mut command).map(Some)
    }

    /// Starts PyTorch, which runs models as they are or compiled, or prints a note if
    /// `OXIDAX_BENCH_TORCH` is not set.
    #[allow(dead_code, reason = "one benchmark has it")]
    pub fn torch(is_compiled: bool) -> Result<Option<Jax>> {
        let Some(python) = path_in("OXIDAX_BENCH_TORCH") else {
            eprintln!(
                "OXIDAX_BENCH_TORCH is not set, so PyTorch's columns are missing; \
                 docs/benchmarks.md has the commands that make python-compat/.venv-torch"
            );
            return Ok(None);
        };
        let mut command = Command::new(&python);
        command.args([&format!("{SCRIPTS}/torch_bench.py"), "--serve"]);
        command.args(is_compiled.then_some("--compile"));
        Jax::spawn("PyTorch", &mut command).map(Some)
    }

    /// Starts this program again with these arguments.
    #[allow(dead_code, reason = "one benchmark has it")]
    pub fn own(arguments: &[&str]) -> Result<Jax> {
        let program = std::env::current_exe().context("the path of this program")?;
        Jax::spawn("oxidax", Command::new(program).args(arguments))
    }

    /// Starts candle or burn, or prints a note if `OXIDAX_BENCH_FRAMEWORKS` is not set.
    #[allow(dead_code, reason = "one benchmark has them")]
    pub fn framework(name: &'static str) -> Result<Option<Jax>> {
        let Some(program) = path_in("OXIDAX_BENCH_FRAMEWORKS") else {
            eprintln!(
                "OXIDAX_BENCH_FRAMEWORKS is not set, so {name}'s columns are missing; \
                 `cargo build --release` in benches/frameworks makes \
                 target/release/oxidax-frameworks there"
            );
            return Ok(None);
        };
        Jax::spawn(name, Command::new(program).arg(name)).map(Some)
    }

    /// Compiles a C program of this folder with `cc -O3` and starts it, or prints a note if the
    /// compiler is missing.
    #[allow(dead_code, reason = "one benchmark has it")]
    pub fn c(file: &str) -> Result<Option<Jax>> {
        let source = format!("{}/support/{file}", env!("CARGO_MANIFEST_DIR"));
        let program = format!("{}/{file}.out", env!("CARGO_TARGET_TMPDIR"));
        let arguments = ["-O3", "-march=native", "-o", &program, &source, "-lm"];
        match Command::new("cc").args(arguments).status() {
            Ok(status) => ensure!(status.success(), "cc {arguments:?} failed: {status}"),
            Err(error) => {
                eprintln!("C's columns are missing, because `cc` does not start: {error}");
                return Ok(None);
            }
        }
        Jax::spawn("C", &mut Command::new(program)).map(Some)
    }

    fn spawn(name: &'static str, command: &mut Command) -> Result<Jax> {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = piped.spawn().with_context(|| format!("starting {name}: {command:?}"))?;
        let requests = process.stdin.take().context("its standard input")?;
        let answers = BufReader::new(process.stdout.take().context("its standard output")?);
        Ok(Jax { name, process, requests, answers })
    }

    /// Sends a request and returns the answer.
    fn ask(&mut self, request: &Value) -> Result<Value> {
        let name = self.name;
        writeln!(self.requests, "{request}").with_context(|| format!("asking {name}"))?;
        let mut answer = String::new();
        let length = self.answers.read_line(&mut answer);
        let length = length.with_context(|| format!("hearing from {name}"))?;
        ensure!(length > 0, "{name} ended at {request}; its message stands above");
        serde_json::from_str(&answer).with_context(|| format!("{name} answered `{answer}`"))
    }

    /// Returns the measurements for a request, in the order of its answer.
    pub fn numbers(&mut self, request: &Value) -> Result<Vec<f64>> {
        let answer = self.ask(request)?;
        serde_json::from_value(answer)
            .with_context(|| format!("{}'s answer to {request}", self.name))
    }
}

#[allow(dead_code, reason = "one benchmark has them")]
impl Jax {
    /// Returns the version of the library.
    pub fn version(&mut self) -> Result<String> {
        let answer = self.ask(&serde_json::json!({"what": "version"}))?;
        Ok(answer.as_str().context("a version is a string")?.to_owned())
    }

    /// Returns the most resident memory of the process, in MB, or NaN where the system does not
    /// report it.
    pub fn peak(&self) -> f64 {
        let path = format!("/proc/{}/status", self.process.id());
        let status = std::fs::read_to_string(path).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        kilobytes.map_or(f64::NAN, |kilobytes| kilobytes / 1024.0)
    }
}

impl Drop for Jax {
    fn drop(&mut self) {
        // It waits for its next request. A process that has ended already needs no signal.
        if self.process.kill().is_ok() && self.process.wait().is_err() {
            eprintln!("{}'s process could not be waited for", self.name);
        }
    }
}
