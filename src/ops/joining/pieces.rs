//! Arrays in pieces.

use super::super::{split, split_at};
use crate::core::{Array, RuleError, trace};
use crate::primitives::reshape;
use crate::primitives::rules::resolve_axis;

/// Splits `x` into `parts` parts along `axis`, of sizes that differ by at most one, larger ones first.
/// [`split`] insists on equal parts. Throws `Op` (value) for no parts and `Op` (shape) for an axis out
/// of range.
///
/// ```
/// use oxidax::prelude::*;
/// let parts = eval_shape(|x: Array| array_split(&x, 3, 0), Aval::new(DType::F32, [7]))?;
/// let sizes: Vec<usize> = parts.iter().map(|part| part.size()).collect();
/// assert_eq!(sizes, [3, 2, 2]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn array_split(x: &Array, parts: usize, axis: isize) -> Vec<Array> {
    let resolved = resolve_axis(axis, x.rank()).and_then(|axis| match parts {
        0 => Err(RuleError::value("takes at least one part, got 0")),
        _ => Ok(axis),
    });
    let at = match resolved {
        Ok(at) => at,
        Err(error) => trace::throw_operands("array_split", error, &[x]),
    };
    let (each, more) = (x.shape()[at] / parts, x.shape()[at] % parts);
    let positions: Vec<usize> = (1..parts).map(|part| part * each + part.min(more)).collect();
    split_at(x, &positions, axis)
}

#[track_caller]
fn ranked(name: &str, x: &Array, least: usize) {
    if x.rank() < least {
        let message = format!("takes an array of rank {least} and more, got {}", x.rank());
        trace::throw_operands(name, RuleError::shape(message), &[x]);
    }
}

/// Equal parts along axis 0. Throws `Op` (shape) if its size is not a multiple of `parts` or the rank
/// is below 2.
#[track_caller]
pub fn vsplit(x: &Array, parts: usize) -> Vec<Array> {
    ranked("vsplit", x, 2);
    split(x, parts, 0)
}

/// Equal parts along axis 1, of a vector along axis 0. Throws `Op` (shape) if its size is not a
/// multiple of `parts` or `x` is a scalar.
#[track_caller]
pub fn hsplit(x: &Array, parts: usize) -> Vec<Array> {
    ranked("hsplit", x, 1);
    split(x, parts, if x.rank() == 1 { 0 } else { 1 })
}

/// Equal parts along axis 2. Throws `Op` (shape) if its size is not a multiple of `parts` or the rank
/// is below 3.
#[track_caller]
pub fn dsplit(x: &Array, parts: usize) -> Vec<Array> {
    ranked("dsplit", x, 3);
    split(x, parts, 2)
}

/// The slices of `x` along `axis`, which disappears: the inverse of [`stack`](super::super::stack).
/// Throws `Op` (shape) for an axis out of range.
#[track_caller]
pub fn unstack(x: &Array, axis: isize) -> Vec<Array> {
    let at = match resolve_axis(axis, x.rank()) {
        Ok(at) => at,
        Err(error) => trace::throw_operands("unstack", error, &[x]),
    };
    let mut slices = Vec::with_capacity(x.shape()[at]);
    for index in 0..x.shape()[at] {
        let slice = super::super::arrange::part(x, at, index, index + 1);
        slices.push(reshape(&slice, x.shape().remove(at)));
    }
    slices
}
