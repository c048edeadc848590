//! The table of a comparison, and the list of differences.

use oxidax_parity::{CaseOutcome, CaseReport, ResultDifference, Suite};
use serde_json::Value;
use std::error::Error;
use std::io::{self, Write as _};
use std::process::ExitCode;

/// The most differences of a suite that are listed.
const LISTED: usize = 40;

/// Numbers of cases by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    equal: usize,
    within: usize,
    different: usize,
    intended: usize,
    failed: usize,
}

impl Counts {
    fn count(&mut self, outcome: &CaseOutcome) {
        match outcome {
            CaseOutcome::Equal => self.equal += 1,
            CaseOutcome::Within => self.within += 1,
            CaseOutcome::Different(_) => self.different += 1,
            CaseOutcome::Intended(_) => self.intended += 1,
            _ => self.failed += 1,
        }
    }

    fn plus(self, other: Counts) -> Counts {
        Counts {
            equal: self.equal + other.equal,
            within: self.within + other.within,
            different: self.different + other.different,
            intended: self.intended + other.intended,
            failed: self.failed + other.failed,
        }
    }

    fn row(self, name: &str) -> String {
        let Counts { equal, within, different, intended, failed } = self;
        let all = equal + within + different + intended + failed;
        format!("{name:<14}{all:>7}{equal:>9}{within:>11}{different:>11}{intended:>10}{failed:>9}")
    }
}

/// Outcomes of all suites. Rows are printed as suites are compared.
#[derive(Debug)]
pub(super) struct Totals {
    counts: Counts,
    has_heading: bool,
    details: Vec<String>,
}

impl Totals {
    pub(super) fn new() -> Totals {
        Totals { counts: Counts::default(), has_heading: false, details: Vec::new() }
    }

    fn heading(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.has_heading, true) {
            writeln!(
                io::stdout(),
                "{:<14}{:>7}{:>9}{:>11}{:>11}{:>10}{:>9}",
                "suite",
                "cases",
                "equal",
                "tolerance",
                "different",
                "intended",
                "failed"
            )?;
        }
        Ok(())
    }

    /// Computes the cases of a suite with oxidax and prints its row.
    pub(super) fn add(&mut self, name: &str, suite: Suite) -> io::Result<()> {
        self.heading()?;
        let reports = suite.verify();
        let mut counts = Counts::default();
        reports.iter().for_each(|report| counts.count(&report.outcome));
        writeln!(io::stdout(), "{}", counts.row(name))?;
        self.counts = self.counts.plus(counts);
        let details: Vec<String> =
            reports.iter().filter_map(|report| detail(name, report)).collect();
        let left_out = details.len().saturating_sub(LISTED);
        self.details.extend(details.into_iter().take(LISTED));
        if left_out > 0 {
            self.details.push(format!("{name}: {left_out} more"));
        }
        Ok(())
    }

    /// Prints the row of a suite that JAX did not compute.
    pub(super) fn not_computed(&mut self, name: &str, error: &str) -> io::Result<()> {
        self.heading()?;
        writeln!(io::stdout(), "{name:<14}  not computed by JAX: {error}")
    }

    /// Records the cases that JAX failed to compute, which do not count: this version of JAX may
    /// lack the function.
    pub(super) fn failures_of_jax(&mut self, name: &str, failures: &Value) {
        for (case, error) in failures.as_object().into_iter().flatten() {
            let error = error.as_str().unwrap_or_default();
            self.details.push(format!("{name} {case}: not computed by JAX: {error}"));
        }
    }

    /// Prints the sums and the differences. The exit code is 1 if there are any, or if nothing was
    /// compared.
    pub(super) fn finish(self) -> Result<ExitCode, Box<dyn Error>> {
        writeln!(io::stdout(), "{}", self.counts.row("all"))?;
        for detail in &self.details {
            writeln!(io::stdout(), "\n{detail}")?;
        }
        let Counts { different, failed, .. } = self.counts;
        let is_empty = self.counts == Counts::default();
        Ok(if different + failed > 0 || is_empty { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

/// Returns the lines about a case that differs or failed.
fn detail(suite: &str, report: &CaseReport) -> Option<String> {
    let CaseReport { name, op, line, outcome, .. } = report;
    let title = format!("{suite} {name}: {op}  {line}");
    match outcome {
        CaseOutcome::Different(differences) => {
            let rows: Vec<String> = differences.iter().map(describe).collect();
            Some(format!("{title}\n  {}", rows.join("\n  ")))
        }
        CaseOutcome::Failed(message) => {
            let message = message.replace('\n', "\n  ");
            Some(format!("{title}\n  not computed: {message}"))
        }
        _ => None,
    }
}

/// Returns the row of one array: type, largest relative difference, the values and the tolerance.
pub(super) fn describe(difference: &ResultDifference) -> String {
    let ResultDifference { role, position, aval, index, relative, found, expected, .. } =
        difference;
    let ResultDifference { n_wrong, n, tolerance, .. } = difference;
    format!(
        "{role} {position} {aval}: {n_wrong} of {n} differ, most at [{index}], by {relative:.1e}: \
         oxidax {found:?}, JAX {expected:?} ({tolerance})"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_counted() {
        let mut counts = Counts::default();
        for outcome in [
            CaseOutcome::Equal,
            CaseOutcome::Equal,
            CaseOutcome::Within,
            CaseOutcome::Different(Vec::new()),
            CaseOutcome::Intended("documented"),
            CaseOutcome::Failed("an error".into()),
        ] {
            counts.count(&outcome);
        }
        let doubled = counts.plus(counts);
        assert_eq!((doubled.equal, doubled.different, doubled.failed), (4, 2, 2));
        let row = counts.row("ops");
        assert_eq!(
            row.split_whitespace().collect::<Vec<_>>(),
            ["ops", "6", "2", "1", "1", "1", "1"]
        );
    }
}
