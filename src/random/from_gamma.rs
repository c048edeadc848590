//! Samplers based on gamma numbers.

use super::bernoulli::raw_signs;
use super::bits::split_words;
use super::gamma::raw_gamma;
use super::inverse_cdf::raw_exponential;
use super::key::Key;
use super::key_words::KeyWords;
use super::normal::raw_normal;
use super::parameters::{CheckedArguments, SampleShape, batch_shape, exponent};
use super::sampler::{cast, constant, draw, expect_float};
use crate::core::{Array, Aval, DType, IntoAval, RuleError, Shape, throw_operands};
use crate::ops::softmax;
use crate::primitives::{
    ArrayLike, abs, add, broadcast_to, div, exp, maximum, mul, pow, sqrt, sub,
};

/// Returns numbers of the beta distribution, of density proportional to `x^(a-1) (1-x)^(b-1)` in
/// `0..1`.
///
/// The dtype is `f32` (the default), `f16`, `bf16` or `f64`. `a` and `b`, above 0, are numbers or
/// arrays. They broadcast to `shape`, or determine it if `shape` is `..`. The result is
/// differentiable with respect to both.
///
/// Throws `Op` for other dtypes, and for parameters that do not broadcast or promote to a wider
/// dtype.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let x = random::beta(random::key(0), [100], 0.5, 2.0);
/// ```
#[track_caller]
pub fn beta(key: Key, shape: impl SampleShape, a: impl ArrayLike, b: impl ArrayLike) -> Array {
    let (shape, dtype) = shape.shape_and_dtype(DType::F32);
    let CheckedArguments { words, shape, parameters } =
        CheckedArguments::floats("beta", &key, shape, dtype, [a.like(), b.like()]);
    draw(|| {
        let [first, second] = split_words(&words);
        let [a, b] = parameters.map(|x| broadcast_to(&cast(&x, dtype), &shape));
        let (a, b) = (raw_gamma::<true>(&first, &a), raw_gamma::<true>(&second, &b));
        // The ratio of a gamma number to the sum of two, without overflow or underflow.
        let largest = maximum(&a, &b);
        let [a, b] = [a, b].map(|x| exp(sub(x, &largest)));
        div(&a, add(&a, b))
    })
}

/// Returns numbers of the chi-squared distribution of `df` degrees of freedom: sums of that many
/// squared normal numbers.
///
/// Parameters, derivatives and errors are those of [`beta`].
///
/// ```no_run
/// use oxidax::prelude::*;
/// let x = random::chisquare(random::key(0), [100], 3.0);
/// ```
#[track_caller]
pub fn chisquare(key: Key, shape: impl SampleShape, df: impl ArrayLike) -> Array {
    let (shape, dtype) = shape.shape_and_dtype(DType::F32);
    let CheckedArguments { words, shape, parameters: [df] } =
        CheckedArguments::floats("chisquare", &key, shape, dtype, [df.like()]);
    draw(|| raw_chisquare(&words, &shape, &cast(&df, dtype)))
}

#[track_caller]
fn raw_chisquare(key: &KeyWords, shape: &Shape, df: &Array) -> Array {
    let two = constant(2, df.dtype());
    let half = broadcast_to(&div(df, &two), shape);
    mul(exp(raw_gamma::<true>(key, &half)), two)
}

/// Returns numbers of the F distribution: the ratio of two chi-squared numbers with `dfnum` and
/// `dfden` degrees of freedom, each divided by its degrees of freedom.
///
/// Parameters, derivatives and errors are those of [`beta`].
///
/// ```no_run
/// use oxidax::prelude::*;
/// let x = random::f(random::key(0), [100], 3.0, 10.0);
/// ```
#[track_caller]
pub fn f(key: Key, shape: impl SampleShape, dfnum: impl ArrayLike, dfden: impl ArrayLike) -> Array {
    let (shape, dtype) = shape.shape_and_dtype(DType::F32);
    let CheckedArguments { words, shape, parameters } =
        CheckedArguments::floats("f", &key, shape, dtype, [dfnum.like(), dfden.like()]);
    draw(|| {
        let [above, below] = parameters.map(|x| cast(&x, dtype));
        let [second, first] = split_words(&words);
        let above = div(raw_chisquare(&first, &shape, &above), above);
        div(above, div(raw_chisquare(&second, &shape, &below), below))
    })
}

/// Numbers with Student's t distribution of `df` degrees of freedom.
///
/// Parameters, derivatives and errors are those of [`beta`].
///
/// ```no_run
/// use oxidax::prelude::*;
/// let x = random::t(random::key(0), [100], 4.0);
/// ```
#[track_caller]
pub fn t(key: Key, shape: impl SampleShape, df: impl ArrayLike) -> Array {
    let (shape, dtype) = shape.shape_and_dtype(DType::F32);
    let CheckedArguments { words, shape, parameters: [df] } =
        CheckedArguments::floats("t", &key, shape, dtype, [df.like()]);
    draw(|| {
        let [first, second] = split_words(&words);
        let normal = raw_normal(&first, &shape, dtype);
        let half = div(cast(&df, dtype), constant(2, dtype));
        let gamma = raw_gamma::<false>(&second, &broadcast_to(&half, &shape));
        mul(normal, sqrt(div(half, gamma)))
    })
}

