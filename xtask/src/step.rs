//! Runs a list of named steps, times each, and prints a summary.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};

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

/// Policy after a failed step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterFailure {
    Stop,
    GoOn,
}

/// The outcomes of steps.
pub(crate) struct Report {
    lines: Vec<String>,
    failed: Vec<(&'static str, anyhow::Error)>,
    start: Instant,
}

impl Report {
    /// Starts a report without outcomes.
    pub(crate) fn new() -> Report {
        Report { lines: Vec::new(), failed: Vec::new(), start: Instant::now() }
    }

    /// Runs the steps in order and adds their outcomes.
    pub(crate) fn run_all(&mut self, steps: &[Step], after_failure: AfterFailure) {
        for step in steps {
            self.run(step.name, || run(&step.action));
            if !self.failed.is_empty() && after_failure == AfterFailure::Stop {
                break;
            }
        }
    }

    /// Runs a step and adds its outcome.
    pub(crate) fn run(&mut self, name: &'static str, action: impl FnOnce() -> Result<()>) {
        eprintln!("\n=== {name}");
        let (begun, cpu_before) = (Instant::now(), cpu_seconds());
        let outcome = action();
        let (elapsed, cpu) = (begun.elapsed().as_secs_f64(), cpu_seconds() - cpu_before);
        let word = if outcome.is_ok() { "ok    " } else { "FAILED" };
        self.lines.push(format!("{elapsed:>7.1} s {cpu:>7.1} s  {word}  {name}"));
        if let Err(error) = outcome {
            eprintln!("{name}: {error:#}");
            self.failed.push((name, error));
        }
    }

    /// Prints a summary and the errors of failed steps, which a long log may otherwise hide.
    ///
    /// # Errors
    /// If a step failed: the names of all that did.
    pub(crate) fn finish(self) -> Result<()> {
        eprintln!("\n=== summary\n  elapsed       CPU\n{}", self.lines.join("\n"));
        let elapsed = self.start.elapsed().as_secs_f64();
        eprintln!("{elapsed:>7.1} s {:>7.1} s  total", cpu_seconds());
        if !self.failed.is_empty() {
            for (name, error) in &self.failed {
                eprintln!("{name}: {error:#}");
            }
            let names: Vec<&str> = self.failed.iter().map(|(name, _)| *name).collect();
            bail!("{} of {} steps failed: {}", names.len(), self.lines.len(), names.join(", "));
        }
        Ok(())
    }
}

/// Returns the CPU time of all ended child processes in seconds, or 0 where `/proc` does not exist.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field is the program's name in parentheses. User and system time of children are
    // the fields 16 and 17, in units of 10 ms (proc_pid_stat(5)).
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(13).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn run(action: &Action) -> Result<()> {
    match action {
        Action::Call(function) => function(),
        Action::Run(words, variables) => command(words, variables),
    }
}

fn command(words: &[&str], variables: &[(&str, &str)]) -> Result<()> {
    let shown = words.join(" ");
    eprintln!("$ {shown}");
    let status = Command::new(words[0])
        .args(&words[1..])
        .envs(variables.iter().copied())
        .current_dir(root())
        .status()
        .with_context(|| format!("starting `{shown}`"))?;
    ensure!(status.success(), "`{shown}` ended with {status}");
    Ok(())
}
