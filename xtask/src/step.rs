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
        let begun = Instant::now();
        let outcome = match run(&step.action) {
            Ok(outcome) => outcome,
            Err(error) => Outcome::Failed(format!("{error:#}")),
        };
        lines.push(summary_line(step.name, begun.elapsed(), &outcome));
        if let Outcome::Failed(reason) = outcome {
            eprintln!("{}: {reason}", step.name);
            failed.push(step.name);
            if after_failure == AfterFailure::Stop {
                break;
            }
        }
    }
    eprintln!("\n=== summary\n{}", lines.join("\n"));
    eprintln!("{:>8.1} s  total", start.elapsed().as_secs_f64());
    if !failed.is_empty() {
        bail!("{} of {} steps failed: {}", failed.len(), steps.len(), failed.join(", "));
    }
    Ok(())
}

fn summary_line(name: &str, took: Duration, outcome: &Outcome) -> String {
    let seconds = took.as_secs_f64();
    match outcome {
        Outcome::Passed => format!("{seconds:>8.1} s  ok      {name}"),
        Outcome::Failed(_) => format!("{seconds:>8.1} s  FAILED  {name}"),
    }
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
