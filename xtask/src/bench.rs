//! Runs benchmarks for the tasks that read their tables.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::root;

/// Runs benchmarks with these arguments, and returns their output, which is shown as it comes.
/// `quick` measures briefly and without optimization.
///
/// # Errors
/// If cargo cannot be started or fails.
#[allow(clippy::print_stdout, reason = "the benchmarks' output is shown")]
pub(crate) fn bench(benchmarks: &[&str], arguments: &[&str], quick: bool) -> Result<String> {
    let mut command = Command::new("cargo");
    command.arg("bench").current_dir(root());
    if quick {
        // As the other steps of CI, which have built the dependencies in this way.
        command.args(["--workspace", "--profile", "dev"]);
    } else {
        command.args(["--package", "benches"]);
    }
    for benchmark in benchmarks {
        command.args(["--bench", benchmark]);
    }
    command.arg("--").args(quick.then_some("--quick")).args(arguments);
    eprintln!("$ {command:?}");
    let mut process = command.stdout(Stdio::piped()).spawn().context("starting cargo bench")?;
    let output = process.stdout.take().context("the benchmarks' output")?;
    let mut all = String::new();
    for line in BufReader::new(output).lines() {
        let line = line.context("the benchmarks' output")?;
        println!("{line}");
        all.push_str(&line);
        all.push('\n');
    }
    let status = process.wait().context("waiting for cargo bench")?;
    ensure!(status.success(), "`cargo bench` ended with {status}");
    Ok(all)
}
