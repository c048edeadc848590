//! Derivatives and batches in `bf16`, the dtype of most training.

use super::derivatives::{cotangents, vjp_of};
use super::dtypes::near;
use super::jobs::{Job, Jobs, Results};
use super::laws::{Check, attempt};
use super::numbers::{array, numbers};
use super::structure;
use super::subject::{Subject, fail, with_directions};
use crate::core::{Array, DType, Error, Exemplar, RegistryEntry, Sample, Tangent};

/// Tolerance of a derivative in units in the last place of the largest element. Derivatives have
/// intermediate roundings, including those of sums whose terms cancel.
const ULPS: f64 = 16.0;

/// Primitives whose derivatives have many roundings or are ill-conditioned.
const AMPLIFYING: &[(&str, f64)] = &[];

/// Checks laws 2, 3 and 4 on all exemplars of a primitive with `bf16` in place of other floats:
/// derivatives equal the rounded derivatives of the same numbers in `f64`, and a batch equals its
/// examples. All programs run as one module.
pub(super) fn check(entry: &RegistryEntry, exemplars: &[Exemplar]) -> Vec<String> {
    let pairs: Vec<Pair> = exemplars
        .iter()
        .enumerate()
        .filter(|(_, exemplar)| exemplar.differentiable)
        .filter_map(|(position, exemplar)| Pair::new(entry, position, exemplar))
        .collect();
    let mut jobs = Jobs::default();
    let mut failures = Vec::new();
    let mut checks = Vec::new();
    for pair in &pairs {
        for (law, queue) in pair.laws() {
            match attempt(|| queue(pair, &mut jobs)) {
                Ok(check) => checks.push((pair.position, law, check)),
                Err(message) => failures.push((pair.position, law, message)),
            }
        }
    }
    let ran = attempt(|| Ok(jobs.run()));
    for (position, law, check) in checks {
        let outcome = match &ran {
            Ok(results) => attempt(|| check(results)),
            Err(message) => Err(message.clone()),
        };
        failures.extend(outcome.err().map(|message| (position, law, message)));
    }
    failures
        .into_iter()
        .map(|(position, law, message)| {
            format!("{} exemplar {position} in bf16: law {law}: {message}", entry.name)
        })
        .collect()
}

/// An exemplar in `bf16`, and in `f64` with the same numbers.
struct Pair {
    position: usize,
    narrow: Subject,
    wide: Subject,
    reverse: bool,
    ulps: f64,
}

type Law = for<'a> fn(&'a Pair, &mut Jobs) -> Result<Check<'a>, Error>;

impl Pair {
    /// Returns `None` if the primitive rejects such operands.
    fn new(entry: &RegistryEntry, position: usize, exemplar: &Exemplar) -> Option<Pair> {
        let subject_of = |dtype: DType| {
            let samples = exemplar.operands.iter().map(|one| {
                if one.aval.dtype.is_float() {
                    Sample { aval: one.aval.with_dtype(dtype), ..one.clone() }
                } else {
                    one.clone()
                }
            });
            let subject =
                attempt(|| Subject::new(entry, exemplar, &samples.collect::<Vec<_>>())).ok()?;
            let avals = subject.program.avals_out();
            let inexact = avals.iter().filter(|aval| aval.dtype.is_inexact());
            let fits = subject.operands.iter().any(|x| x.dtype() == dtype)
                && subject.operands.iter().all(|x| !x.dtype().is_complex())
                && inexact.clone().count() > 0
                && inexact.clone().all(|aval| aval.dtype == dtype);
            fits.then_some(subject)
        };
        let (narrow, mut wide) = (subject_of(DType::BF16)?, subject_of(DType::F64)?);
        wide.operands = narrow.operands.iter().map(widened).collect::<Result<_, _>>().ok()?;
        let ulps = AMPLIFYING.iter().find(|(name, _)| *name == entry.name).map_or(ULPS, |it| it.1);
        Some(Pair { position, narrow, wide, reverse: exemplar.reverse, ulps })
    }

    fn laws(&self) -> Vec<(&'static str, Law)> {
        let mut laws: Vec<(&'static str, Law)> = vec![
            ("2 jvp, rounded", Pair::jvp),
            ("4 batch = stacked loop", |pair, jobs| structure::batch(&pair.narrow, jobs)),
        ];
        if self.reverse {
            laws.push(("3 transpose, rounded", Pair::vjp));
        }
        laws
    }

    fn jvp<'a>(&'a self, jobs: &mut Jobs) -> Result<Check<'a>, Error> {
        let directions = self.narrow.directions(31)?;
        let wide: Vec<Tangent> = directions
            .iter()
            .zip(&self.wide.operands)
            .map(|(direction, x)| match direction {
                Tangent::Dense(v) => Ok(Tangent::Dense(widened(v)?)),
                Tangent::Zero(_) => Ok(Tangent::zero_like(x)),
            })
            .collect::<Result<_, Error>>()?;
        let mut queue = |subject: &Subject, directions: &[Tangent]| {
            let program = subject.jvp_of(&subject.program, directions);
            subject.run(jobs, &program, with_directions(&subject.operands, directions))
        };
        self.compare(queue(&self.narrow, &directions), queue(&self.wide, &wide))
    }

    fn vjp<'a>(&'a self, jobs: &mut Jobs) -> Result<Check<'a>, Error> {
        let cts = cotangents(&self.narrow, 37)?;
        let wide = cts.iter().map(widened).collect::<Result<Vec<_>, _>>()?;
        let mut queue = |subject: &Subject, cts: &[Array]| {
            let arguments: Vec<Array> = subject.operands.iter().chain(cts).cloned().collect();
            subject.run(jobs, &vjp_of(subject), arguments)
        };
        self.compare(queue(&self.narrow, &cts), queue(&self.wide, &wide))
    }

    fn compare(&self, narrow: Job, wide: Job) -> Result<Check<'_>, Error> {
        Ok(Box::new(move |results: &Results| {
            let pairs = results.of(narrow)?.iter().zip(results.of(wide)?);
            for (index, (x, y)) in pairs.enumerate() {
                let (a, b) = (numbers(x)?.0, numbers(y)?.0);
                if x.dtype() != DType::BF16 {
                    return fail(format!("derivative {index} is {}", x.aval()));
                }
                if let Some(i) = (0..a.len()).find(|&i| !near(x.dtype(), a[i], b[i], &b, self.ulps))
                {
                    return fail(format!(
                        "derivative {index}, element {i}: {}, and {} from f64",
                        a[i], b[i]
                    ));
                }
            }
            Ok(())
        }))
    }
}

/// Converts `bf16` numbers to `f64`.
fn widened(x: &Array) -> Result<Array, Error> {
    match x.dtype() {
        DType::BF16 => array(&x.aval().with_dtype(DType::F64), &numbers(x)?.0),
        _ => Ok(x.clone()),
    }
}
