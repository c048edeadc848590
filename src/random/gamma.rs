//! Gamma samplers: rejection in a loop, and the derivative with respect to the shape parameter.

use super::bits::{split_each, split_shape};
use super::gumbel::tiny;
use super::key::Key;
use super::key_words::KeyWords;
use super::normal::normal_each;
use super::parameters::{CheckedArguments, SampleShape};
use super::sampler::{cast, constant, draw, expect_float, parameter};
use super::uniform::uniform_each;
use crate::control_flow::{custom_jvp, while_loop};
use crate::core::{Array, DType, Shape};
use crate::primitives::{
    ArrayLike, add, bitwise_or, broadcast_to, div, eq, exp, full_like, ge, le, log, log1p, mul,
    neg, pow, random_gamma_grad, reduce_or, select, sqrt, sub,
};

/// Returns numbers of the gamma distribution of shape parameter `a` and scale 1, of density
/// proportional to
/// `x^(a-1) e^-x` for `x ≥ 0`. Multiply the result by a scale.
///
/// The dtype is `f32` (the default), `f16`, `bf16` or `f64`. `a`, above 0, is a number or an array.
/// It broadcasts to `shape`, or determines it if `shape` is `..`. It is converted to the dtype. The
/// derivative with respect to `a` is that of the number at its quantile. For small `a` numbers
/// underflow to 0; [`loggamma`] does not underflow.
///
/// Throws `Op` for other dtypes, and for an `a` that does not broadcast.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let shapes = Array::from_slice(&[0.5f32, 2.0, 10.0], [3])?;
/// let x = random::gamma(random::key(0), [100, 3], &shapes);
/// let mean = |a: &Array| random::gamma(random::key(0), [100, 3], a).mean();
/// let slope = grad(mean)(&shapes);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Marsaglia, Tsang: A simple method for generating gamma variables (2000). Figurnov, Mohamed,
/// Mnih: Implicit reparameterization gradients (2018).
#[track_caller]
pub fn gamma(key: Key, shape: impl SampleShape, a: impl ArrayLike) -> Array {
    drawn::<false>("gamma", &key, shape.shape_and_dtype(DType::F32), a)
}

/// Returns the logarithms of the numbers of [`gamma`], exact where those round to 0. Parameters and
/// errors are those of [`gamma`].
///
/// ```no_run
/// use oxidax::prelude::*;
/// let x = random::loggamma(random::key(0), [5], 1e-3);
/// ```
#[track_caller]
pub fn loggamma(key: Key, shape: impl SampleShape, a: impl ArrayLike) -> Array {
    drawn::<true>("loggamma", &key, shape.shape_and_dtype(DType::F32), a)
}

#[track_caller]
fn drawn<const LOG: bool>(
    name: &str,
    key: &Key,
    (shape, dtype): (Option<Shape>, DType),
    a: impl ArrayLike,
) -> Array {
    expect_float(name, dtype);
    let a = parameter(a.like(), dtype);
    let CheckedArguments { words, shape, parameters: [a] } =
        CheckedArguments::new(name, key, shape, [a]);
    draw(|| raw_gamma::<LOG>(&words, &broadcast_to(&cast(&a, dtype), &shape)))
}

/// Draws gamma numbers, or their logarithms, of the shape and dtype of `a` with the words of a key.
#[track_caller]
pub(super) fn raw_gamma<const LOG: bool>(key: &KeyWords, a: &Array) -> Array {
    with_derivative::<LOG>(&(key.clone(), a.clone()))
}

/// The words of a key, and shape parameters.
type Operands = (KeyWords, Array);

#[track_caller]
fn with_derivative<const LOG: bool>(operands: &Operands) -> Array {
    // A closure without captures, so that cached programs are reused.
    let rule = |operands: &Operands, tangents: &Operands| {
        let numbers = with_derivative::<LOG>(operands);
        let slope = slope::<LOG>(&numbers, &operands.1);
        (numbers, mul(&tangents.1, slope))
    };
    custom_jvp(numbers::<LOG>, rule)(operands)
}

