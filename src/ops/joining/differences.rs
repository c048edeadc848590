//! Differences of neighbours.

use super::super::axis_slice::{expect_axis, slice_axis};
use crate::core::{Array, RuleError, trace};
use crate::primitives::{
    ArrayLike, Like, broadcast_to, concatenate, convert_element_type, ne, reshape, sub,
};

/// Returns the differences `x[i + 1] - x[i]` along `axis`, one fewer than there are elements. For
/// booleans they are `x[i + 1] != x[i]`.
#[track_caller]
pub fn diff(x: &Array, axis: isize) -> Array {
    diff_with(x, axis, DiffOptions::default())
}

/// Options of [`diff_with`].
#[derive(Clone, Copy, Debug)]
pub struct DiffOptions<'a> {
    /// The number of times that differences are taken. The default is 1.
    pub n: usize,
    /// Elements that are put before those of the operand: a number, or an array of its rank.
    pub prepend: Option<Like<'a>>,
    /// Elements that are put after those of the operand.
    pub append: Option<Like<'a>>,
}

impl Default for DiffOptions<'_> {
    fn default() -> Self {
        DiffOptions { n: 1, prepend: None, append: None }
    }
}

/// Returns differences along `axis`, as [`diff`], of higher order, or of longer arrays.
///
/// Throws `Op` (shape) for an axis out of range, and for added arrays whose sizes along other axes
/// differ.
///
/// ```
/// use oxidax::prelude::*;
/// let x = array![1, 4, 9, 16];
/// let second = diff_with(&x, 0, DiffOptions { n: 2, ..Default::default() });
/// assert_eq!(second.to_vec::<i32>()?, [2, 2]);
/// let full = diff_with(&x, 0, DiffOptions { prepend: Some(0.like()), ..Default::default() });
/// assert_eq!(full.to_vec::<i32>()?, [1, 3, 5, 7]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn diff_with(x: &Array, axis: isize, options: DiffOptions<'_>) -> Array {
    let axis = expect_axis("diff", axis, x.rank(), x);
    if options.n == 0 {
        return x.clone();
    }
    let parts = [options.prepend.map(Ok), Some(Err(())), options.append.map(Ok)];
    let joint = super::super::result_type(
        parts.iter().flatten().map(|part| part.unwrap_or(x.like())).collect::<Vec<_>>(),
    );
    let one = x.shape().remove(axis).insert(axis, 1);
    let mut pieces = Vec::with_capacity(3);
    for part in parts.into_iter().flatten() {
        let part = part.unwrap_or(x.like()).to_array();
        let part = convert_element_type(&part, joint);
        pieces.push(if part.rank() == 0 { broadcast_to(&part, &one) } else { part });
    }
    let mut x = match pieces.len() {
        1 => x.clone(),
        _ => concatenate(&pieces, axis as isize),
    };
    for _ in 0..options.n {
        let size = x.shape()[axis];
        let later = slice_axis(&x, axis, size.min(1), size);
        let earlier = slice_axis(&x, axis, 0, size.max(1) - 1);
        x = if x.dtype().is_bool() { ne(later, earlier) } else { sub(later, earlier) };
    }
    x
}

/// Returns the differences of neighbours in the flattened array: `[n - 1]` for `n` elements.
#[track_caller]
pub fn ediff1d(x: &Array) -> Array {
    ediff1d_with(x, Ediff1dOptions::default())
}

/// Options of [`ediff1d_with`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Ediff1dOptions<'a> {
    /// Elements that are put before the differences, converted to their dtype.
    pub to_begin: Option<&'a Array>,
    /// Elements that are put after the differences, converted to their dtype.
    pub to_end: Option<&'a Array>,
}

/// Returns differences in the flattened array, as [`ediff1d`], between further elements. Throws
/// `Op` (dtype) for complex elements around real differences.
#[track_caller]
pub fn ediff1d_with(x: &Array, options: Ediff1dOptions<'_>) -> Array {
    let differences = diff(&reshape(x, [x.size()]), 0);
    let mut pieces = Vec::with_capacity(3);
    for part in [options.to_begin, Some(&differences), options.to_end].into_iter().flatten() {
        if part.dtype().is_complex() && !differences.dtype().is_complex() {
            let message = format!("{} does not convert to {}", part.aval(), differences.dtype());
            trace::throw_operands("ediff1d", RuleError::dtype(message), &[x, part]);
        }
        let part = convert_element_type(part, differences.dtype());
        pieces.push(reshape(&part, [part.size()]));
    }
    if pieces.len() == 1 { differences } else { concatenate(&pieces, 0) }
}
