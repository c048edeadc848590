//! Shifts of the bits of integers.

use crate::core::{Array, DType, Exemplar, Sample, bind1};
use crate::primitives::elementwise::{
    CostRule, Derivative, Dtypes, Elementwise, Lowering, TypeRule,
};
use crate::primitives::promote::{ArrayLike, promote_arrays};
use serde::{Deserialize, Serialize};

fn exemplars(shift: impl Fn([Sample; 2]) -> Exemplar) -> Vec<Exemplar> {
    let pair = |dtype: DType, x: &[f64], by: &[f64]| {
        shift([x, by].map(|elements| Sample::listed(dtype, [elements.len()], elements)))
    };
    vec![
        pair(DType::I8, &[-128.0, -1.0, 5.0, 127.0], &[1.0, 7.0, 0.0, 3.0]),
        // Shifts by the width and by more.
        pair(DType::I32, &[-7.0, 7.0, -7.0], &[32.0, 32.0, 100.0]),
        pair(DType::U16, &[65535.0, 1.0], &[15.0, 16.0]),
        pair(DType::U64, &[], &[]),
    ]
}

/// Elementwise left shift.
///
/// | | |
/// |-|-|
/// | operands   | `x, by: int[…]`, of one shape and dtype; `by` counts bits |
/// | result     | the same shape and dtype; 0 if shifted by its width or more |
/// | lowering   | [`stablehlo.shift_left`](https://openxla.org/stablehlo/spec#shift_left) |
/// | derivative | zero |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ShiftLeft;

impl Elementwise for ShiftLeft {
    const NAME: &'static str = "shift_left";
    const TYPE: TypeRule<ShiftLeft> = TypeRule::binary(Dtypes::Integer);
    const DERIVATIVE: Derivative<ShiftLeft> = Derivative::Zero;
    const LOWERING: Lowering<ShiftLeft> = Lowering::Op("shift_left");
    const COST: CostRule<ShiftLeft> = CostRule::Arithmetic;
    fn exemplars() -> Vec<Exemplar> {
        exemplars(|operands| Exemplar::new(ShiftLeft, operands))
    }
}

/// Returns `x << by`, with promotion and broadcasting. See [`ShiftLeft`] for its rules.
/// [`ShiftLeft`] for its rules.
#[track_caller]
pub fn shift_left(x: impl ArrayLike, by: impl ArrayLike) -> Array {
    let [x, by] = promote_arrays("shift_left", [x.like(), by.like()]);
    bind1(ShiftLeft, [&x, &by])
}

/// Elementwise right shift that fills with zeros.
///
/// | | |
/// |-|-|
/// | operands   | `x, by: int[…]`, of one shape and dtype; `by` counts bits |
/// | result     | the same shape and dtype; 0 if shifted by its width or more |
/// | lowering   | [`stablehlo.shift_right_logical`](https://openxla.org/stablehlo/spec#shift_right_logical) |
/// | derivative | zero |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ShiftRightLogical;

impl Elementwise for ShiftRightLogical {
    const NAME: &'static str = "shift_right_logical";
    const TYPE: TypeRule<ShiftRightLogical> = TypeRule::binary(Dtypes::Integer);
    const DERIVATIVE: Derivative<ShiftRightLogical> = Derivative::Zero;
    const LOWERING: Lowering<ShiftRightLogical> = Lowering::Op("shift_right_logical");
    const COST: CostRule<ShiftRightLogical> = CostRule::Arithmetic;
    fn exemplars() -> Vec<Exemplar> {
        exemplars(|operands| Exemplar::new(ShiftRightLogical, operands))
    }
}

/// Shifts `x` to the right and fills with zeros, with promotion and broadcasting. See
/// [`ShiftRightLogical`] for its rules.
/// [`ShiftRightLogical`] for its rules.
#[track_caller]
pub fn shift_right_logical(x: impl ArrayLike, by: impl ArrayLike) -> Array {
    let [x, by] = promote_arrays("shift_right_logical", [x.like(), by.like()]);
    bind1(ShiftRightLogical, [&x, &by])
}

/// Elementwise right shift that fills with the sign bit.
///
/// | | |
/// |-|-|
/// | operands   | `x, by: int[…]`, of one shape and dtype; `by` counts bits |
/// | result     | the same shape and dtype; all copies of the highest bit if shifted by its width or more |
/// | lowering   | [`stablehlo.shift_right_arithmetic`](https://openxla.org/stablehlo/spec#shift_right_arithmetic) |
/// | derivative | zero |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ShiftRightArithmetic;

impl Elementwise for ShiftRightArithmetic {
    const NAME: &'static str = "shift_right_arithmetic";
    const TYPE: TypeRule<ShiftRightArithmetic> = TypeRule::binary(Dtypes::Integer);
    const DERIVATIVE: Derivative<ShiftRightArithmetic> = Derivative::Zero;
    const LOWERING: Lowering<ShiftRightArithmetic> = Lowering::Op("shift_right_arithmetic");
    const COST: CostRule<ShiftRightArithmetic> = CostRule::Arithmetic;
    fn exemplars() -> Vec<Exemplar> {
        exemplars(|operands| Exemplar::new(ShiftRightArithmetic, operands))
    }
}

/// Shifts `x` to the right and fills with the sign bit, with promotion and broadcasting. See
/// [`ShiftRightArithmetic`] for its rules.
/// [`ShiftRightArithmetic`] for its rules.
#[track_caller]
pub fn shift_right_arithmetic(x: impl ArrayLike, by: impl ArrayLike) -> Array {
    let [x, by] = promote_arrays("shift_right_arithmetic", [x.like(), by.like()]);
    bind1(ShiftRightArithmetic, [&x, &by])
}

/// Returns `x >> by` as in Rust: arithmetic for signed integers, logical for unsigned ones, with
/// promotion and broadcasting.
#[doc(alias = "right_shift")]
#[track_caller]
pub fn shift_right(x: impl ArrayLike, by: impl ArrayLike) -> Array {
    let [x, by] = promote_arrays("shift_right", [x.like(), by.like()]);
    if x.dtype().is_unsigned() {
        bind1(ShiftRightLogical, [&x, &by])
    } else {
        bind1(ShiftRightArithmetic, [&x, &by])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Aval;
    use crate::primitives::snapshot::{error_of, module_of};
    use expect_test::expect;

    #[test]
    fn a_shift_is_one_operation() {
        let avals = [DType::U8; 2].map(|u8| Aval::new(u8, [2]));
        expect![[r#"
            func.func public @main(%0: tensor<2xui8>, %1: tensor<2xui8>) -> (tensor<2xui8>) {
            %2 = "stablehlo.shift_right_logical"(%0, %1) : (tensor<2xui8>, tensor<2xui8>) -> tensor<2xui8>
            "func.return"(%2) : (tensor<2xui8>) -> ()
            }
        "#]].assert_eq(&module_of(ShiftRightLogical, avals));
    }

    #[test]
    fn rejects_booleans() {
        expect![[r#"
            error[dtype]: shift_left: needs an integer operand, got bool
              lhs: bool[]
              rhs: bool[]"#]]
        .assert_eq(&error_of(ShiftLeft, [DType::Bool; 2].map(|bool| Aval::new(bool, []))));
    }
}