/// Returns the derivative of gamma numbers, or of their logarithms, by their shape parameters.
#[track_caller]
fn slope<const LOG: bool>(numbers: &Array, a: &Array) -> Array {
    if !LOG {
        return random_gamma_grad(a, numbers);
    }
    let plain = exp(numbers);
    let least = full_like(&plain, tiny(plain.dtype()));
    let plain = select(&eq(&plain, 0), &least, &plain);
    div(random_gamma_grad(a, &plain), &plain)
}

#[track_caller]
fn numbers<const LOG: bool>((key, a): &Operands) -> Array {
    let shape = a.shape();
    let [keys, boosts] = split_each(&split_shape(key, shape));
    let plain = ge(a, 1);
    // The loop needs a shape parameter of at least 1. For smaller ones, 1 is added and the result
    // is multiplied by a power of a uniform number.
    let d = sub(select(&plain, a, &add(a, 1)), third(a.dtype()));
    let v = accepted(&keys, &d);
    let (zero, one) = (constant(0, a.dtype()), constant(1, a.dtype()));
    let unit = uniform_each(&boosts, a.dtype(), &zero, &one);
    if LOG {
        let logarithm = log1p(neg(&unit));
        let boost = mul(&logarithm, div(1, a));
        let none = bitwise_or(plain, eq(&logarithm, 0));
        let boost = select(&none, &full_like(&boost, 0), &boost);
        add(add(log(&d), log(&v)), boost)
    } else {
        let boost = pow(sub(1, unit), div(1, a));
        mul(mul(d, v), select(&plain, &full_like(&boost, 1), &boost))
    }
}

fn third(dtype: DType) -> Array {
    constant(1.0 / 3.0, dtype)
}

/// Returns the accepted cubes: `d` times a cube is gamma with shape parameter `d + ⅓`.
#[track_caller]
fn accepted(keys: &KeyWords, d: &Array) -> Array {
    let dtype = d.dtype();
    let c = div(third(dtype), sqrt(d));
    let rejected = |square: &Array, v: &Array, unit: &Array| {
        let quick = ge(unit, 1 - constant(0.0331, dtype) * (square * square));
        quick & ge(log(unit), square * 0.5 + d * ((1 - v) + log(v)))
    };
    let start = [0.0, 1.0, 2.0].map(|value| full_like(d, value));
    let open = rejected(&start[0], &start[1], &start[2]);
    let step = |(keys, v, open): (KeyWords, Array, Array)| {
        let [next, normals, units] = split_each(&keys);
        let (x, positive) = positive(&normals, &c);
        let square = &x * &x;
        let cube = &positive * &positive * &positive;
        let unit = uniform_each(&units, dtype, &constant(0, dtype), &constant(1, dtype));
        let still = &open & rejected(&square, &cube, &unit);
        (next.selected(&open, &keys), select(&open, &cube, &v), still)
    };
    while_loop(
        |(_, _, open): (KeyWords, Array, Array)| any(&open),
        step,
        (keys.clone(), start[1].clone(), open),
    )
    .1
}

/// Returns normal numbers `x` for which `1 + c x` is positive, and `1 + c x`.
#[track_caller]
fn positive(keys: &KeyWords, c: &Array) -> (Array, Array) {
    let step = |(keys, x, v): (KeyWords, Array, Array)| {
        let open = le(&v, 0);
        let [next, now] = split_each(&keys);
        let new = normal_each(&now, c.dtype());
        let keys = next.selected(&open, &keys);
        (keys, select(&open, &new, &x), select(&open, &(1 + &new * c), &v))
    };
    let start = (keys.clone(), full_like(c, 0), full_like(c, -1));
    let (_, x, v) = while_loop(|(_, _, v): (KeyWords, Array, Array)| any(&le(v, 0)), step, start);
    (x, v)
}

/// Returns true if any element is true.
#[track_caller]
pub(super) fn any(mask: &Array) -> Array {
    reduce_or(mask, &(0..mask.rank() as isize).collect::<Vec<_>>())
}
