//! Coin flips: as they fall, as signs, and how many it takes.

use super::gumbel::RandomMode;
use super::key::Key;
use super::parameters::{Prepared, SampleShape};
use super::sampler::{cast, constant, draw, expect_float, expect_integer, number_dtype, parameter};
use super::uniform::raw_unit;
use crate::core::{Array, DType, RuleError, Shape, throw_operands};
use crate::ops::finfo;
use crate::primitives::{
    ArrayLike, div, eq, floor, inexact, log, log1p, lt, neg, reshape, slice, where_,
};

/// Coin flips: `true` with probability `p`.
///
/// `p` is a number or a float array that broadcasts to `shape`, or gives it where `shape` is `..`; its
/// dtype says how finely it is resolved (2⁻²³ for a number, which counts as `f32`).
///
/// Throws `Op` if `p` is no float, or does not broadcast.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let kept = random::bernoulli(random::key(0), [128, 512], 0.9);
/// assert_eq!(kept.dtype(), DType::Bool);
/// ```
#[track_caller]
pub fn bernoulli(key: Key, shape: impl SampleShape, p: impl ArrayLike) -> Array {
    bernoulli_mode(key, shape, p, RandomMode::Low)
}

/// As [`bernoulli`], with a choice of how many bits a flip takes: [`RandomMode::High`] takes twice as many, and is
/// right for `p` far below 2⁻²³.
///
/// Throws `Op` as [`bernoulli`] does, and for [`RandomMode::Highest`].
#[track_caller]
pub fn bernoulli_mode(
    key: Key,
    shape: impl SampleShape,
    p: impl ArrayLike,
    mode: RandomMode,
) -> Array {
    if mode == RandomMode::Highest {
        let error = RuleError::value("has the modes Low and High, not Highest");
        throw_operands("bernoulli", error, &[]);
    }
    let p = parameter(p.like(), DType::F32);
    expect_float("bernoulli", p.dtype());
    let Prepared { words, shape, parameters: [p] } = Prepared::new("bernoulli", &key, shape, [p]);
    draw(|| match mode {
        RandomMode::Low => lt(raw_unit(&words, &shape, p.dtype()), p),
        _ => {
            let [first, second] = halves(&raw_unit(&words, &shape.insert(0, 2), p.dtype()), &shape);
            lt(second * resolution(p.dtype()), p - first)
        }
    })
}

/// The two arrays of `shape` that are stacked in `both`.
#[track_caller]
pub(super) fn halves(both: &Array, shape: &Shape) -> [Array; 2] {
    let mut limit = both.shape().to_vec();
    let mut start = vec![0; limit.len()];
    [0, 1].map(|at| {
        (start[0], limit[0]) = (at, at + 1);
        reshape(&slice(both, &start, &limit, &vec![1; start.len()]), shape)
    })
}

/// The distance of the uniform numbers of a dtype.
pub(super) fn resolution(dtype: DType) -> f64 {
    finfo(dtype).map_or(0.0, |info| 0.5f64.powi(info.nmant as i32))
}

/// Signs: 1 or -1, each with probability ½.
///
/// `dtype` is an integer of 8 to 64 bits, a float of 16 to 64 or complex; of an unsigned one, -1 is the
/// largest number.
///
/// Throws `Op` (dtype) for another dtype.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let signs = random::rademacher(random::key(0), [4, 3], DType::I32);
/// assert!(signs.to_vec::<i32>()?.iter().all(|sign| sign.abs() == 1));
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn rademacher(key: Key, shape: impl Into<Shape>, dtype: DType) -> Array {
    match dtype.is_inexact() {
        true => expect_float("rademacher", dtype.real()),
        false => expect_integer("rademacher", dtype),
    }
    let (shape, words) = (shape.into(), key.words("rademacher"));
    draw(|| raw_signs(&words, &shape, dtype))
}

/// Signs under the words of a key, inside a sampler.
#[track_caller]
pub(super) fn raw_signs(key: &[Array; 2], shape: &Shape, dtype: DType) -> Array {
    let half = constant(0.5, number_dtype(dtype));
    let heads = lt(raw_unit(key, shape, half.dtype()), half);
    2 * cast(&heads, dtype) - 1
}

/// How many flips it takes until the first `true` of probability `p`, that one included: 1 or more.
///
/// `dtype` is an integer of 8 to 64 bits. `p`, in `0..1`, is a number or an array that broadcasts to
/// `shape`, or gives it where `shape` is `..`; its dtype says how finely it is resolved (a number counts
/// as `f32`, and as `f64` where `dtype` has 64 bits).
///
/// Throws `Op` for another dtype, and if `p` does not broadcast.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let flips = random::geometric(random::key(0), [1000], DType::I32, 0.25);
/// assert!(flips.to_vec::<i32>()?.iter().all(|&n| n >= 1));
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn geometric(key: Key, shape: impl SampleShape, dtype: DType, p: impl ArrayLike) -> Array {
    expect_integer("geometric", dtype);
    let p = parameter(p.like(), number_dtype(dtype));
    if p.dtype().is_inexact() {
        expect_float("geometric", p.dtype());
    }
    let Prepared { words, shape, parameters: [p] } = Prepared::new("geometric", &key, shape, [p]);
    draw(|| {
        let p = inexact(&p);
        let unit = raw_unit(&words, &shape, p.dtype());
        // The logarithm of 0 would be a wait without end.
        let unit = where_(&eq(&unit, 0), 1, &unit);
        let flips = floor(&div(log(&unit), log1p(&neg(&p)))) + 1;
        cast(&flips, dtype)
    })
}
