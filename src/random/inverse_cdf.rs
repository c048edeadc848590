//! Samplers that apply an inverse distribution function to a uniform number.

use super::gumbel::tiny;
use super::key::Key;
use super::key_words::KeyWords;
use super::parameters::{CheckedArguments, SampleShape, expect_castable, exponent};
use super::sampler::{cast, constant, draw, expect_float, parameter};
use super::uniform::{raw_uniform, raw_unit};
use crate::core::{Array, Aval, DType, IntoAval, Shape};
use crate::primitives::{
    ArrayLike, abs, broadcast_to, div, exp, log, log1p, lt, mul, neg, pow, select, sign, sqrt, sub,
    tan,
};
use std::f64::consts::PI;

/// Returns exponentially distributed numbers of mean 1.
///
/// The dtypes are those of [`uniform`](super::uniform()).
#[track_caller]
pub fn exponential(key: Key, shape: impl IntoAval) -> Array {
    plain("exponential", key, shape, raw_exponential)
}

/// Runs a sampler of floats without parameters.
#[track_caller]
fn plain(
    name: &str,
    key: Key,
    shape: impl IntoAval,
    raw: fn(&KeyWords, &Shape, DType) -> Array,
) -> Array {
    let Aval { shape, dtype, .. } = shape.into_aval(DType::F32);
    expect_float(name, dtype);
    let words = key.words(name);
    draw(|| raw(&words, &shape, dtype))
}

/// Draws exponential numbers with the words of a key.
#[track_caller]
pub(super) fn raw_exponential(key: &KeyWords, shape: &Shape, dtype: DType) -> Array {
    // log1p is accurate for small numbers, and its operand is never -1.
    neg(log1p(neg(raw_unit(key, shape, dtype))))
}

/// Returns numbers of the standard Cauchy distribution, of density `1 / (π (x² + 1))`.
///
/// The dtypes are those of [`uniform`](super::uniform()); other dtypes throw `Op` (dtype).
///
/// ```no_run
/// use oxidax::prelude::*;
/// let x = random::cauchy(random::key(0), [3]);
/// ```
#[track_caller]
pub fn cauchy(key: Key, shape: impl IntoAval) -> Array {
    plain("cauchy", key, shape, |key, shape, dtype| {
        let least = constant(dtype.epsilon(), dtype);
        let unit = raw_uniform(key, shape, dtype, &least, &constant(1, dtype));
        tan(mul(constant(PI, dtype), sub(unit, constant(0.5, dtype))))
    })
}

/// Returns numbers of the standard Laplace distribution, of density `e^-|x| / 2`.
///
/// The dtypes are those of [`uniform`](super::uniform()); other dtypes throw `Op` (dtype).
///
/// ```no_run
/// use oxidax::prelude::*;
/// let x = random::laplace(random::key(0), [3]);
/// ```
#[track_caller]
pub fn laplace(key: Key, shape: impl IntoAval) -> Array {
    plain("laplace", key, shape, |key, shape, dtype| {
        // The next number above -1 has a finite logarithm.
        let least = constant(dtype.epsilon() / 2.0 - 1.0, dtype);
        let unit = raw_uniform(key, shape, dtype, &least, &constant(1, dtype));
        mul(sign(&unit), log1p(neg(abs(&unit))))
    })
}

/// Returns numbers of the standard logistic distribution, of density `e^-x / (1 + e^-x)²`.
///
/// The dtypes are those of [`uniform`](super::uniform()); other dtypes throw `Op` (dtype).
///
/// ```no_run
/// use oxidax::prelude::*;
/// let x = random::logistic(random::key(0), [3]);
/// ```
#[track_caller]
pub fn logistic(key: Key, shape: impl IntoAval) -> Array {
    plain("logistic", key, shape, |key, shape, dtype| {
        let least = constant(tiny(dtype), dtype);
        let unit = raw_uniform(key, shape, dtype, &least, &constant(1, dtype));
        sub(log(&unit), log1p(neg(&unit)))
    })
}

