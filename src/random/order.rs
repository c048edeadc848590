//! Random orders and choices.

use super::bits::{raw, split_words};
use super::draw::{draw, expect_float};
use super::key::Key;
use super::uniform::raw_gumbel;
use crate::core::{Array, DType, RuleError, Shape, throw_operands};
use crate::ops::take;
use crate::primitives::rules::resolve_axis;
use crate::primitives::{add, argmax, broadcast_to, iota, sort_key_val};

/// How often elements are sorted by fresh random keys until equal keys hardly matter.
fn rounds(size: usize) -> usize {
    let exponent = 3.0;
    let largest = f64::from(u32::MAX);
    (exponent * (size.max(1) as f64).ln() / largest.ln()).ceil() as usize
}

/// The elements of `x` in random order along `axis`, every row of its own, inside a sampler.
#[track_caller]
fn shuffled(key: &[Array; 2], x: &Array, axis: usize) -> Array {
    let mut key = key.clone();
    let mut x = x.clone();
    for _ in 0..rounds(x.size()) {
        let [next, now] = split_words(&key);
        let order = raw(&now, x.shape(), DType::U32);
        x = sort_key_val(&order, &x, axis as isize).1;
        key = next;
    }
    x
}

#[track_caller]
fn axis_of(name: &str, x: &Array, axis: isize) -> usize {
    // A closure would lose the user's line.
    match resolve_axis(axis, x.rank()) {
        Ok(axis) => axis,
        Err(error) => throw_operands(name, error, &[x]),
    }
}

/// The numbers `0..n` in random order: `i32[n]`.
///
/// Throws `Op` (value) if `n` has no `i32`.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let order = random::permutation(random::key(1), 5).to_vec::<i32>()?;
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "shuffle")]
#[track_caller]
pub fn permutation(key: Key, n: usize) -> Array {
    if i32::try_from(n).is_err() {
        let error = RuleError::value(format!("gives indices as i32, which {n} is too large for"));
        throw_operands("permutation", error, &[]);
    }
    let words = key.words("permutation");
    draw(|| shuffled(&words, &iota(DType::I32, n), 0))
}

/// `x` with its slices along `axis` in random order: the rows of a matrix for axis 0, each row whole.
///
/// Throws `Op` (shape) if there is no such axis.
#[doc(alias = "permutation")]
#[doc(alias = "shuffle")]
#[track_caller]
pub fn permute(key: Key, x: &Array, axis: isize) -> Array {
    let at = axis_of("permute", x, axis);
    let words = key.words("permute");
    draw(|| match x.rank() {
        1 => shuffled(&words, x, 0),
        _ => {
            let order = shuffled(&words, &iota(DType::I32, x.shape()[at]), 0);
            take(x, &order, at as isize)
        }
    })
}

/// `x` with the elements along `axis` in random order, in every column (row, …) another.
///
/// Throws `Op` (shape) if there is no such axis.
#[doc(alias = "permuted")]
#[track_caller]
pub fn permute_independent(key: Key, x: &Array, axis: isize) -> Array {
    let at = axis_of("permute_independent", x, axis);
    let words = key.words("permute_independent");
    draw(|| shuffled(&words, x, at))
}

/// Random classes by their unnormalized log-probabilities (in nats) along `axis`: `i32` of the shape
/// of `logits` without that axis.
///
/// `logits` is `f16`, `bf16`, `f32` or `f64`; a logit of negative infinity is never drawn unless all
/// are.
///
/// Throws `Op` for another dtype or axis.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let logits = zeros([4, 10], DType::F32);
/// let classes = random::categorical(random::key(0), &logits, -1);
/// assert_eq!(classes.shape().dims(), [4]);
/// ```
///
/// # Reference
/// Gumbel: Statistical theory of extreme values (1954); the maximum of logits and Gumbel noise.
#[track_caller]
pub fn categorical(key: Key, logits: &Array, axis: isize) -> Array {
    let at = axis_of("categorical", logits, axis);
    categorical_shape(key, logits, axis, logits.shape().remove(at))
}

/// As [`categorical`], many draws at once: `i32` of shape `shape`, which ends with the shape of `logits`
/// without `axis`.
///
/// Throws `Op` for another dtype, axis or shape.
#[track_caller]
pub fn categorical_shape(key: Key, logits: &Array, axis: isize, shape: impl Into<Shape>) -> Array {
    let at = axis_of("categorical", logits, axis);
    expect_float("categorical", logits.dtype());
    let (shape, batch) = (shape.into(), logits.shape().remove(at));
    if !shape.ends_with(&batch) {
        let message = format!("the shape {shape} must end with {batch}, that of the distributions");
        throw_operands("categorical", RuleError::shape(message), &[logits]);
    }
    let words = key.words("categorical");
    let from_the_back = logits.rank() - at;
    let drawn = shape.insert(shape.rank() + 1 - from_the_back, logits.shape()[at]);
    draw(|| {
        let noise = raw_gumbel(&words, &drawn, logits.dtype());
        argmax(&add(noise, broadcast_to(logits, &drawn)), -(from_the_back as isize))
    })
}
