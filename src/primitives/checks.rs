//! Conditions on operands that several primitives have, for
//! [`Analysis::checks`](crate::core::Analysis::checks).

use super::comparison::{eq, ge, le};
use super::convert::convert_element_type;
use super::logic::{bitwise_and, bitwise_not};
use super::reduce::{reduce_max, reduce_min, reduce_or, reduce_sum};
use super::shape::reshape;
use super::slicing::slice_in_dim;
use crate::core::{Array, Aval, CheckSet, DType, OperandCheck};

fn all_axes(x: &Array) -> Vec<isize> {
    (0..x.rank() as isize).collect()
}

/// Returns the check that no element of a divisor is zero.
pub(super) fn nonzero(enabled: CheckSet, divisor: &Array) -> Vec<OperandCheck> {
    if !enabled.contains(CheckSet::DIV) || divisor.size() == 0 {
        return Vec::new();
    }
    let is_zero = eq(divisor, 0);
    let condition = bitwise_not(reduce_or(&is_zero, &all_axes(&is_zero)));
    if divisor.size() == 1 {
        let message = "divides by zero".to_owned();
        return vec![OperandCheck { condition, message, fields: Vec::new() }];
    }
    let count = reduce_sum(&convert_element_type(&is_zero, DType::I64), &all_axes(&is_zero));
    let message = format!("divides by zero: {{}} of {} divisors are zero", divisor.size());
    vec![OperandCheck { condition, message, fields: vec![count] }]
}

/// The start indices of slices along an axis.
pub(super) struct Starts {
    /// The axis of the operand.
    pub(super) axis: usize,
    /// The indices, of any shape.
    pub(super) indices: Array,
    /// The size of a slice along the axis.
    pub(super) size: usize,
}

/// Returns the check that all slices are inside an operand of the type `x`.
pub(super) fn inside(
    enabled: CheckSet,
    x: &Aval,
    starts: impl Iterator<Item = Starts>,
) -> Vec<OperandCheck> {
    if !enabled.contains(CheckSet::INDEX) {
        return Vec::new();
    }
    let (mut condition, mut fields) = (None, Vec::new());
    let mut texts = Vec::new();
    for Starts { axis, indices, size } in starts.filter(|starts| starts.indices.size() > 0) {
        let wide = convert_element_type(&indices, DType::I64);
        let smallest = reduce_min(&wide, &all_axes(&wide));
        let largest = reduce_max(&wide, &all_axes(&wide));
        let last = x.shape[axis] as i64 - size as i64;
        let within = bitwise_and(ge(&smallest, 0), le(&largest, last));
        condition = Some(match condition {
            Some(others) => bitwise_and(others, within),
            None => within,
        });
        let allowed = match last {
            0 => "only 0 is inside".to_owned(),
            1.. => format!("0 to {last} are inside"),
            _ => "the axis is empty".to_owned(),
        };
        if indices.size() == 1 {
            texts.push(format!("along axis {axis} the index is {{}}, {allowed}"));
            fields.push(smallest);
        } else {
            texts.push(format!("along axis {axis} indices are {{}} to {{}}, {allowed}"));
            fields.extend([smallest, largest]);
        }
    }
    let message = format!("index out of bounds for {x}: {}", texts.join("; "));
    condition.map(|condition| OperandCheck { condition, message, fields }).into_iter().collect()
}

/// Returns component `index` of index vectors along the last axis.
pub(super) fn component(vectors: &Array, index: usize) -> Array {
    let last = vectors.rank() - 1;
    let part = slice_in_dim(vectors, index as isize, index as isize + 1, 1, last as isize);
    reshape(&part, &vectors.shape()[..last])
}
