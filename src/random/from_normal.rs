//! Samplers based on normal numbers.

use super::bernoulli::raw_signs;
use super::bits::split_words;
use super::key::Key;
use super::key_words::KeyWords;
use super::normal::{raw_any_normal, raw_normal};
use super::parameters::{CheckedArguments, SampleShape, expect_castable};
use super::sampler::{cast, draw, expect_float, parameter};
use super::uniform::raw_unit;
use crate::core::{Array, Aval, DType, IntoAval, Shape};
use crate::primitives::{
    ArrayLike, add, broadcast_to, div, exp, integer_pow, le, mul, select, sqrt,
};

/// Returns numbers whose logarithm is normal with mean 0 and standard deviation `sigma`.
///
/// The dtype is `f32` (the default), `f16`, `bf16`, `f64`, `c64` or `c128`. `sigma` is a number or
/// an array. It broadcasts to `shape`, or determines it if `shape` is `..`.
///
/// Throws `Op` for other dtypes, and for a `sigma` that does not broadcast or promotes to a wider
/// dtype.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let x = random::lognormal(random::key(0), [100], 0.5);
/// ```
#[track_caller]
pub fn lognormal(key: Key, shape: impl SampleShape, sigma: impl ArrayLike) -> Array {
    let (shape, dtype) = shape.shape_and_dtype(DType::F32);
    expect_float("lognormal", dtype.real());
    let sigma = parameter(sigma.like(), dtype);
    expect_castable("lognormal", dtype, std::slice::from_ref(&sigma));
    let CheckedArguments { words, shape, parameters: [sigma] } =
        CheckedArguments::new("lognormal", &key, shape, [sigma]);
    draw(|| exp(mul(raw_any_normal(&words, &shape, dtype), cast(&sigma, dtype))))
}

/// Returns numbers of the Maxwell distribution: lengths of vectors of three standard normal
/// numbers.
///
/// The dtype is `f32` (the default), `f16`, `bf16` or `f64`; other dtypes throw `Op` (dtype).
///
/// ```no_run
/// use oxidax::prelude::*;
/// let speeds = random::maxwell(random::key(0), [1000]);
/// ```
#[track_caller]
pub fn maxwell(key: Key, shape: impl IntoAval) -> Array {
    let Aval { shape, dtype, .. } = shape.into_aval(DType::F32);
    expect_float("maxwell", dtype);
    let words = key.words("maxwell");
    draw(|| raw_maxwell(&words, &shape, dtype))
}

#[track_caller]
fn raw_maxwell(key: &KeyWords, shape: &Shape, dtype: DType) -> Array {
    let parts = raw_normal(key, &shape.insert(shape.rank(), 3), dtype);
    sqrt(mul(&parts, &parts).sum_axes(-1))
}

/// Returns numbers of the two-sided Maxwell distribution around `loc` with scale `scale`.
///
/// The dtype is `f32` (the default), `f16`, `bf16` or `f64`. The shape of the result is `shape`
/// followed by the joint shape of `loc` and `scale`, numbers or arrays. An empty `shape` stands for
/// the joint shape, which then occurs twice, as in JAX.
///
/// Throws `Op` for other dtypes, and for parameters that do not broadcast or promote to a wider
/// dtype.
///
/// ```
/// use oxidax::prelude::*;
/// let x = random::double_sided_maxwell(random::key(0), [1000], 1.0, 0.5);
/// assert_eq!(x.shape().dims(), [1000]);
/// ```
#[track_caller]
pub fn double_sided_maxwell(
    key: Key,
    shape: impl IntoAval,
    loc: impl ArrayLike,
    scale: impl ArrayLike,
) -> Array {
    let Aval { shape, dtype, .. } = shape.into_aval(DType::F32);
    let CheckedArguments { words, shape: own, parameters } = CheckedArguments::floats(
        "double_sided_maxwell",
        &key,
        None,
        dtype,
        [loc.like(), scale.like()],
    );
    let first = if shape.is_empty() { &own } else { &shape };
    let shape: Shape = first.iter().chain(own.iter()).copied().collect();
    draw(|| {
        let [loc, scale] = parameters.map(|x| cast(&x, dtype));
        let [lengths, signs] = split_words(&words);
        let lengths = raw_maxwell(&lengths, &shape, dtype);
        raw_signs(&signs, &shape, dtype) * lengths * scale + loc
    })
}

/// Returns numbers of the Wald or inverse Gaussian distribution of mean `mean` and shape parameter
/// 1: the time at which a Brownian motion with drift `1 / mean` reaches 1.
///
/// The dtype is `f32` (the default), `f16`, `bf16` or `f64`. `mean`, above 0, is a number or an
/// array. It broadcasts to `shape`, or determines it if `shape` is `..`.
///
/// Throws `Op` for other dtypes, and for a `mean` that does not broadcast or promotes to a wider
/// dtype.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let times = random::wald(random::key(0), [1000], 2.0);
/// ```
///
/// # Reference
/// Michael, Schucany, Haas: Generating random variates using transformations with multiple roots
/// (1976).
#[track_caller]
pub fn wald(key: Key, shape: impl SampleShape, mean: impl ArrayLike) -> Array {
    let (shape, dtype) = shape.shape_and_dtype(DType::F32);
    let CheckedArguments { words, shape, parameters: [mean] } =
        CheckedArguments::floats("wald", &key, shape, dtype, [mean.like()]);
    draw(|| {
        let mean = broadcast_to(&cast(&mean, dtype), &shape);
        let [first, second] = split_words(&words);
        let normal = raw_normal(&first, &shape, dtype);
        let unit = raw_unit(&second, &shape, dtype);
        let y = integer_pow(&normal, 2);
        let (y_squared, mean_squared) = (integer_pow(&y, 2), integer_pow(&mean, 2));
        let root = sqrt(&(4 * &mean * &y + &mean_squared * &y_squared));
        // The smaller root of a quadratic equation; the product of the roots is the square of the
        // mean.
        let smaller = &mean + &mean_squared * &y / 2 - &mean / 2 * root;
        let likely = le(unit, div(&mean, add(&mean, &smaller)));
        select(&likely, &smaller, &div(mean_squared, &smaller))
    })
}