/// Returns vectors of the Dirichlet distribution: positive numbers of sum 1 along the last axis,
/// with a density proportional to the product of `x_i^(alpha_i - 1)`.
///
/// The dtype is `f32` (the default), `f16`, `bf16` or `f64`. `alpha`, `[…, n]` and above 0, is
/// converted to it. The result is `[shape…, n]`: the leading axes of `alpha` broadcast to `shape`,
/// or determine it if that is `..`. It is differentiable with respect to `alpha`.
///
/// Throws `Op` for other dtypes, and for an `alpha` of rank 0 or one that does not broadcast.
///
/// ```
/// use oxidax::prelude::*;
/// let mixes = random::dirichlet(random::key(0), [100], &ones([4]));
/// assert_eq!(mixes.shape().dims(), [100, 4]);
/// ```
#[track_caller]
pub fn dirichlet(key: Key, shape: impl SampleShape, alpha: &Array) -> Array {
    let (shape, dtype) = shape.shape_and_dtype(DType::F32);
    expect_float("dirichlet", dtype);
    let Some(&n) = alpha.shape().last() else {
        let error = RuleError::shape("needs alpha of rank 1 and more, got a scalar");
        throw_operands("dirichlet", error, &[alpha]);
    };
    let batch = alpha.shape().remove(alpha.rank() - 1);
    let shape = batch_shape("dirichlet", shape, &[batch], &[alpha]);
    let shape = shape.insert(shape.rank(), n);
    let words = key.words("dirichlet");
    draw(|| {
        // Logarithms are used, since for small alpha all numbers could round to 0.
        let numbers = raw_gamma::<true>(&words, &broadcast_to(&cast(alpha, dtype), &shape));
        softmax(&numbers, -1)
    })
}

/// Returns numbers of the generalized normal distribution, of density proportional to `e^-|x|^p`.
///
/// The dtype is `f32` (the default), `f16`, `bf16` or `f64`. `p`, above 0, is a number or an array.
/// It broadcasts to `shape`, or determines it if `shape` is `..`. For `p` = 2 the variance is ½.
///
/// Throws `Op` for other dtypes, and for a `p` that does not broadcast or promotes to a wider
/// dtype.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let x = random::generalized_normal(random::key(0), [100], 1.5);
/// ```
#[track_caller]
pub fn generalized_normal(key: Key, shape: impl SampleShape, p: impl ArrayLike) -> Array {
    let (shape, dtype) = shape.shape_and_dtype(DType::F32);
    expect_float("generalized_normal", dtype);
    let p = exponent("generalized_normal", dtype, p.like());
    let CheckedArguments { words, shape, parameters: [p] } =
        CheckedArguments::new("generalized_normal", &key, shape, [p]);
    draw(|| raw_generalized_normal(&words, &shape, dtype, &p))
}

#[track_caller]
fn raw_generalized_normal(key: &KeyWords, shape: &Shape, dtype: DType, p: &Array) -> Array {
    let [first, second] = split_words(key);
    let inverse = cast(&(1.0 / p), dtype);
    let gamma = raw_gamma::<false>(&first, &broadcast_to(&inverse, shape));
    mul(raw_signs(&second, shape, dtype), pow(gamma, inverse))
}

/// Returns uniformly distributed points of the `d`-dimensional unit ball in the `p` norm: `[shape…,
/// d]`.
///
/// The dtype is `f32` (the default), `f16`, `bf16` or `f64`. `p`, at least 1, is a number or an
/// array of shape `[]`.
///
/// Throws `Op` for other dtypes, and for a `p` that has axes or promotes to a wider dtype.
///
/// ```
/// use oxidax::prelude::*;
/// let points = random::ball(random::key(0), [1000], 3, 2.0);
/// assert_eq!(points.shape().dims(), [1000, 3]);
/// ```
///
/// # Reference
/// Barthe, Guédon, Mendelson, Naor: A probabilistic approach to the geometry of the lₚⁿ ball
/// (2005).
#[track_caller]
pub fn ball(key: Key, shape: impl IntoAval, d: usize, p: impl ArrayLike) -> Array {
    let Aval { shape, dtype, .. } = shape.into_aval(DType::F32);
    expect_float("ball", dtype);
    let p = exponent("ball", dtype, p.like());
    if p.rank() != 0 {
        let error = RuleError::shape(format!("needs one number p, got {}", p.aval()));
        throw_operands("ball", error, &[&p]);
    }
    let words = key.words("ball");
    draw(|| {
        let [first, second] = split_words(&words);
        let along = shape.insert(shape.rank(), d);
        let normal = raw_generalized_normal(&first, &along, dtype, &p);
        let powers = pow(abs(&normal), cast(&p, dtype)).sum_axes(-1);
        let length = add(powers, raw_exponential(&second, &shape, dtype));
        div(normal, pow(length, cast(&(1.0 / &p), dtype)).expand_dims(-1))
    })
}
