//! `cargo xtask budgets`: compares figures of benchmarks with the budgets of `docs/benchmarks.md`.
//!
//! Both sides of a ratio come from one run of a benchmark. Machines are noisy, so a person reads
//! the result, and CI only checks that every budget finds its figures.

mod judge;
pub(crate) mod log;

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};

use crate::bench::bench;
use crate::root;
use judge::{Budget, Verdict};
use log::Table;

/// The page with the table of budgets.
const PAGE: &str = "docs/benchmarks.md";

/// The figures to compare with budgets, and how strictly.
pub(crate) struct Options {
    /// The benchmarks. All that have a budget if it is empty.
    pub(crate) benchmarks: Vec<String>,
    /// A file with the output of benchmarks, which are not run then.
    pub(crate) from: Option<PathBuf>,
    /// Measure briefly and without optimization, and judge no figure.
    pub(crate) quick: bool,
}

/// Runs benchmarks, or reads their output, and prints a line for each budget.
///
/// # Errors
/// If a budget does not find its figures, or, unless `quick`, if a ratio exceeds its budget by more
/// than the tolerance.
pub(crate) fn run(options: &Options) -> Result<()> {
    let page = root().join(PAGE);
    let page = std::fs::read_to_string(&page).with_context(|| page.display().to_string())?;
    let mut budgets = judge::budgets(&page).context(PAGE)?;
    for name in &options.benchmarks {
        let is_known = budgets.iter().any(|budget| budget.benchmark == *name);
        ensure!(is_known, "no budget in {PAGE} is for a benchmark `{name}`");
    }
    let is_chosen = |budget: &Budget| {
        options.benchmarks.is_empty() || options.benchmarks.contains(&budget.benchmark)
    };
    budgets.retain(is_chosen);
    let output = match &options.from {
        Some(file) => std::fs::read_to_string(file).with_context(|| file.display().to_string())?,
        None => measure(&budgets, options.quick)?,
    };
    report(&budgets, &log::tables(&output), options.quick)
}

/// Prints a line for each budget.
#[allow(clippy::print_stdout, reason = "a person reads the result")]
fn report(budgets: &[Budget], tables: &[Table], quick: bool) -> Result<()> {
    let verdicts: Vec<Verdict> =
        budgets.iter().map(|budget| budget.judge(tables)).collect::<Result<_>>()?;
    println!("\n{:>7} {:>7} {:>9}  {:<16}  budget", "ratio", "budget", "tolerance", "");
    for (budget, verdict) in budgets.iter().zip(&verdicts) {
        println!("{}", budget.line(verdict, quick));
    }
    let count = |is: fn(&Verdict) -> bool| verdicts.iter().filter(|verdict| is(verdict)).count();
    let missing = count(|verdict| matches!(verdict, Verdict::Missing(_)));
    let over = count(|verdict| matches!(verdict, Verdict::Over(_)));
    if missing > 0 {
        let all = budgets.len();
        bail!(
            "{missing} of {all} budgets have no figures; those beside JAX need OXIDAX_BENCH_PYTHON"
        );
    }
    ensure!(quick || over == 0, "{over} of {} budgets are exceeded", budgets.len());
    Ok(())
}

/// Runs the benchmarks of these budgets, and returns what they print.
fn measure(budgets: &[Budget], quick: bool) -> Result<String> {
    let mut names: Vec<&str> = budgets.iter().map(|budget| budget.benchmark.as_str()).collect();
    names.dedup();
    bench(&names, &[], quick)
}

/// Returns the path of a benchmark's source.
#[cfg(test)]
fn source(benchmark: &str) -> PathBuf {
    root().join("benches").join(benchmark).with_extension("rs")
}
