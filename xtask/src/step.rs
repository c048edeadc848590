//! Runs a list of named steps, times each, and prints a summary.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::root;

/// One row of a table of checks.
pub(crate) struct Step {
    /// Name in the summary.
    pub(crate) name: &'static str,
    /// Command or function of the step.
    pub(crate) action: Action,
}

/// The action of a [`Step`].
pub(crate) enum Action {
    /// Runs a command in the workspace's root, with these variables set.
    Run(&'static [&'static str], &'static [(&'static str, &'static str)]),
    /// Calls a function.
    Call(fn() -> Result<()>),
}

/// The result of a step.
enum Outcome {
    Passed,
    Failed(String),
}

/// Policy after a failed step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterFailure {
    Stop,
    GoOn,
}

/// Runs the steps in order, prints a summary, and fails if one of them did.
pub(crate) fn run_all(steps: &[Step], after_failure: AfterFailure) -> Result<()> {
    let mut lines = Vec::new();
    let mut failed = Vec::new();
    let start = Instant::now();
    for step in steps {
        eprintln!("\n=== {}", step.name);
        let (begun, cpu_before) = (Instant::now(), cpu_seconds());
        let outcome = match run(&step.action) {
            Ok(outcome) => outcome,
            Err(error) => Outcome::Failed(format!("{error:#}")),
        };
        let cpu = cpu_seconds() - cpu_before;
        lines.push(summary_line(step.name, begun.elapsed(), cpu, &outcome));
        if let Outcome::Failed(reason) = outcome {
            eprintln!("{}: {reason}", step.name);
            failed.push(step.name);
            if after_failure == AfterFailure::Stop {
                break;
            }
        }
    }
    eprintln!("\n=== summary\n  elapsed      CPU\n{}", lines.join("\n"));
    eprintln!("{:>7.1} s {:>7.1} s  total", start.elapsed().as_secs_f64(), cpu_seconds());
    if !failed.is_empty() {
        bail!("{} of {} steps failed: {}", failed.len(), steps.len(), failed.join(", "));
    }
    Ok(())
}

fn summary_line(name: &str, took: Duration, cpu: f64, outcome: &Outcome) -> String {
    let word = match outcome {
        Outcome::Passed => "ok    ",
        Outcome::Failed(_) => "FAILED",
    };
    format!("{:>7.1} s {cpu:>7.1} s  {word}  {name}", took.as_secs_f64())
}

/// Returns the CPU time of all ended child processes in seconds, or 0 where `/proc` does not exist.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field is the program's name in parentheses. User and system time of children are
    // the fields 16 and 17, in units of 10 ms (proc_pid_stat(5)).
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(13).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn run(action: &Action) -> Result<Outcome> {
    match action {
        Action::Call(function) => function().map(|()| Outcome::Passed),
        Action::Run(words, variables) => command(words, variables),
    }
}

fn command(words: &[&str], variables: &[(&str, &str)]) -> Result<Outcome> {
    let shown = words.join(" ");
    eprintln!("$ {shown}");
    let status = Command::new(words[0])
        .args(&words[1..])
        .envs(variables.iter().copied())
        .current_dir(root())
        .status()
        .with_context(|| format!("starting `{shown}`"))?;
    if status.success() {
        return Ok(Outcome::Passed);
    }
    Ok(Outcome::Failed(format!("`{shown}` ended with {status}")))
}
