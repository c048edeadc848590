//! Random permutations.

use super::bits::{raw, split_words};
use super::key::Key;
use super::key_words::KeyWords;
use super::sampler::draw;
use crate::core::{Array, DType, RuleError, Scalar, throw_operands};
use crate::ops::take;
use crate::primitives::rules::resolve_axis;
use crate::primitives::{ArrayLike, Like, iota, sort_key_val};

/// Returns the number of sorts by new random keys after which equal keys hardly matter.
fn rounds(size: usize) -> usize {
    let exponent = 3.0;
    let largest = f64::from(u32::MAX);
    (exponent * (size.max(1) as f64).ln() / largest.ln()).ceil() as usize
}

/// Shuffles the elements of `x` along `axis`, each row independently.
#[track_caller]
fn shuffled(key: &KeyWords, x: &Array, axis: usize) -> Array {
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

/// Resolves an axis of `x`.
#[track_caller]
pub(super) fn axis_of(name: &str, x: &Array, axis: isize) -> usize {
    // A closure would lose the caller's location.
    match resolve_axis(axis, x.rank()) {
        Ok(axis) => axis,
        Err(error) => throw_operands(name, error, &[x]),
    }
}

/// Options of [`permutation_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PermutationOptions {
    /// The axis to permute. The default is 0.
    pub axis: isize,
    /// Permutes the elements along the axis independently instead of whole slices. The default is
    /// false.
    pub independent: bool,
}

/// Returns the numbers `0..n`, `i32[n]`, in random order for a number `n`, or an array with the
/// slices along its first axis in random order.
///
/// Throws `Op` (value) for a number outside of `i32` and `Op` (shape) for a scalar array.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let order = random::permutation(random::key(1), 5).to_vec::<i32>()?;
/// let rows = random::permutation(random::key(1), &zeros([10, 3]));
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "shuffle")]
#[track_caller]
pub fn permutation(key: Key, x: impl ArrayLike) -> Array {
    permutation_with(key, x, PermutationOptions::default())
}

/// Returns a random permutation, as [`permutation`], along another axis or independently for each
/// slice.
///
/// Throws `Op` (value) for a number outside of `i32` and `Op` (shape) for an axis out of range.
#[doc(alias = "permuted")]
#[track_caller]
pub fn permutation_with(key: Key, x: impl ArrayLike, options: PermutationOptions) -> Array {
    const NAME: &str = "permutation";
    let x = match x.like() {
        Like::Array(x) => x,
        Like::Scalar(Scalar::Int(n)) if (0..=i128::from(i32::MAX)).contains(&n) => {
            let words = key.words(NAME);
            return draw(|| shuffled(&words, &iota(DType::I32, n as usize), 0));
        }
        Like::Scalar(other) => {
            let error = RuleError::value(format!("takes a number in 0..2³¹, got {other:?}"));
            throw_operands(NAME, error, &[])
        }
    };
    let axis = axis_of(NAME, x, options.axis);
    let words = key.words(NAME);
    draw(|| {
        if options.independent { shuffled(&words, x, axis) } else { raw_permuted(&words, x, axis) }
    })
}

/// Permutes the slices of `x` along `axis` with the words of a key.
#[track_caller]
pub(super) fn raw_permuted(key: &KeyWords, x: &Array, axis: usize) -> Array {
    match x.rank() {
        1 => shuffled(key, x, 0),
        _ => {
            let order = shuffled(key, &iota(DType::I32, x.shape()[axis]), 0);
            take(x, &order, axis as isize)
        }
    }
}
