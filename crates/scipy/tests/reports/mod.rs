//! Comparison of a fixture with the functions of this crate.

use oxidax::prelude::*;
use oxidax_parity::{CaseOutcome, CaseReport, Suite};
use serde_json::Value;
use std::path::Path;

/// Returns a line for a case that differs.
fn problem(report: &CaseReport) -> Option<String> {
    match &report.outcome {
        CaseOutcome::Equal | CaseOutcome::Within | CaseOutcome::Intended(_) => None,
        CaseOutcome::Different(differences) => {
            let difference = differences.first().expect("a case that differs has a difference");
            Some(format!(
                "{}: {} {}: {} against {} at [{}], {} of {} elements, {}",
                report.name,
                difference.role,
                difference.position,
                difference.found,
                difference.expected,
                difference.index,
                difference.n_wrong,
                difference.n,
                difference.tolerance,
            ))
        }
        CaseOutcome::Failed(message) => Some(format!("{}: {message}", report.name)),
        other => Some(format!("{}: {other:?}", report.name)),
    }
}

/// Computes all cases of a fixture and fails with those that differ from JAX's results.
pub fn expect_equal(suite: &str, apply: fn(&str, &Value, &[Array]) -> Vec<Array>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python-compat/fixtures");
    let suite = Suite::open(folder, suite).unwrap_or_else(|error| panic!("{error}"));
    let reports = suite.verify_with(apply);
    assert!(!reports.is_empty(), "the fixture has no cases");
    let problems: Vec<String> = reports.iter().filter_map(problem).collect();
    assert!(
        problems.is_empty(),
        "{} of {} cases differ:\n{}",
        problems.len(),
        reports.len(),
        problems.join("\n")
    );
}
