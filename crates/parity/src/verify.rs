//! Computes the cases of a suite and reports where the results differ from JAX's.

use crate::case::tolerance_text;
use crate::difference::mismatch;
use crate::fixtures::{Apply, Case, Suite};
use crate::joined::{Computed, Work, compute};
use crate::known::DELIBERATE;
use crate::{
    api, autodiff, collectives, control_flow, lax, lax_options, layers, linalg, nn, numpy, ops,
    optim, options, random, remaining, samplers, transforms,
};
use oxidax::prelude::*;
use serde_json::Value;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The suites that [`Suite::verify`] computes.
///
/// Not among them: types of results (`promotion`), training runs that need a dataset, and programs
/// on several devices.
pub const SUITES: &[&str] = &[
    "ops",
    "lax",
    "special",
    "numpy",
    "linalg",
    "api",
    "options",
    "lax_options",
    "remaining",
    "transforms",
    "autodiff",
    "control_flow",
    "refs",
    "collectives",
    "random",
    "samplers",
    "nn",
    "layers",
    "optim",
];

/// The results of one case beside JAX's.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CaseReport {
    /// Name of the case: `sin_f32`.
    pub name: String,
    /// The operation: `sin`.
    pub op: String,
    /// File and line of the Python code that computed it with JAX, or its line in the fixture.
    pub line: String,
    /// Outcome of the comparison.
    pub outcome: CaseOutcome,
}

impl CaseReport {
    /// Returns a line that describes the difference; `None` for a case that is as it should be.
    pub fn problem(&self) -> Option<String> {
        let name = &self.name;
        match &self.outcome {
            CaseOutcome::Equal | CaseOutcome::Within | CaseOutcome::Intended(_) => None,
            CaseOutcome::Failed(message) => Some(format!("{name}: {message}")),
            CaseOutcome::Different(differences) => {
                let lines = differences.iter().map(|difference| {
                    let ResultDifference { role, position, index, n_wrong, n, .. } = difference;
                    let ResultDifference { found, expected, tolerance, .. } = difference;
                    format!(
                        "{role} {position}: {found} against {expected} at [{index}], {n_wrong} of \
                         {n} elements, {tolerance}"
                    )
                });
                Some(format!("{name}: {}", lines.collect::<Vec<_>>().join("; ")))
            }
        }
    }
}

/// Outcome of the comparison of one case.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CaseOutcome {
    /// All results and derivatives are equal bit for bit.
    Equal,
    /// All differences are within the tolerances.
    Within,
    /// Some differ by more.
    Different(Vec<ResultDifference>),
    /// They differ, and the documentation says so. The text is the sentence of
    /// `docs/for-jax-users.md`.
    Intended(&'static str),
    /// The case was not computed: the error.
    Failed(String),
}

/// A result or derivative that differs from JAX's by more than its tolerance.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ResultDifference {
    /// The array is a result, or one of the derivatives `jvp` and `vjp`.
    pub role: &'static str,
    /// Its position among them.
    pub position: usize,
    /// Its type: `f32[3,4]`.
    pub aval: Aval,
    /// Index of the element with the largest relative difference, in row-major order. Parts of
    /// complex numbers count separately.
    pub index: usize,
    /// The largest relative difference.
    pub relative: f64,
    /// The value that oxidax computed.
    pub found: f64,
    /// The value that JAX computed.
    pub expected: f64,
    /// Number of elements that differ, and of all.
    pub n_wrong: usize,
    /// Number of all elements.
    pub n: usize,
    /// The tolerance: `rtol 2e-6, atol 1e-7`.
    pub tolerance: String,
}

