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
        // As far as the number is wide, and further.
        pair(DType::I32, &[-7.0, 7.0, -7.0], &[32.0, 32.0, 100.0]),
        pair(DType::U16, &[65535.0, 1.0], &[15.0, 16.0]),
        pair(DType::U64, &[], &[]),
    ]
}

/// Shifts the bits of every element to the left.
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

/// `x << by`: the bits of `x` moved left, zeros coming in, with promotion and broadcasting. See
/// [`ShiftLeft`] for its rules.
#[track_caller]
pub fn shift_left(x: impl ArrayLike, by: impl ArrayLike) -> Array {
    let [x, by] = promote_arrays("shift_left", [x.like(), by.like()]);
    bind1(ShiftLeft, [&x, &by])
}

/// Shifts the bits of every element to the right, zeros coming in.
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

/// The bits of `x` moved right, zeros coming in, with promotion and broadcasting. See
/// [`ShiftRightLogical`] for its rules.
#[track_caller]
pub fn shift_right_logical(x: impl ArrayLike, by: impl ArrayLike) -> Array {
    let [x, by] = promote_arrays("shift_right_logical", [x.like(), by.like()]);
    bind1(ShiftRightLogical, [&x, &by])
}

/// Shifts the bits of every element to the right, copies of the highest bit coming in.
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

/// The bits of `x` moved right, copies of the highest bit coming in, with promotion and broadcasting. See
/// [`ShiftRightArithmetic`] for its rules.
#[track_caller]
pub fn shift_right_arithmetic(x: impl ArrayLike, by: impl ArrayLike) -> Array {
    let [x, by] = promote_arrays("shift_right_arithmetic", [x.like(), by.like()]);
    bind1(ShiftRightArithmetic, [&x, &by])
}

/// `x >> by` as Rust means it: arithmetic on signed integers, logical on unsigned ones, with promotion
/// and broadcasting.
#[doc(alias = "right_shift")]
#[track_caller]
pub fn shift_right(x: impl ArrayLike, by: impl ArrayLike) -> Array {
    let [x, by] = promote_arrays("shift_right", [x.like(), by.like()]);
    match x.dtype().is_unsigned() {
        true => bind1(ShiftRightLogical, [&x, &by]),
        false => bind1(ShiftRightArithmetic, [&x, &by]),
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
    fn booleans_do_not_shift() {
        expect![[r#"
            error[dtype]: shift_left: needs an integer operand, got bool
              lhs: bool[]
              rhs: bool[]"#]]
        .assert_eq(&error_of(ShiftLeft, [DType::Bool; 2].map(|bool| Aval::new(bool, []))));
    }
}
