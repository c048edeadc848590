//! Trimming of zeros at the ends of concrete arrays.

use super::super::axis_slice::slice_axis;
use crate::core::{Array, RuleError, trace};

/// Ends at which [`trim_zeros`] trims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrimEnds {
    /// The front and the back.
    #[default]
    Both,
    /// The front.
    Front,
    /// The back.
    Back,
}

/// Removes the slices at the ends of each axis of `x` that are zero. The result is empty if all
/// elements are zero.
///
/// The shape depends on the elements, so `x` must be concrete. Throws `Op` (unsupported) for a
/// traced array.
///
/// ```
/// use oxidax::prelude::*;
/// let x = array![0.0, 0.0, 3.0, 0.0, 4.0, 0.0];
/// assert_eq!(trim_zeros(&x, TrimEnds::Both).to_vec::<f32>()?, [3.0, 0.0, 4.0]);
/// assert_eq!(trim_zeros(&x, TrimEnds::Front).shape().dims(), [4]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn trim_zeros(x: &Array, ends: TrimEnds) -> Array {
    if x.is_traced() {
        let message = format!("the size of the result depends on the traced array {}", x.aval());
        let error = RuleError::unsupported(message)
            .help("trim before the traced function, or keep the shape with `where_`");
        trace::throw_operands("trim_zeros", error, &[x]);
    }
    let bytes = x.to_bytes().unwrap_or_else(|error| trace::throw(error));
    // Bounds of the elements that are not zero along each axis: the first, and one past the last.
    let mut bounds = vec![(usize::MAX, 0); x.rank()];
    let elements = bytes.chunks_exact(x.dtype().host_bytes()).enumerate();
    for (flat, _) in elements.filter(|(_, element)| !is_zero(x, element)) {
        let mut rest = flat;
        for (bound, &size) in bounds.iter_mut().zip(x.shape().iter()).rev() {
            let index = rest % size;
            *bound = (bound.0.min(index), bound.1.max(index + 1));
            rest /= size;
        }
    }
    let mut trimmed = x.clone();
    for (axis, (first, end)) in bounds.into_iter().enumerate() {
        let size = x.shape()[axis];
        let (start, end) = match ends {
            _ if end == 0 => (0, 0),
            TrimEnds::Both => (first, end),
            TrimEnds::Front => (first, size),
            TrimEnds::Back => (0, end),
        };
        trimmed = slice_axis(&trimmed, axis, start, end);
    }
    trimmed
}

/// Returns true for the bytes of 0 and of -0.
fn is_zero(x: &Array, element: &[u8]) -> bool {
    // A complex number has a sign in each half.
    let parts = if x.dtype().is_complex() { 2 } else { 1 };
    // The `fnuz` formats use the pattern of -0 for NaN, and four-bit ones have the sign elsewhere.
    let dtype = x.dtype();
    let has_sign = dtype.is_inexact() && dtype.bits() >= 8 && !dtype.to_string().contains("fnuz");
    element.chunks_exact(element.len() / parts).all(|part| match part.split_last() {
        Some((&top, rest)) => {
            (top == 0 || has_sign && top == 0x80) && rest.iter().all(|&byte| byte == 0)
        }
        None => true,
    })
}