/// Computes the cases of an operation.
pub(crate) enum Computation {
    /// Together with others in one program, with the recorded derivatives.
    Joined(Apply),
    /// Outside of any trace.
    Alone(fn(Case<'_>) -> Result<Vec<Array>, String>),
}

/// Returns the computation of a case, or `None` for a suite that is not in [`SUITES`].
pub(crate) fn computation(suite: &str, op: &str, params: &Value) -> Option<Computation> {
    Some(match suite {
        "ops" => Computation::Joined(ops::apply),
        "lax" | "special" => Computation::Joined(lax::apply),
        "numpy" => Computation::Joined(numpy::apply),
        "linalg" => Computation::Joined(linalg::apply),
        "api" => Computation::Joined(api::apply),
        "options" => Computation::Joined(options::apply),
        "lax_options" => Computation::Joined(lax_options::apply),
        "remaining" if params["family"] == "trimmed" => Computation::Alone(remaining::trimmed),
        "remaining" => Computation::Joined(remaining::apply),
        "transforms" => transforms::computation(op),
        "autodiff" => Computation::Joined(autodiff::apply),
        "control_flow" | "refs" => Computation::Joined(control_flow::apply),
        "collectives" => Computation::Joined(collectives::apply),
        "random" => Computation::Alone(|case| Ok(random::sample(case))),
        "samplers" => samplers::computation(params),
        "nn" => nn::computation(op),
        "layers" => layers::computation(op),
        "optim" => optim::computation(op),
        _ => return None,
    })
}

/// Returns true for suites in which JAX has 64-bit default types, which are 32-bit types here.
fn has_wide_defaults(suite: &str) -> bool {
    [
        "lax",
        "numpy",
        "linalg",
        "api",
        "options",
        "lax_options",
        "remaining",
        "control_flow",
        "refs",
        "collectives",
    ]
    .contains(&suite)
}

impl Suite {
    /// Computes every case on the default device and compares the results with JAX's. Reports are
    /// in the order of the cases.
    ///
    /// Cases of a suite that is not in [`SUITES`] fail, as does a case whose computation panics.
    #[must_use]
    pub fn verify(self) -> Vec<CaseReport> {
        let suite = if has_wide_defaults(&self.name) { self.with_narrow_defaults() } else { self };
        suite.reports(|op, params| computation(&suite.name, op, params))
    }

    /// Computes every case with `apply`, and compares the results as [`Suite::verify`] does.
    ///
    /// `apply` maps an operation, its parameters and its operands to the results. It runs inside
    /// `jit`, and is differentiated for cases with recorded derivatives. Results that are wide only
    /// by the 64-bit default types of the recording are compared as narrow ones.
    ///
    /// Tests of crates that build on oxidax call it with their functions.
    #[must_use]
    pub fn verify_with(self, apply: fn(&str, &Value, &[Array]) -> Vec<Array>) -> Vec<CaseReport> {
        self.with_narrow_defaults().reports(|_, _| Some(Computation::Joined(apply)))
    }

    fn reports(
        &self,
        computation: impl Fn(&str, &Value) -> Option<Computation>,
    ) -> Vec<CaseReport> {
        let suite = self;
        let cases: Vec<Case<'_>> = suite.cases.iter().map(|json| Case { suite, json }).collect();
        let mut joined = Vec::new();
        let mut computed: Vec<Option<Result<Computed, String>>> = vec![None; cases.len()];
        for (at, case) in cases.iter().enumerate() {
            match computation(case.op(), case.params()) {
                Some(Computation::Joined(apply)) => joined.push((at, case.work(apply))),
                Some(Computation::Alone(compute)) => {
                    let outcome = guarded(|| compute(*case));
                    computed[at] = Some(outcome.map(|values| (values, Vec::new(), Vec::new())));
                }
                None => {
                    let message = format!("the suite `{}` is not one of {SUITES:?}", suite.name);
                    computed[at] = Some(Err(message));
                }
            }
        }
        for (at, outcome) in compute_joined(joined) {
            computed[at] = Some(outcome);
        }
        let outcomes = computed.into_iter().map(|outcome| outcome.expect("every case has one"));
        let outcomes = cases.iter().zip(outcomes).enumerate();
        outcomes
            .map(|(at, (case, computed))| {
                let outcome = computed.and_then(|computed| compared(*case, &computed));
                report(*case, suite.line(at), outcome)
            })
            .collect()
    }

    /// Computes every case as [`Suite::verify_with`] does, for tests.
    ///
    /// # Panics
    /// Cases differ from JAX's results by more than their tolerances, fail, or there are none.
    #[track_caller]
    pub fn expect_equal(self, apply: fn(&str, &Value, &[Array]) -> Vec<Array>) {
        let reports = self.verify_with(apply);
        assert!(!reports.is_empty(), "the fixture has no cases");
        let problems: Vec<String> = reports.iter().filter_map(CaseReport::problem).collect();
        let (n_wrong, n) = (problems.len(), reports.len());
        assert!(problems.is_empty(), "{n_wrong} of {n} cases differ:\n{}", problems.join("\n"));
    }

    /// Compares arrays with the results of the case called `name`, without its derivatives.
    /// Returns `None` if there is no such case.
    pub fn compare(&self, name: &str, results: &[Array]) -> Option<CaseReport> {
        let index = self.cases.iter().position(|case| case["name"] == name)?;
        let json = &self.cases[index];
        let case = Case { suite: self, json };
        let own = &json["tolerance"];
        let compared = compare_all(case, "result", &json["outputs"], results, own);
        Some(report(case, self.line(index), compared.map(outcome)))
    }
}

fn outcome((is_equal, differences): (bool, Vec<ResultDifference>)) -> CaseOutcome {
    match (is_equal, differences.is_empty()) {
        (true, _) => CaseOutcome::Equal,
        (false, true) => CaseOutcome::Within,
        (false, false) => CaseOutcome::Different(differences),
    }
}

/// Computes many cases per program. A case that panics is computed alone, so that its panic is its
/// own failure.
fn compute_joined(works: Vec<(usize, Work)>) -> Vec<(usize, Result<Computed, String>)> {
    let mut outcomes = Vec::with_capacity(works.len());
    for chunk in works.chunks(crate::joined::CHUNK) {
        let together: Vec<Work> = chunk.iter().map(|(_, work)| work.clone()).collect();
        let results = guarded(|| Ok(compute(&together))).unwrap_or_else(|_| {
            let alone = |work: &Work| guarded(|| compute(std::slice::from_ref(work)).remove(0));
            together.iter().map(alone).collect()
        });
        outcomes.extend(chunk.iter().map(|(at, _)| *at).zip(results));
    }
    outcomes
}

/// Runs a computation. Errors that it throws and panics are `Err`.
fn guarded<R>(f: impl FnOnce() -> Result<R, String>) -> Result<R, String> {
    let caught = catch_unwind(AssertUnwindSafe(|| oxidax::catch(f)));
    match caught {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(error)) => Err(error.to_string()),
        Err(payload) => Err(message(&*payload)),
    }
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a message").to_owned()
}

fn report(case: Case<'_>, line: String, outcome: Result<CaseOutcome, String>) -> CaseReport {
    let outcome = outcome.unwrap_or_else(CaseOutcome::Failed);
    let deliberate = DELIBERATE.iter().find(|(name, _)| *name == case.name());
    let outcome = match (outcome, deliberate) {
        (CaseOutcome::Different(_) | CaseOutcome::Failed(_), Some((_, sentence))) => {
            CaseOutcome::Intended(sentence)
        }
        (outcome, _) => outcome,
    };
    CaseReport { name: case.name().to_owned(), op: case.op().to_owned(), line, outcome }
}

fn compared(case: Case<'_>, computed: &Computed) -> Result<CaseOutcome, String> {
    let (values, tangents, cotangents) = computed;
    let mut differences = Vec::new();
    let mut is_equal = true;
    let mut compare = |role: &'static str, keys: &Value, results: &[Array], own: &Value| {
        let (equal, wrong) = compare_all(case, role, keys, results, own)?;
        is_equal &= equal;
        differences.extend(wrong);
        Ok::<(), String>(())
    };
    compare("result", &case.json["outputs"], values, &case.json["tolerance"])?;
    if case.wrt().is_some() {
        compare("jvp", &case.json["grad"]["jvp"], tangents, &Value::Null)?;
        compare("vjp", &case.json["grad"]["vjp"], cotangents, &Value::Null)?;
    }
    Ok(outcome((is_equal, differences)))
}

