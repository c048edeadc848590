//! The laws of primitives, checked on exemplars.

use super::jobs::{Jobs, Results};
use super::subject::Subject;
use super::{derivatives, edges, narrow, structure};
use crate::core::{DType, Error, Exemplar, RegistryEntry, Sample, catch};
use crate::runtime::disable_most_optimizations;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The comparison of a law, which is called with the results of its programs.
pub(super) type Check<'a> = Box<dyn FnOnce(&Results) -> Result<(), Error> + 'a>;

/// A law: adds programs to run, and returns the comparison of their results.
type Law = for<'a> fn(&'a Subject, &mut Jobs) -> Result<Check<'a>, Error>;

/// Laws with their names, which start with the number in the documentation.
pub(super) type Laws = [(&'static str, Law)];

const ALWAYS: &Laws = &[
    ("1 types of the compiled results", structure::types),
    ("4 batch = stacked loop", structure::batch),
    ("6 program = operation", structure::program_equals_operation),
    ("8 prints and parses to itself, verifies", structure::text),
    ("9 the same for all examples = copies", structure::copies),
    ("cost is finite", structure::cost),
    ("sharding rules speak of dimensions that are there", structure::sharding_rule),
];

/// Laws of differentiable exemplars, checked in `f64` or `c128` if possible.
const OF_DIFFERENTIABLE: &Laws = &[("7 symbolic zeros = dense zeros", derivatives::symbolic_zeros)];

/// Laws that need `f64` or `c128`, where finite differences are accurate.
const OF_WIDENED: &Laws = &[
    ("2 jvp = central differences", derivatives::jvp),
    ("5 second derivative = differences of the first", derivatives::second),
];

/// Laws that need `f64` or `c128` and reverse mode.
const OF_REVERSE: &Laws = &[("3 transpose is the adjoint", derivatives::transpose)];

/// Checks every law on every exemplar of a primitive. The programs are compiled with few
/// optimizations, because laws are about rules and most of the time goes to compilation.
///
/// # Errors
/// If a law fails: a list of the failed laws with exemplars and numbers.
///
/// ```no_run
/// use oxidax::testing::check_primitive;
/// let sin = oxidax::primitives::PRIMITIVES.iter().find(|entry| entry.name == "sin");
/// check_primitive(sin.expect("it is listed"))?;
/// # Ok::<(), String>(())
/// ```
pub fn check_primitive(entry: &RegistryEntry) -> Result<(), String> {
    disable_most_optimizations(|| check_all(entry))
}

fn check_all(entry: &RegistryEntry) -> Result<(), String> {
    let exemplars = (entry.exemplars)();
    if exemplars.is_empty() {
        return Err(format!("{}: has no exemplars", entry.name));
    }
    let mut failures = Vec::new();
    for (position, exemplar) in exemplars.iter().enumerate() {
        if exemplar.primitive.name() != entry.name {
            failures.push(format!("{}: listed as {}", exemplar.primitive.name(), entry.name));
        }
        for failure in check_one(entry, exemplar) {
            let primitive = &exemplar.primitive;
            failures.push(format!("{} exemplar {position} {primitive:?}: {failure}", entry.name));
        }
    }
    failures.extend(edges::check(entry, &exemplars, ALWAYS));
    failures.extend(narrow::check(entry, &exemplars));
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}

/// Checks every law on one exemplar of the primitive of `entry`. Returns the failures.
pub fn check_exemplar(entry: &RegistryEntry, exemplar: &Exemplar) -> Vec<String> {
    disable_most_optimizations(|| check_one(entry, exemplar))
}

fn check_one(entry: &RegistryEntry, exemplar: &Exemplar) -> Vec<String> {
    let subject = match attempt(|| Subject::new(entry, exemplar, &exemplar.operands)) {
        Ok(subject) => subject,
        Err(message) => return vec![format!("does not apply to its exemplar: {message}")],
    };
    if !exemplar.differentiable {
        return examine(&subject, &[ALWAYS]);
    }
    let wide: Vec<Sample> = exemplar.operands.iter().map(widened).collect();
    // A primitive with a dtype parameter may reject wider operands.
    let wide = attempt(|| Subject::new(entry, exemplar, &wide)).ok().filter(Subject::is_double);
    match wide {
        Some(wide) => {
            let reverse = if exemplar.reverse { OF_REVERSE } else { &[] };
            let mut failures = examine(&subject, &[ALWAYS]);
            failures.extend(examine(&wide, &[OF_WIDENED, reverse, OF_DIFFERENTIABLE]));
            failures
        }
        None => examine(&subject, &[ALWAYS, OF_DIFFERENTIABLE]),
    }
}

/// Checks laws on a subject, with all programs of all laws as one module.
fn examine(subject: &Subject, laws: &[&Laws]) -> Vec<String> {
    examine_all([("", subject, laws)])
}

/// Checks laws on labelled subjects, with all programs of all laws as one module.
pub(super) fn examine_all<'a>(
    subjects: impl IntoIterator<Item = (&'a str, &'a Subject, &'a [&'a Laws])>,
) -> Vec<String> {
    let mut jobs = Jobs::default();
    let mut failures = Vec::new();
    let mut checks = Vec::new();
    for (label, subject, laws) in subjects {
        let prefix = if label.is_empty() { String::new() } else { format!("{label}: ") };
        for (name, law) in laws.iter().copied().flatten() {
            let label = format!("{prefix}law {name}");
            match attempt(|| law(subject, &mut jobs)) {
                Ok(check) => checks.push((label, check)),
                Err(message) => failures.push(format!("{label}: {message}")),
            }
        }
    }
    match attempt(|| Ok(jobs.run())) {
        Ok(results) => {
            for (label, check) in checks {
                if let Err(message) = attempt(|| check(&results)) {
                    failures.push(format!("{label}: {message}"));
                }
            }
        }
        Err(message) => failures.push(format!("all laws: {message}")),
    }
    failures
}

/// Runs `f` and converts errors and panics to messages.
pub(super) fn attempt<T>(f: impl FnOnce() -> Result<T, Error>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(|| catch(f))) {
        Ok(Ok(Ok(value))) => Ok(value),
        Ok(Ok(Err(error)) | Err(error)) => Err(error.to_string()),
        Err(payload) => Err(payload
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| payload.downcast_ref::<&str>().map(ToString::to_string))
            .unwrap_or_else(|| "panicked".to_string())),
    }
}

fn widened(sample: &Sample) -> Sample {
    let dtype = match sample.aval.dtype {
        dtype if dtype.is_float() => DType::F64,
        dtype if dtype.is_complex() => DType::C128,
        other => other,
    };
    Sample { aval: sample.aval.with_dtype(dtype), ..sample.clone() }
}
