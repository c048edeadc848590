//! Random orders.

use super::bits::{raw, split_words};
use super::key::Key;
use super::sampler::draw;
use crate::core::{Array, DType, RuleError, throw_operands};
use crate::ops::take;
use crate::primitives::rules::resolve_axis;
use crate::primitives::{iota, sort_key_val};

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

/// The axis of `x` that a number means.
#[track_caller]
pub(super) fn axis_of(name: &str, x: &Array, axis: isize) -> usize {
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
    draw(|| raw_permuted(&words, x, at))
}

/// `x` with its slices in random order, inside a sampler.
#[track_caller]
pub(super) fn raw_permuted(key: &[Array; 2], x: &Array, axis: usize) -> Array {
    match x.rank() {
        1 => shuffled(key, x, 0),
        _ => {
            let order = shuffled(key, &iota(DType::I32, x.shape()[axis]), 0);
            take(x, &order, axis as isize)
        }
    }
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
