//! Where something holds, and the elements there.

use super::super::grids::first;
use super::super::{stack, take, unravel_index};
use crate::core::{Array, DType, RuleError, Scalar, trace};
use crate::primitives::rules::resolve_axis;
use crate::primitives::{
    argsort, broadcast_to, convert_element_type, fill_of, iota, lt, ne, reshape, where_, zeros_like,
};

/// `x` other than zero.
#[track_caller]
pub(super) fn truth(x: &Array) -> Array {
    match x.dtype() {
        DType::Bool => x.clone(),
        _ => ne(x, zeros_like(x)),
    }
}

/// The positions where a vector of booleans is true, in order: `size` of them and a mask of those that
/// are there. Where none is left, some other position stands.
#[track_caller]
pub(super) fn true_positions(mask: &Array, size: usize) -> (Array, Array) {
    let count = convert_element_type(mask, DType::I32).sum();
    let there = lt(iota(DType::I32, size), &count);
    // A stable sort brings what is true to the front and keeps its order.
    let order = argsort(&!mask, 0);
    let have = order.size();
    let order = match have < size {
        true => {
            let more = crate::primitives::zeros([size - have], DType::I32);
            crate::primitives::concatenate(&[&order, &more], 0)
        }
        false => first(&order, size),
    };
    (order, there)
}

/// The positions, row-major, of the elements other than zero, of the flattened array: `i32[size]`. If
/// there are fewer, `fill_value` stands for the rest; if there are more, the first count.
///
/// ```
/// use oxidax::prelude::*;
/// let at = eval_shape(|x: Array| flatnonzero(&x, 4, -1), Aval::new(DType::F32, [3, 5]))?;
/// assert_eq!(at.aval().to_string(), "i32[4]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn flatnonzero(x: &Array, size: usize, fill_value: i32) -> Array {
    let (order, there) = true_positions(&truth(&reshape(x, [x.size()])), size);
    where_(&there, order, fill_value)
}

/// The positions of the elements other than zero, row-major: one `i32[size]` for each axis, of a scalar
/// none. If there are fewer, `fill_value` stands for the rest; if there are more, the first count.
///
/// `x.index` with all of them gives the elements. With a condition for `x` this is the form of `where`
/// that has no values.
///
/// ```
/// use oxidax::prelude::*;
/// let at = eval_shape(|x: Array| nonzero(&gt(&x, 0.0), 4, 0), Aval::new(DType::F32, [3, 5]))?;
/// assert_eq!((at.len(), at[0].aval().to_string()), (2, "i32[4]".into()));
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn nonzero(x: &Array, size: usize, fill_value: i32) -> Vec<Array> {
    let (order, there) = true_positions(&truth(&reshape(x, [x.size()])), size);
    let mut found = Vec::with_capacity(x.rank());
    for along in unravel_index(&order, x.shape()) {
        found.push(where_(&there, along, fill_value));
    }
    found
}

/// As [`nonzero`], one row for each position: `i32[size, rank]`.
#[track_caller]
pub fn argwhere(x: &Array, size: usize, fill_value: i32) -> Array {
    match x.rank() {
        0 => crate::primitives::zeros([size, 0], DType::I32),
        _ => stack(nonzero(x, size, fill_value).iter().collect::<Vec<_>>(), -1),
    }
}

/// The slices of `x` along `axis` where the vector `condition` is not zero: `size` of them, of
/// `fill_value` if there are fewer. A condition that is shorter than the axis is false beyond its end.
///
/// Throws `Op` (shape) if the condition is no vector or longer than the axis.
#[track_caller]
pub fn compress(
    condition: &Array,
    x: &Array,
    size: usize,
    fill_value: impl Into<Scalar>,
    axis: isize,
) -> Array {
    let resolved = resolve_axis(axis, x.rank()).and_then(|axis| {
        let long = x.shape()[axis];
        match condition.rank() == 1 && condition.size() <= long {
            true => Ok(axis),
            false => Err(RuleError::shape(format!(
                "takes a vector of at most {long} conditions, got {}",
                condition.aval()
            ))),
        }
    });
    let at = match resolved {
        Ok(at) => at,
        Err(error) => trace::throw_operands("compress", error, &[condition, x]),
    };
    let (order, there) = true_positions(&truth(condition), size);
    let picked = take(x, &order, axis);
    let mut shape = vec![1; x.rank()];
    shape[at] = size;
    let there = broadcast_to(&reshape(&there, shape), picked.shape());
    where_(&there, &picked, fill_of(fill_value.into(), picked.aval()))
}

/// The elements of `x`, row-major, where `condition` is not zero: `[size]`, of `fill_value` if there
/// are fewer. Throws `Op` (shape) if the condition has more elements than `x`.
#[track_caller]
pub fn extract(condition: &Array, x: &Array, size: usize, fill_value: impl Into<Scalar>) -> Array {
    let (condition, x) = (reshape(condition, [condition.size()]), reshape(x, [x.size()]));
    compress(&condition, &x, size, fill_value, 0)
}
