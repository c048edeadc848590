//! Operations of MLIR's dialect `arith`, which Triton and Mosaic GPU share.

use crate::core::{DType, Scalar};
use crate::primitives::{
    Add, And, Div, Max, Min, Mul, Or, ReduceAnd, ReduceMax, ReduceMin, ReduceOr, ReduceProd,
    ReduceSum, ReduceXor, Rem, ShiftLeft, ShiftRightArithmetic, ShiftRightLogical, Sub, Xor,
};
use std::any::Any;

/// Returns the operation for floats, signed and unsigned integers. Empty: there is none.
pub(super) fn binary_operation(primitive: &dyn Any) -> Option<[&'static str; 3]> {
    let table: [(bool, [&'static str; 3]); 13] = [
        (primitive.is::<Add>(), ["arith.addf", "arith.addi", "arith.addi"]),
        (primitive.is::<Sub>(), ["arith.subf", "arith.subi", "arith.subi"]),
        (primitive.is::<Mul>(), ["arith.mulf", "arith.muli", "arith.muli"]),
        (primitive.is::<Div>(), ["arith.divf", "arith.divsi", "arith.divui"]),
        (primitive.is::<Rem>(), ["arith.remf", "arith.remsi", "arith.remui"]),
        (primitive.is::<Max>(), ["arith.maximumf", "arith.maxsi", "arith.maxui"]),
        (primitive.is::<Min>(), ["arith.minimumf", "arith.minsi", "arith.minui"]),
        (primitive.is::<And>(), ["", "arith.andi", "arith.andi"]),
        (primitive.is::<Or>(), ["", "arith.ori", "arith.ori"]),
        (primitive.is::<Xor>(), ["", "arith.xori", "arith.xori"]),
        (primitive.is::<ShiftLeft>(), ["", "arith.shli", "arith.shli"]),
        (primitive.is::<ShiftRightLogical>(), ["", "arith.shrui", "arith.shrui"]),
        (primitive.is::<ShiftRightArithmetic>(), ["", "arith.shrsi", "arith.shrsi"]),
    ];
    table.into_iter().find(|(is_this, _)| *is_this).map(|(_, operations)| operations)
}

/// A function of two elements, with its neutral element.
#[derive(Clone, Copy)]
pub(super) enum Combiner {
    Sum,
    Product,
    Max,
    Min,
    And,
    Or,
    Xor,
}

impl Combiner {
    /// Returns the element that changes no other one.
    pub(super) fn neutral(self, dtype: DType) -> Scalar {
        let (low, high) = match dtype.is_integer() {
            true => dtype.int_range(),
            false => (0, 1),
        };
        match self {
            Combiner::Sum | Combiner::Or | Combiner::Xor => Scalar::Int(0),
            Combiner::Product => Scalar::Int(1),
            Combiner::Max if dtype.is_float() => Scalar::Float(f64::NEG_INFINITY),
            Combiner::Min if dtype.is_float() => Scalar::Float(f64::INFINITY),
            Combiner::Max => Scalar::Int(low),
            Combiner::Min => Scalar::Int(high),
            Combiner::And if dtype.is_unsigned() => Scalar::Int(high),
            Combiner::And => Scalar::Int(-1),
        }
    }

    /// Returns the operation on elements.
    pub(super) fn operation(self, dtype: DType) -> &'static str {
        match (self, dtype.is_float(), dtype.is_unsigned()) {
            (Combiner::Sum, true, _) => "arith.addf",
            (Combiner::Sum, ..) => "arith.addi",
            (Combiner::Product, true, _) => "arith.mulf",
            (Combiner::Product, ..) => "arith.muli",
            (Combiner::Max, true, _) => "arith.maximumf",
            (Combiner::Max, _, true) => "arith.maxui",
            (Combiner::Max, ..) => "arith.maxsi",
            (Combiner::Min, true, _) => "arith.minimumf",
            (Combiner::Min, _, true) => "arith.minui",
            (Combiner::Min, ..) => "arith.minsi",
            (Combiner::And, ..) => "arith.andi",
            (Combiner::Or, ..) => "arith.ori",
            (Combiner::Xor, ..) => "arith.xori",
        }
    }

    /// Returns the axes and the combiner of a reduction.
    pub(super) fn of_reduction(primitive: &dyn Any) -> Option<(&[usize], Combiner)> {
        if let Some(of) = primitive.downcast_ref::<ReduceSum>() {
            Some((of.axes.as_slice(), Combiner::Sum))
        } else if let Some(of) = primitive.downcast_ref::<ReduceProd>() {
            Some((of.axes.as_slice(), Combiner::Product))
        } else if let Some(of) = primitive.downcast_ref::<ReduceMax>() {
            Some((of.axes.as_slice(), Combiner::Max))
        } else if let Some(of) = primitive.downcast_ref::<ReduceMin>() {
            Some((of.axes.as_slice(), Combiner::Min))
        } else if let Some(of) = primitive.downcast_ref::<ReduceAnd>() {
            Some((of.axes.as_slice(), Combiner::And))
        } else if let Some(of) = primitive.downcast_ref::<ReduceOr>() {
            Some((of.axes.as_slice(), Combiner::Or))
        } else {
            let xor = primitive.downcast_ref::<ReduceXor>();
            xor.map(|of| (of.axes.as_slice(), Combiner::Xor))
        }
    }
}
