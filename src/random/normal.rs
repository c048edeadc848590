//! Normal samplers.

use super::bits::split_words;
use super::key::Key;
use super::key_words::KeyWords;
use super::parameters::{CheckedArguments, SampleShape};
use super::sampler::{cast, constant, draw, draw_from, expect_float, parameter};
use super::uniform::{raw_uniform, uniform_each};
use crate::core::{Array, Aval, DType, IntoAval, RuleError, Scalar, Shape, throw_operands};
use crate::primitives::{
    ArrayLike, add, bitcast_convert_type, complex, div, eq, erf, erf_inv, gt, lt, maximum, minimum,
    mul, neg, stop_gradient, sub, where_,
};
use std::f64::consts::SQRT_2;
use std::ops::Range;

/// Returns the largest number below 1, negated: the open end of the range of `erf_inv`.
fn above_minus_one(dtype: DType) -> f64 {
    // The spacing below 1 is half the spacing above 1.
    dtype.epsilon() / 2.0 - 1.0
}

/// Real normal numbers with the words of a key.
#[track_caller]
pub(super) fn raw_normal(key: &KeyWords, shape: &Shape, dtype: DType) -> Array {
    let low = constant(above_minus_one(dtype), dtype);
    of_unit(&raw_uniform(key, shape, dtype, &low, &constant(1, dtype)))
}

/// One normal number for each of several keys.
#[track_caller]
pub(super) fn normal_each(keys: &KeyWords, dtype: DType) -> Array {
    let low = constant(above_minus_one(dtype), dtype);
    of_unit(&uniform_each(keys, dtype, &low, &constant(1, dtype)))
}

/// Converts uniform numbers between -1 and 1 to normal numbers.
#[track_caller]
fn of_unit(unit: &Array) -> Array {
    mul(constant(SQRT_2, unit.dtype()), erf_inv(unit))
}

/// Normal numbers, real or complex, with the words of a key.
#[track_caller]
pub(super) fn raw_any_normal(key: &KeyWords, shape: &Shape, dtype: DType) -> Array {
    if !dtype.is_complex() {
        return raw_normal(key, shape, dtype);
    }
    let [re, im] = split_words(key).map(|part| raw_normal(&part, shape, dtype.real()));
    div(complex(&re, &im), constant(Scalar::Complex(SQRT_2, 0.0), dtype))
}

/// Returns numbers of the standard normal distribution: mean 0, variance 1.
///
/// The dtype is `f32` (the default), `f16`, `bf16`, `f64`, `c64` or `c128`. Complex numbers have
/// variance ½ in each part.
///
/// Throws `Op` (dtype) for other dtypes.
///
/// ```
/// use oxidax::prelude::*;
/// let x = random::normal(random::key(0), [3]);
/// assert_eq!(x.to_vec::<f32>()?, [1.6226422, 2.0252647, -0.43359444]);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Giles: Approximating the erfinv function, GPU Computing Gems (2011).
#[doc(alias = "randn")]
#[track_caller]
pub fn normal(key: Key, shape: impl IntoAval) -> Array {
    let Aval { shape, dtype, .. } = shape.into_aval(DType::F32);
    expect_float("normal", dtype.real());
    draw_from(("normal", &shape, dtype), &key, &[], |words, _| {
        raw_any_normal(&words, &shape, dtype)
    })
}

/// Returns numbers of the standard normal distribution truncated to the open `range`.
///
/// The dtype is `f32` (the default), `f16`, `bf16` or `f64`. The bounds are numbers or arrays. They
/// broadcast to `shape`, or determine it if `shape` is `..`. The variance of the result is not 1.
///
/// Throws `Op` for other dtypes, and for bounds that do not broadcast.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let x = random::truncated_normal(random::key(0), [784, 10], -2.0..2.0);
/// ```
#[track_caller]
pub fn truncated_normal(key: Key, shape: impl SampleShape, range: Range<impl ArrayLike>) -> Array {
    let (shape, dtype) = shape.shape_and_dtype(DType::F32);
    expect_float("truncated_normal", dtype);
    let ends = [range.start.like(), range.end.like()].map(|end| parameter(end, dtype));
    let CheckedArguments { words, shape, parameters: [lower, upper] } =
        CheckedArguments::new("truncated_normal", &key, shape, ends);
    draw(|| {
        let (lower, upper) = (cast(&lower, dtype), cast(&upper, dtype));
        let sqrt2 = constant(SQRT_2, dtype);
        let [a, b] = [&lower, &upper].map(|end| erf(div(end, &sqrt2)));
        let unit = raw_uniform(&words, &shape, dtype, &a, &b);
        let numbers = mul(sqrt2, erf_inv(&unit));
        // Rounding, or drawing `a` itself, must not leave the open range.
        let first = next_above(&stop_gradient(&lower));
        let last = neg(next_above(&neg(stop_gradient(&upper))));
        minimum(maximum(first, numbers), last)
    })
}

/// Returns the next larger number of the dtype; infinity and NaN stay.
#[track_caller]
fn next_above(x: &Array) -> Array {
    let word = match x.dtype() {
        DType::F64 => DType::I64,
        DType::F32 => DType::I32,
        DType::F16 | DType::BF16 => DType::I16,
        other => {
            let error = RuleError::dtype(format!("needs a float of 16 to 64 bits, got {other}"));
            throw_operands("next_above", error, &[x])
        }
    };
    let bits = bitcast_convert_type(x, word);
    let one = constant(1, word);
    let zero = constant(0, x.dtype());
    // Floats of one sign are ordered like their bits.
    let farther = where_(gt(x, &zero), add(&bits, &one), sub(&bits, &one));
    let stepped = where_(eq(x, &zero), &one, farther);
    let infinity = constant(f64::INFINITY, x.dtype());
    where_(lt(x, &infinity), bitcast_convert_type(&stepped, x.dtype()), x)
}
