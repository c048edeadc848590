//! The dtypes that a primitive accepts, and comparisons of each with a wider dtype.

use super::axes::{Axes, close, sample_of_all};
use super::jobs::{Job, Jobs, Results, evaluate_all};
use super::numbers::{array, numbers, sample};
use crate::core::{
    Array, DType, Error, Exemplar, Program, RegistryEntry, Sample, bind_shared, catch,
};
use crate::runtime::disable_most_optimizations;
use crate::transforms::staging::trace_rules;
use num_complex::Complex64;

/// Primitives whose results depend on the width of their operands or are not unique, as the signs
/// of eigenvectors.
const INCOMPARABLE: &[&str] = &[
    "bitcast_convert_type",
    "count_leading_zeros",
    "eig",
    "eigh",
    "nextafter",
    "population_count",
    "reduce_precision",
    "rng_bit_generator",
    "shift_right_arithmetic",
    "shift_right_logical",
    "svd",
];

/// Tolerance of a result for equal rounded operands, in units in the last place of the largest
/// element.
const ULPS: f64 = 64.0;

/// A primitive on operands of which some have this dtype.
#[derive(Debug)]
pub struct Variant {
    /// The dtype of one kind of operand, or of the result if there are no operands.
    pub dtype: DType,
    /// The program of the operation.
    pub program: Program,
    exemplar: Exemplar,
    /// The dtype that the exemplar has in its place.
    instead_of: Option<DType>,
}

/// Returns one variant of the primitive for every dtype that its `abstract_eval` accepts for one
/// kind of operand of some exemplar.
///
/// ```
/// use oxidax::primitives::PRIMITIVES;
/// let floor = PRIMITIVES.iter().find(|entry| entry.name == "floor").expect("it is listed");
/// let variants = oxidax::testing::variants(floor);
/// assert!(variants.iter().all(|variant| variant.dtype.is_float()));
/// ```
pub fn variants(entry: &RegistryEntry) -> Vec<Variant> {
    let mut variants: Vec<Variant> = Vec::new();
    let mut add = |variant: Option<Variant>| {
        let new = variant.filter(|new| !variants.iter().any(|other| other.dtype == new.dtype));
        variants.extend(new);
    };
    let exemplars = (entry.exemplars)();
    // The exemplars' dtypes first, then other dtypes; exemplars with elements before those without.
    let (full, empty): (Vec<_>, Vec<_>) =
        exemplars.iter().partition(|exemplar| has_elements(exemplar));
    let exemplars = || full.iter().chain(&empty).copied();
    for exemplar in exemplars() {
        match dtypes_of(exemplar).as_slice() {
            [] => add(Variant::new(exemplar.clone(), None)),
            own => own.iter().for_each(|&dtype| add(Variant::with(exemplar, dtype, dtype))),
        }
    }
    // A primitive that holds a user-defined closure accepts what the closure accepts.
    for exemplar in exemplars().filter(|exemplar| !exemplar.primitive.is_opaque()) {
        for own in dtypes_of(exemplar) {
            DType::all().for_each(|dtype| add(Variant::with(exemplar, own, dtype)));
        }
    }
    variants.sort_by_key(|variant| variant.dtype);
    variants
}

/// Returns one program that computes all variants: a compiler that accepts it accepts each variant.
pub fn joined(variants: &[Variant]) -> Program {
    let avals = variants.iter().flat_map(|variant| variant.program.avals_in());
    trace_rules(avals, |inputs| {
        evaluate_all(variants.iter().map(|variant| &variant.program), inputs)
    })
}

/// Runs all variants as one module, and compares each with the same operation on the same numbers
/// in `f64`, `c128`, `i64` or `u64`. Returns, for each dtype, the compiler's error or the
/// difference.
pub fn check_dtypes(entry: &RegistryEntry) -> Vec<(DType, Result<(), String>)> {
    let variants = variants(entry);
    let mut jobs = Jobs::default();
    let queued: Vec<_> = variants
        .iter()
        .map(|variant| catch(|| variant.queue(entry, &mut jobs)).flatten())
        .collect();
    let results = disable_most_optimizations(|| jobs.run());
    let verdict = |(variant, queued): (&Variant, Result<QueuedRuns, Error>)| {
        let outcome = queued.and_then(|queued| queued.check(&results));
        (variant.dtype, outcome.map_err(|error| error.to_string()))
    };
    variants.iter().zip(queued).map(verdict).collect()
}

fn has_elements(exemplar: &Exemplar) -> bool {
    exemplar.operands.iter().all(|operand| operand.aval.size() > 0)
}

/// Returns the distinct dtypes of the operands.
fn dtypes_of(exemplar: &Exemplar) -> Vec<DType> {
    let mut dtypes: Vec<DType> =
        exemplar.operands.iter().map(|operand| operand.aval.dtype).collect();
    dtypes.sort_unstable();
    dtypes.dedup();
    dtypes
}

/// Returns the widest dtype of the same kind, unless `dtype` is the widest.
fn wide(dtype: DType) -> Option<DType> {
    let wide = match dtype {
        // The dtype has neither zero nor negative numbers, so a comparison shows little.
        DType::F8E8M0FNU => return None,
        _ if dtype.is_float() => DType::F64,
        _ if dtype.is_complex() => DType::C128,
        _ if dtype.is_unsigned() => DType::U64,
        _ if dtype.is_integer() => DType::I64,
        _ => return None,
    };
    (wide != dtype).then_some(wide)
}

