//! Logical and bitwise and, or, xor and not.

use crate::core::{Array, DType, Exemplar, Sample, bind1};
use crate::primitives::elementwise::{
    CostRule, Derivative, Dtypes, Elementwise, Lowering, TypeRule,
};
use crate::primitives::promote::{ArrayLike, promote_arrays};
use serde::{Deserialize, Serialize};

fn exemplars(operation: impl Fn([Sample; 2]) -> Exemplar) -> Vec<Exemplar> {
    let pair = |dtype: DType, x: &[f64], y: &[f64]| {
        operation([x, y].map(|elements| Sample::listed(dtype, [elements.len()], elements)))
    };
    vec![
        pair(DType::Bool, &[0.0, 0.0, 1.0, 1.0], &[0.0, 1.0, 0.0, 1.0]),
        pair(DType::I8, &[-128.0, -1.0, 5.0], &[127.0, 85.0, 3.0]),
        pair(DType::U32, &[4294967295.0, 0.0], &[65535.0, 7.0]),
        pair(DType::I64, &[], &[]),
    ]
}

/// Elementwise and: logical for booleans, bitwise for integers.
///
/// | | |
/// |-|-|
/// | operands   | `x, y: {bool, int}[…]`, of one shape and dtype |
/// | result     | the same shape and dtype |
/// | lowering   | [`stablehlo.and`](https://openxla.org/stablehlo/spec#and) |
/// | derivative | zero |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct And;

impl Elementwise for And {
    const NAME: &'static str = "and";
    const TYPE: TypeRule<And> = TypeRule::binary(Dtypes::Bits);
    const DERIVATIVE: Derivative<And> = Derivative::Zero;
    const LOWERING: Lowering<And> = Lowering::Op("and");
    const COST: CostRule<And> = CostRule::Arithmetic;
    fn exemplars() -> Vec<Exemplar> {
        exemplars(|operands| Exemplar::new(And, operands))
    }
}

/// Returns the and of `x` and `y`, bitwise for integers, with promotion and broadcasting. See
/// [`And`] for its rules.
#[doc(alias = "logical_and")]
#[track_caller]
pub fn bitwise_and(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    let [x, y] = promote_arrays("bitwise_and", [x.like(), y.like()]);
    bind1(And, [&x, &y])
}

/// Elementwise or: logical for booleans, bitwise for integers.
///
/// | | |
/// |-|-|
/// | operands   | `x, y: {bool, int}[…]`, of one shape and dtype |
/// | result     | the same shape and dtype |
/// | lowering   | [`stablehlo.or`](https://openxla.org/stablehlo/spec#or) |
/// | derivative | zero |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Or;

impl Elementwise for Or {
    const NAME: &'static str = "or";
    const TYPE: TypeRule<Or> = TypeRule::binary(Dtypes::Bits);
    const DERIVATIVE: Derivative<Or> = Derivative::Zero;
    const LOWERING: Lowering<Or> = Lowering::Op("or");
    const COST: CostRule<Or> = CostRule::Arithmetic;
    fn exemplars() -> Vec<Exemplar> {
        exemplars(|operands| Exemplar::new(Or, operands))
    }
}

/// Returns the or of `x` and `y`, bitwise for integers, with promotion and broadcasting. See [`Or`]
/// for its rules.
#[doc(alias = "logical_or")]
#[track_caller]
pub fn bitwise_or(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    let [x, y] = promote_arrays("bitwise_or", [x.like(), y.like()]);
    bind1(Or, [&x, &y])
}

/// Elementwise exclusive or: logical for booleans, bitwise for integers.
///
/// | | |
/// |-|-|
/// | operands   | `x, y: {bool, int}[…]`, of one shape and dtype |
/// | result     | the same shape and dtype |
/// | lowering   | [`stablehlo.xor`](https://openxla.org/stablehlo/spec#xor) |
/// | derivative | zero |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Xor;

impl Elementwise for Xor {
    const NAME: &'static str = "xor";
    const TYPE: TypeRule<Xor> = TypeRule::binary(Dtypes::Bits);
    const DERIVATIVE: Derivative<Xor> = Derivative::Zero;
    const LOWERING: Lowering<Xor> = Lowering::Op("xor");
    const COST: CostRule<Xor> = CostRule::Arithmetic;
    fn exemplars() -> Vec<Exemplar> {
        exemplars(|operands| Exemplar::new(Xor, operands))
    }
}

/// Returns the exclusive or of `x` and `y`, bitwise for integers, with promotion and broadcasting.
/// See [`Xor`] for its rules.
#[doc(alias = "logical_xor")]
#[track_caller]
pub fn bitwise_xor(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    let [x, y] = promote_arrays("bitwise_xor", [x.like(), y.like()]);
    bind1(Xor, [&x, &y])
}

/// Elementwise not: logical for booleans, bitwise for integers.
///
/// | | |
/// |-|-|
/// | operand    | `x: {bool, int}[…]` |
/// | result     | same shape and dtype as `x` |
/// | lowering   | [`stablehlo.not`](https://openxla.org/stablehlo/spec#not) |
/// | derivative | zero |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Not;

impl Elementwise for Not {
    const NAME: &'static str = "not";
    const TYPE: TypeRule<Not> = TypeRule::unary(Dtypes::Bits);
    const DERIVATIVE: Derivative<Not> = Derivative::Zero;
    const LOWERING: Lowering<Not> = Lowering::Op("not");
    const COST: CostRule<Not> = CostRule::Arithmetic;
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(Not, [Sample::listed(DType::Bool, [2, 1], &[0.0, 1.0])]),
            Exemplar::new(Not, [Sample::listed(DType::I16, [3], &[-32768.0, 0.0, 7.0])]),
            Exemplar::new(Not, [Sample::listed(DType::U8, [], &[3.0])]),
        ]
    }
}

/// Returns the not of each element of `x`, bitwise for integers. See [`Not`] for its rules.
#[doc(alias = "logical_not")]
#[doc(alias = "bitwise_invert")]
#[track_caller]
pub fn bitwise_not(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    bind1(Not, [x])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Aval;
    use crate::primitives::snapshot::{error_of, module_of};
    use expect_test::expect;

    #[test]
    fn logic_is_one_operation() {
        expect![[r#"
            func.func public @main(%0: tensor<2xi1>, %1: tensor<2xi1>) -> (tensor<2xi1>) {
            %2 = "stablehlo.xor"(%0, %1) : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
            "func.return"(%2) : (tensor<2xi1>) -> ()
            }
        "#]]
        .assert_eq(&module_of(Xor, [DType::Bool; 2].map(|bool| Aval::new(bool, [2]))));
    }

    #[test]
    fn rejects_floats() {
        expect![[r#"
            error[dtype]: and: needs a bool or integer operand, got f32
              lhs: f32[2]
              rhs: f32[2]"#]]
        .assert_eq(&error_of(And, [DType::F32; 2].map(|f32| Aval::new(f32, [2]))));
    }
}
