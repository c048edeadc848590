//! Bernoulli, Rademacher and geometric samplers.

use super::gumbel::RandomMode;
use super::key::Key;
use super::key_words::KeyWords;
use super::parameters::{CheckedArguments, SampleShape};
use super::sampler::{cast, constant, draw, expect_float, expect_integer, number_dtype, parameter};
use super::uniform::raw_unit;
use crate::core::{Array, Aval, DType, IntoAval, RuleError, Shape, throw_operands};
use crate::ops::finfo;
use crate::primitives::{
    ArrayLike, div, eq, floor, inexact, log, log1p, lt, neg, reshape, slice, where_,
};

/// Options of [`bernoulli_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BernoulliOptions {
    /// The number of random bits per element. [`RandomMode::High`] is exact for `p` far below 2⁻²³.
    pub mode: RandomMode,
}

/// Returns booleans that are true with probability `p`.
///
/// `p` is a number or a float array. It broadcasts to `shape`, or determines it if `shape` is `..`.
/// Its dtype determines the resolution of the probability: 2⁻²³ for a number, which counts as
/// `f32`.
///
/// Throws `Op` if `p` is not a float or does not broadcast.
///
/// ```
/// use oxidax::prelude::*;
/// let mask = random::bernoulli(random::key(0), [128, 512], 0.9);
/// assert_eq!(mask.dtype(), DType::Bool);
/// ```
#[track_caller]
pub fn bernoulli(key: Key, shape: impl SampleShape, p: impl ArrayLike) -> Array {
    bernoulli_with(key, shape, p, BernoulliOptions::default())
}

/// Returns random booleans, as [`bernoulli`], with options.
///
/// Throws `Op` in the cases of [`bernoulli`], and for [`RandomMode::Highest`].
#[track_caller]
pub fn bernoulli_with(
    key: Key,
    shape: impl SampleShape,
    p: impl ArrayLike,
    options: BernoulliOptions,
) -> Array {
    let BernoulliOptions { mode } = options;
    if mode == RandomMode::Highest {
        let error = RuleError::value("supports the modes Low and High, not Highest");
        throw_operands("bernoulli", error, &[]);
    }
    let (shape, dtype) = shape.shape_and_dtype(DType::Bool);
    if dtype != DType::Bool {
        let error = RuleError::dtype(format!("draws bool, not {dtype}"));
        throw_operands("bernoulli", error.help("convert the result with `astype`"), &[]);
    }
    let p = parameter(p.like(), DType::F32);
    expect_float("bernoulli", p.dtype());
    let CheckedArguments { words, shape, parameters: [p] } =
        CheckedArguments::new("bernoulli", &key, shape, [p]);
    draw(|| match mode {
        RandomMode::Low => lt(raw_unit(&words, &shape, p.dtype()), p),
        _ => {
            let [first, second] = halves(&raw_unit(&words, &shape.insert(0, 2), p.dtype()), &shape);
            lt(second * resolution(p.dtype()), p - first)
        }
    })
}

/// Splits an array with a first axis of size 2 into two arrays of `shape`.
#[track_caller]
pub(super) fn halves(both: &Array, shape: &Shape) -> [Array; 2] {
    let mut limit = both.shape().to_vec();
    let mut start = vec![0; limit.len()];
    [0, 1].map(|index| {
        (start[0], limit[0]) = (index, index + 1);
        reshape(&slice(both, &start, &limit, &vec![1; start.len()]), shape)
    })
}

/// Returns the spacing of the uniform numbers of a dtype.
pub(super) fn resolution(dtype: DType) -> f64 {
    finfo(dtype).map_or(0.0, |info| 0.5f64.powi(info.nmant as i32))
}

/// Returns 1 or -1, each with probability ½.
///
/// The dtype, `i32` by default, is an integer of 8 to 64 bits, a float of 16 to 64 bits, or
/// complex. In unsigned integers -1 wraps to the largest number.
///
/// Throws `Op` (dtype) for other dtypes.
///
/// ```
/// use oxidax::prelude::*;
/// let signs = random::rademacher(random::key(0), [4, 3]);
/// assert!(signs.to_vec::<i32>()?.iter().all(|sign| sign.abs() == 1));
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn rademacher(key: Key, shape: impl IntoAval) -> Array {
    let Aval { shape, dtype, .. } = shape.into_aval(DType::I32);
    if dtype.is_inexact() {
        expect_float("rademacher", dtype.real());
    } else {
        expect_integer("rademacher", dtype);
    }
    let words = key.words("rademacher");
    draw(|| raw_signs(&words, &shape, dtype))
}

/// Draws signs with the words of a key.
#[track_caller]
pub(super) fn raw_signs(key: &KeyWords, shape: &Shape, dtype: DType) -> Array {
    let half = constant(0.5, number_dtype(dtype));
    let heads = lt(raw_unit(key, shape, half.dtype()), half);
    2 * cast(&heads, dtype) - 1
}

/// Returns the number of trials up to and including the first success of probability `p`: 1 or
/// more.
///
/// The dtype, `i32` by default, is an integer of 8 to 64 bits. `p`, in `0..1`, is a number or an
/// array. It broadcasts to `shape`, or determines it if `shape` is `..`. Its dtype determines the
/// resolution: a number counts as `f32`, or as `f64` if the result has 64 bits.
///
/// Throws `Op` for another dtype, and if `p` does not broadcast.
///
/// ```
/// use oxidax::prelude::*;
/// let trials = random::geometric(random::key(0), [1000], 0.25);
/// assert!(trials.to_vec::<i32>()?.iter().all(|&n| n >= 1));
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn geometric(key: Key, shape: impl SampleShape, p: impl ArrayLike) -> Array {
    let (shape, dtype) = shape.shape_and_dtype(DType::I32);
    expect_integer("geometric", dtype);
    let p = parameter(p.like(), number_dtype(dtype));
    if p.dtype().is_inexact() {
        expect_float("geometric", p.dtype());
    }
    let CheckedArguments { words, shape, parameters: [p] } =
        CheckedArguments::new("geometric", &key, shape, [p]);
    draw(|| {
        let p = inexact(&p);
        let unit = raw_unit(&words, &shape, p.dtype());
        // The logarithm of 0 would give an infinite number of trials.
        let unit = where_(eq(&unit, 0), 1, &unit);
        let trials = floor(div(log(&unit), log1p(neg(&p)))) + 1;
        cast(&trials, dtype)
    })
}
