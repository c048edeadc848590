//! Binomial and multinomial samplers, by inversion if few successes are expected, else by
//! rejection.

use super::bits::{split_shape, split_words};
use super::gamma::any;
use super::key::Key;
use super::key_words::KeyWords;
use super::parameters::{CheckedArguments, SampleShape, sample_shape};
use super::poisson::{steps_of, transformed};
use super::sampler::{cast, constant, draw, expect_float, number_dtype, parameter};
use super::uniform::raw_unit;
use crate::control_flow::{scan, while_loop};
use crate::core::{Array, DType, RuleError, Shape, throw_operands};
use crate::ops::{clip, finfo, isinf, isnan, result_type};
use crate::primitives::{
    ArrayLike, RunningTotalOptions, abs, bitwise_not, broadcast_to, ceil, convert_element_type,
    cumsum_with, div, eq, floor, full_like, ge, gt, inexact, le, log, log1p, lt, moveaxis, neg,
    select, sqrt, sub, where_, zeros_like,
};

/// Returns numbers of successes in `n` independent trials of success probability `p`.
///
/// The dtype is `f32` (the default), `f16`, `bf16` or `f64`. `n` and `p` are numbers or arrays.
/// They broadcast to `shape`, or determine it if `shape` is `..`. The dtype of `p` is the dtype of
/// the computation; a number counts as `f32`, or as `f64` if the result is `f64`. The result is NaN
/// for a negative or NaN `n` and for a NaN `p`.
///
/// Throws `Op` for other dtypes, and for parameters that do not broadcast. Derivatives with respect
/// to the parameters are 0.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let heads = random::binomial(random::key(0), [1000], 10, 0.5);
/// ```
///
/// # Reference
/// Hörmann: The generation of binomial random variates (1993).
#[track_caller]
pub fn binomial(key: Key, shape: impl SampleShape, n: impl ArrayLike, p: impl ArrayLike) -> Array {
    let (shape, dtype) = shape.shape_and_dtype(DType::F32);
    expect_float("binomial", dtype);
    let [n, p] = [n.like(), p.like()].map(|value| parameter(value, number_dtype(dtype)));
    if p.dtype().is_inexact() {
        expect_float("binomial", p.dtype());
    }
    let CheckedArguments { words, shape, parameters: [n, p] } =
        CheckedArguments::new("binomial", &key, shape, [n, p]);
    draw(|| {
        let p = inexact(&p);
        let n = broadcast_to(&cast(&n, p.dtype()), &shape);
        raw_binomial(&words, &n, &broadcast_to(&p, &shape), dtype)
    })
}

/// Binomial numbers under the words of a key, inside a sampler. `n` and `p` have one shape and
/// dtype.
#[track_caller]
fn raw_binomial(key: &KeyWords, n: &Array, p: &Array, dtype: DType) -> Array {
    let no_trials = isnan(n) | lt(n, 0);
    let is_infinite = isinf(n);
    // The rarer of success and failure is counted.
    let rare = lt(p, 0.5);
    let q = select(&rare, p, &(1.0 - p));
    let (q_nan, q_negative) = (isnan(&q), lt(&q, 0));
    let q = where_(&(&q_nan | &q_negative), 0.01, &q);
    let few = &no_trials | le(n * &q, 10);
    let n = floor(n);
    let most = steps_of(finfo(dtype).map_or(0.0, |info| info.max));
    let inverted = by_inversion(key, &where_(&few, &n, 0), &q, most);
    let (n_many, q_many) = (where_(&few, 1e4, &n), where_(&few, 0.5, &q));
    let rejected = by_rejection(key, &n_many, &q_many, most);
    let number = select(&few, &cast(&inverted, dtype), &cast(&rejected, dtype));
    let invalid = &q_negative | &q_nan | &no_trials;
    let number = where_(&invalid, f64::NAN, &number);
    let number = where_(&(&is_infinite & !invalid), f64::INFINITY, &number);
    let counted = rare | no_trials | q_nan | is_infinite;
    select(&counted, &number, &sub(cast(&n, dtype), &number))
}

/// Counts the successes in `n` trials by drawing the waiting times between them.
#[track_caller]
fn by_inversion(key: &KeyWords, n: &Array, p: &Array, most: i32) -> Array {
    type State = (Array, Array, Array, KeyWords);
    let scale = log1p(neg(p));
    let step = |(at, number, trials, key): State| {
        let [now, next] = split_words(&key);
        let number = select(&le(&trials, n), &(&number + 1), &number);
        let unit = raw_unit(&now, n.shape(), p.dtype());
        (at + 1, number, trials + ceil(div(log(&unit), &scale)), next)
    };
    let pending = |(at, _, trials, _): State| any(&le(trials, n)) & lt(at, most);
    let zero = zeros_like(p);
    let start = (constant(0, DType::I32), zero.clone(), zero, key.clone());
    while_loop(pending, step, start).1 - 1
}

