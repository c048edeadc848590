//! The Poisson sampler: by multiplication for small means, by rejection for large ones.

use super::bits::split_words;
use super::gamma::any;
use super::key::Key;
use super::key_words::KeyWords;
use super::parameters::{CheckedArguments, SampleShape};
use super::sampler::{cast, constant, draw, expect_integer, parameter};
use super::uniform::raw_unit;
use crate::control_flow::while_loop;
use crate::core::{Array, DType, Scalar, Shape};
use crate::primitives::{
    ArrayLike, abs, bitwise_not, broadcast_to, eq, floor, full_like, ge, gt, le, lgamma, log, lt,
    ne, neg, select, sqrt, zeros_like,
};

/// Returns the maximum number of steps of a loop, which JAX bounds by the largest number of a
/// dtype.
pub(super) fn steps_of(largest: f64) -> i32 {
    // No loop runs for more than `i32::MAX` steps.
    largest.min(f64::from(i32::MAX)) as i32
}

/// Returns numbers of events of the Poisson distribution of mean `lam`.
///
/// The dtype, `i32` by default, is an integer of 8 to 64 bits. `lam` is a number or an array. It
/// broadcasts to `shape`, or determines it if `shape` is `..`. It is converted to `f32`. A mean of
/// NaN gives -1.
///
/// Throws `Op` for other dtypes, and for a `lam` that does not broadcast.
///
/// ```
/// use oxidax::prelude::*;
/// let calls = random::poisson(random::key(0), [24], 3.5);
/// assert!(calls.to_vec::<i32>()?.iter().all(|&n| n >= 0));
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Knuth: The Art of Computer Programming, volume 2 (1969). Hörmann: The transformed rejection
/// method for generating Poisson random variables (1993).
#[track_caller]
pub fn poisson(key: Key, shape: impl SampleShape, lam: impl ArrayLike) -> Array {
    let (shape, dtype) = shape.shape_and_dtype(DType::I32);
    expect_integer("poisson", dtype);
    let lam = parameter(lam.like(), DType::F32);
    let CheckedArguments { words, shape, parameters: [lam] } =
        CheckedArguments::new("poisson", &key, shape, [lam]);
    let most = steps_of(dtype.int_range().1 as f64);
    draw(|| {
        let lam = broadcast_to(&cast(&lam, DType::F32), &shape);
        let small = ne(&lam, &lam) | lt(&lam, 10);
        let counted = counted(&words, &select(&small, &lam, &zeros_like(&lam)), dtype, most);
        let large = select(&small, &full_like(&lam, 1e5), &lam);
        let number = select(&small, &counted, &cast(&rejected(&words, &large, most), dtype));
        select(&eq(&lam, 0), &zeros_like(&number), &number)
    })
}

/// Counts the uniform numbers whose product stays above `e^-lam`.
#[track_caller]
fn counted(key: &KeyWords, lam: &Array, dtype: DType, most: i32) -> Array {
    type State = (Array, Array, KeyWords, Array);
    let end = neg(lam);
    let step = |(at, number, key, total): State| {
        let [next, now] = split_words(&key);
        let number = select(&gt(&total, &end), &(&number + 1), &number);
        let unit = raw_unit(&now, lam.shape(), DType::F32);
        (at + 1, number, next, total + log(&unit))
    };
    let go_on = |(at, _, _, total): State| any(&gt(total, &end)) & lt(at, most);
    let none = cast(&zeros_like(lam), dtype);
    let start = (constant(0, DType::I32), none, key.clone(), zeros_like(lam));
    while_loop(go_on, step, start).1 - 1
}

/// Draws by transformed rejection, for means of 10 and more.
#[track_caller]
fn rejected(key: &KeyWords, lam: &Array, most: i32) -> Array {
    let log_lam = log(lam);
    let b = 0.931 + 2.53 * sqrt(lam);
    let a = -0.059 + 0.02483 * &b;
    let inverse_alpha = 1.1239 + 1.1328 / (&b - 3.4);
    let limit = 0.9277 - 3.6224 / (&b - 2);
    transformed(key, lam.shape(), DType::F32, most, |u, v| {
        let shifted = 0.5 - abs(&u);
        let k = floor(&((2 * &a / &shifted + &b) * &u + lam + 0.43));
        let s = log(&(&v * &inverse_alpha / (&a / (&shifted * &shifted) + &b)));
        let t = neg(lam) + &k * &log_lam - lgamma(&(&k + 1));
        let quick = ge(&shifted, 0.07) & le(&v, &limit);
        let outside = lt(&k, 0) | (lt(&shifted, 0.013) & gt(&v, &shifted));
        let accepted = quick | (bitwise_not(&outside) & le(s, t));
        (k, accepted)
    })
}

/// Draws pairs of uniform numbers, the first between -½ and ½, until every element has accepted a
/// proposal of `propose`.
#[track_caller]
pub(super) fn transformed(
    key: &KeyWords,
    shape: &Shape,
    dtype: DType,
    most: i32,
    propose: impl Fn(Array, Array) -> (Array, Array),
) -> Array {
    type State = (Array, Array, Array, KeyWords);
    let step = |(at, number, done, key): State| {
        let [next, first, second] = split_words(&key);
        let u = raw_unit(&first, shape, dtype) - 0.5;
        let (proposed, accepted) = propose(u, raw_unit(&second, shape, dtype));
        // Accepted numbers may be replaced while other elements are pending.
        (at + 1, select(&accepted, &proposed, &number), done | accepted, next)
    };
    let go_on = |(at, _, done, _): State| any(&bitwise_not(&done)) & lt(at, most);
    let wide = |value: Scalar, dtype| broadcast_to(&constant(value, dtype), shape);
    let start = (
        constant(0, DType::I32),
        wide(Scalar::Int(-1), dtype),
        wide(Scalar::Bool(false), DType::Bool),
        key.clone(),
    );
    while_loop(go_on, step, start).1
}