/// Returns true if all results are equal bit for bit, and the differences beyond the tolerances.
fn compare_all(
    case: Case<'_>,
    role: &'static str,
    keys: &Value,
    results: &[Array],
    own: &Value,
) -> Result<(bool, Vec<ResultDifference>), String> {
    let keys = keys.as_array().map_or(&[][..], Vec::as_slice);
    if keys.len() != results.len() {
        return Err(format!("{} arrays ({role}), JAX returns {}", results.len(), keys.len()));
    }
    let (mut is_equal, mut differences) = (true, Vec::new());
    for (position, (key, result)) in keys.iter().zip(results).enumerate() {
        let expected = case.expected(key);
        let aval = Aval::new(expected.dtype, &expected.shape);
        if result.dtype() != expected.dtype || *result.shape().dims() != expected.shape[..] {
            return Err(format!("{role} {position} is {}, JAX's is {aval}", result.aval()));
        }
        let bytes = result.to_bytes().map_err(|error| error.to_string())?;
        is_equal &= bytes == expected.bytes;
        let tolerance = case.tolerance(expected.dtype, own);
        if let Some(wrong) = mismatch(expected.dtype, &bytes, &expected.bytes, &tolerance) {
            differences.push(ResultDifference {
                role,
                position,
                aval,
                index: wrong.index,
                relative: wrong.relative,
                found: wrong.found,
                expected: wrong.expected,
                n_wrong: wrong.n_wrong,
                n: wrong.n,
                tolerance: tolerance_text(&tolerance),
            });
        }
    }
    Ok((is_equal, differences))
}