/// Returns the operands with `to` in place of `from`.
fn replaced(operands: &[Sample], from: DType, to: DType) -> Vec<Sample> {
    operands
        .iter()
        .map(|one| {
            if one.aval.dtype == from {
                Sample { aval: one.aval.with_dtype(to), ..one.clone() }
            } else {
                one.clone()
            }
        })
        .collect()
}

impl Variant {
    /// Returns the exemplar with `to` in place of `from`; `None` if the primitive rejects it.
    fn with(exemplar: &Exemplar, from: DType, to: DType) -> Option<Variant> {
        let operands = replaced(&exemplar.operands, from, to);
        Variant::new(Exemplar { operands, ..exemplar.clone() }, Some(to))
    }

    fn new(exemplar: Exemplar, dtype: Option<DType>) -> Option<Variant> {
        let avals: Vec<_> = exemplar.operands.iter().map(|one| one.aval.clone()).collect();
        let results = exemplar.primitive.abstract_eval(&avals).ok()?;
        let program = trace_rules(avals, |inputs| {
            bind_shared(&exemplar.primitive, &inputs.iter().collect::<Vec<_>>())
        });
        let axes: &Axes = &exemplar.axes;
        let program = close(&program, axes);
        let shown = dtype.or_else(|| Some(results.first()?.dtype))?;
        Some(Variant { dtype: shown, program, exemplar, instead_of: dtype })
    }

    fn queue(&self, entry: &RegistryEntry, jobs: &mut Jobs) -> Result<QueuedRuns, Error> {
        let samples = &self.exemplar.operands;
        let operands: Vec<Array> = samples
            .iter()
            .map(|one| sample_of_all(one, &self.exemplar.axes))
            .enumerate()
            .map(|(index, one)| sample(&one, index as u64 + 1))
            .collect::<Result<_, _>>()?;
        let own = jobs.add(&self.program, operands.clone());
        let comparable = has_elements(&self.exemplar) && !INCOMPARABLE.contains(&entry.name);
        let wide = match (self.instead_of, self.instead_of.and_then(wide)) {
            (Some(dtype), Some(wide)) if comparable => {
                let samples = replaced(samples, dtype, wide);
                Variant::new(Exemplar { operands: samples, ..self.exemplar.clone() }, Some(wide))
            }
            _ => None,
        };
        let wide = match wide {
            Some(wide) => {
                let to_wide = |x: &Array| {
                    if x.dtype() == self.dtype {
                        array(&x.aval().with_dtype(wide.dtype), &numbers(x)?.0)
                    } else {
                        Ok(x.clone())
                    }
                };
                let operands = operands.iter().map(to_wide).collect::<Result<_, _>>()?;
                Some(jobs.add(&wide.program, operands))
            }
            None => None,
        };
        Ok(QueuedRuns { own, wide })
    }
}

/// The runs of a variant.
struct QueuedRuns {
    own: Job,
    wide: Option<Job>,
}

impl QueuedRuns {
    fn check(self, results: &Results) -> Result<(), Error> {
        let own = results.of(self.own)?;
        let Some(wide) = self.wide else {
            return own.iter().try_for_each(|x| numbers(x).map(|_| ()));
        };
        // The plugin may not support the wider dtype.
        let Ok(wide) = results.of(wide) else { return Ok(()) };
        for (index, (x, y)) in own.iter().zip(wide).enumerate() {
            let (a, b) = (numbers(x)?.0, numbers(y)?.0);
            if let Some(i) = (0..a.len()).find(|&i| !same(x.dtype(), y.dtype(), a[i], b[i], &b)) {
                let message = format!(
                    "result {index}, element {i}: {}, and {} from {}",
                    a[i],
                    b[i],
                    y.dtype()
                );
                return super::subject::fail(message);
            }
        }
        Ok(())
    }
}

/// Returns true if a result of dtype `own` is the rounded result of dtype `wide`.
fn same(own: DType, wide: DType, a: Complex64, b: Complex64, all: &[Complex64]) -> bool {
    if own == wide {
        return a == b || (a.is_nan() && b.is_nan());
    }
    if own.is_integer() {
        let modulus = 2f64.powi(own.bits() as i32);
        // Beyond 2⁵³ a double has no low bits.
        return b.re.abs() > 9e15 || (a.re - b.re).rem_euclid(modulus) == 0.0;
    }
    near(own, a, b, all, ULPS)
}

/// Returns true if `a` of dtype `own` equals `b` up to rounding, or differs by at most this number
/// of units in the last place of the largest of `all`.
pub(super) fn near(own: DType, a: Complex64, b: Complex64, all: &[Complex64], ulps: f64) -> bool {
    let (largest, epsilon) = (own.real().float_max(), own.real().epsilon());
    let finite = all.iter().filter(|x| x.is_finite());
    let scale = finite.map(|x| x.norm()).fold(f64::MIN_POSITIVE, f64::max);
    let part = |a: f64, b: f64| {
        a == b
            || (a.is_nan() && b.is_nan())
            || b.abs() > largest / 2.0
            || (b.is_infinite() && !own.real().has_infinity())
            || (a - b).abs() <= ulps * epsilon * scale.min(largest) + 1e-3 * epsilon
    };
    part(a.re, b.re) && part(a.im, b.im)
}