/// Returns numbers of the Pareto distribution of shape parameter `b`, of density `b / x^(b + 1)`
/// for `x ≥ 1`.
///
/// The dtype is `f32` (the default), `f16`, `bf16` or `f64`. `b`, above 0, is a number or an array.
/// It broadcasts to `shape`, or determines it if `shape` is `..`.
///
/// Throws `Op` for other dtypes, and for a `b` that does not broadcast or promotes to a wider
/// dtype.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let incomes = random::pareto(random::key(0), [1000], 1.16);
/// ```
#[track_caller]
pub fn pareto(key: Key, shape: impl SampleShape, b: impl ArrayLike) -> Array {
    let (shape, dtype) = shape.shape_and_dtype(DType::F32);
    let CheckedArguments { words, shape, parameters: [b] } =
        CheckedArguments::floats("pareto", &key, shape, dtype, [b.like()]);
    draw(|| exp(div(raw_exponential(&words, &shape, dtype), cast(&b, dtype))))
}

/// Returns numbers of the Rayleigh distribution: lengths of vectors of two normal numbers of
/// deviation `scale`.
///
/// Parameters and errors are those of [`pareto`].
///
/// ```no_run
/// use oxidax::prelude::*;
/// let x = random::rayleigh(random::key(0), [3], 2.0);
/// ```
#[track_caller]
pub fn rayleigh(key: Key, shape: impl SampleShape, scale: impl ArrayLike) -> Array {
    let (shape, dtype) = shape.shape_and_dtype(DType::F32);
    let CheckedArguments { words, shape, parameters: [scale] } =
        CheckedArguments::floats("rayleigh", &key, shape, dtype, [scale.like()]);
    draw(|| {
        let exponents = mul(log(raw_unit(&words, &shape, dtype)), constant(-2, dtype));
        mul(cast(&scale, dtype), sqrt(&exponents))
    })
}

/// Returns numbers of the Weibull distribution of `scale` σ and `concentration` c, of density
/// `c/σ (x/σ)^(c-1) e^-(x/σ)^c` for `x ≥ 0`.
///
/// Parameters and errors are those of [`pareto`].
///
/// ```no_run
/// use oxidax::prelude::*;
/// let hours = random::weibull_min(random::key(0), [1000], 900.0, 1.5);
/// ```
#[track_caller]
pub fn weibull_min(
    key: Key,
    shape: impl SampleShape,
    scale: impl ArrayLike,
    concentration: impl ArrayLike,
) -> Array {
    let (shape, dtype) = shape.shape_and_dtype(DType::F32);
    expect_float("weibull_min", dtype);
    let scale = parameter(scale.like(), dtype);
    expect_castable("weibull_min", dtype, std::slice::from_ref(&scale));
    let concentration = exponent("weibull_min", dtype, concentration.like());
    let CheckedArguments { words, shape, parameters: [scale, concentration] } =
        CheckedArguments::new("weibull_min", &key, shape, [scale, concentration]);
    draw(|| {
        let waits = raw_exponential(&words, &shape, dtype);
        mul(pow(waits, cast(&(1.0 / concentration), dtype)), cast(&scale, dtype))
    })
}

/// Numbers with a triangular density, which rises from 0 at `left` to `mode` and falls to 0 at
/// `right`.
///
/// Needs `left ≤ mode ≤ right` and `left < right`. Parameters and errors are those of [`pareto`].
///
/// ```no_run
/// use oxidax::prelude::*;
/// let x = random::triangular(random::key(0), [100], 0.0, 0.25, 1.0);
/// ```
#[track_caller]
pub fn triangular(
    key: Key,
    shape: impl SampleShape,
    left: impl ArrayLike,
    mode: impl ArrayLike,
    right: impl ArrayLike,
) -> Array {
    let (shape, dtype) = shape.shape_and_dtype(DType::F32);
    let parameters = [left.like(), mode.like(), right.like()];
    let CheckedArguments { words, shape, parameters } =
        CheckedArguments::floats("triangular", &key, shape, dtype, parameters);
    draw(|| {
        let [left, mode, right] = parameters.map(|x| broadcast_to(&cast(&x, dtype), &shape));
        let unit = raw_unit(&words, &shape, dtype);
        let (width, rise, fall) = (&right - &left, &mode - &left, &right - &mode);
        let rising = &left + sqrt(&(&unit * &width * &rise));
        let falling = &right - sqrt(&((1 - &unit) * &width * fall));
        select(&lt(&unit, &rise / &width), &rising, &falling)
    })
}