/// Draws by transformed rejection, for at least ten expected successes.
#[track_caller]
fn by_rejection(key: &KeyWords, n: &Array, p: &Array, most: i32) -> Array {
    let deviation = sqrt(&(n * p * (1 - p)));
    let b = 1.15 + 2.53 * &deviation;
    let a = -0.0873 + 0.0248 * &b + 0.01 * p;
    let c = n * p + 0.5;
    let limit = 0.92 - 4.2 / &b;
    let r = p / (1 - p);
    let alpha = (2.83 + 5.1 / &b) * deviation;
    let m = floor(&((n + 1) * p));
    transformed(key, n.shape(), p.dtype(), most, |u, v| {
        let us = 0.5 - abs(&u);
        let quick = ge(&us, 0.07) & le(&v, &limit);
        let k = floor(&((2 * &a / &us + &b) * &u + &c));
        let outside = lt(&k, 0) | gt(&k, n);
        let v = log(&(v * &alpha / (&a / (&us * &us) + &b)));
        let bound = (&m + 0.5) * log(&((&m + 1) / (&r * (n - &m + 1))))
            + (n + 1) * log(&((n - &m + 1) / (n - &k + 1)))
            + (&k + 0.5) * log(&(&r * (n - &k + 1) / (&k + 1)))
            + stirling_tail(&m)
            + stirling_tail(&(n - &m))
            - stirling_tail(&k)
            - stirling_tail(&(n - &k));
        let accepted = quick | (bitwise_not(&outside) & le(v, bound));
        (k, accepted)
    })
}

/// `log k!` minus Stirling's approximation, for `k` = 0 to 9.
const STIRLING_TAILS: [f64; 10] = [
    0.0810614667953272,
    0.0413406959554092,
    0.0276779256849983,
    0.02079067210376509,
    0.0166446911898211,
    0.0138761288230707,
    0.0118967099458917,
    0.0104112652619720,
    0.00925546218271273,
    0.00833056343336287,
];

/// Returns `log k!` minus Stirling's approximation: a table for small `k`, and a series.
#[track_caller]
fn stirling_tail(k: &Array) -> Array {
    let listed = le(k, 9);
    let k = clip(k, 0.0, 9.0);
    let square = (&k + 1) * (&k + 1);
    let series = (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / 1260.0 / &square) / &square) / (&k + 1);
    let at = convert_element_type(&floor(&k), DType::I32);
    let table = STIRLING_TAILS.iter().enumerate().rev();
    let value = table.fold(zeros_like(&k), |rest, (position, &tail)| {
        where_(eq(&at, position as i32), full_like(&k, tail), rest)
    });
    select(&listed, &value, &series)
}

/// Returns the number of occurrences of each outcome in `n` independent trials. The probabilities
/// `p` of the outcomes are along the last axis.
///
/// The dtype is `f32` (the default), `f16`, `bf16` or `f64`. `p`, `[…, k]`, broadcasts to `shape`,
/// or determines it if `shape` is `..`. It is normalized. `n` is a number or an array that
/// broadcasts to `shape` without the last axis. The computation has the dtype that `n` and `p`
/// promote to.
///
/// Throws `Op` for other dtypes, and for parameters that do not broadcast.
///
/// ```
/// use oxidax::prelude::*;
/// let p = Array::from_slice(&[0.2f32, 0.3, 0.5], [3])?;
/// let counts = random::multinomial(random::key(0), .., 100, &p);
/// assert_eq!(counts.sum().item::<f32>()?, 100.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn multinomial(key: Key, shape: impl SampleShape, n: impl ArrayLike, p: &Array) -> Array {
    let (shape, dtype) = shape.shape_and_dtype(DType::F32);
    expect_float("multinomial", dtype);
    let shape = sample_shape("multinomial", shape, &[p]);
    let Some(&k) = shape.last() else {
        let error = RuleError::shape("needs p of rank 1 and more, got a scalar");
        throw_operands("multinomial", error, &[p]);
    };
    let batch = shape.remove(shape.rank() - 1);
    let number = if p.dtype().is_inexact() { p.dtype() } else { DType::F32 };
    expect_float("multinomial", number);
    let n = parameter(n.like(), number);
    let CheckedArguments { words, parameters: [n], .. } =
        CheckedArguments::new("multinomial", &key, Some(batch.clone()), [n]);
    draw(|| {
        let joint = result_type([n.like(), p.like()]);
        let [n, p] = [&n, p].map(|x| inexact(&cast(x, joint)));
        let n = broadcast_to(&n, &batch);
        let p = moveaxis(&broadcast_to(&p, &shape), -1, 0);
        // Each outcome is binomial among the remaining trials.
        let left = cumsum_with(&p, 0, RunningTotalOptions { reverse: true });
        let shares = clip(&(p / where_(eq(&left, 0), 1, &left)), 0, 1);
        let keys = split_shape(&words, &Shape::new(&[k]));
        let step = |rest: Array, (share, key): (Array, KeyWords)| {
            let count = raw_binomial(&key, &rest, &share, rest.dtype());
            (rest - &count, count)
        };
        let (_, counts) = scan(step, n, (shares, keys));
        cast(&moveaxis(&counts, 0, -1), dtype)
    })
}
