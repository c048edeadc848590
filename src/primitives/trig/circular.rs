//! Sine, cosine and tangent.

use super::complex::{Wave, lower_wave};
use crate::core::{Array, DType, Exemplar, Sample, bind1};
use crate::primitives::ArrayLike;
use crate::primitives::arithmetic::{add, mul, neg};
use crate::primitives::elementwise::{
    CostRule, Derivative, Dtypes, Elementwise, Lowering, TypeRule,
};
use crate::primitives::promote::inexact;
use serde::{Deserialize, Serialize};

/// Elementwise sine of an angle in radians.
///
/// | | |
/// |-|-|
/// | operand    | `x: {float, complex}[…]` |
/// | result     | same shape and dtype as `x` |
/// | lowering   | [`stablehlo.sine`](https://openxla.org/stablehlo/spec#sine); complex: real functions of the parts |
/// | derivative | `sin(x)′ = cos(x)` |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sin;

impl Elementwise for Sin {
    const NAME: &'static str = "sin";
    const TYPE: TypeRule<Sin> = TypeRule::unary(Dtypes::Inexact);
    const DERIVATIVE: Derivative<Sin> = Derivative::Unary(|_, x, _, dx| mul(dx, cos(x)));
    const LOWERING: Lowering<Sin> =
        Lowering::Custom(|_, ctx, x, y| lower_wave(ctx, Wave::Sin, x, y));
    const COST: CostRule<Sin> = CostRule::Transcendental;
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(Sin, [Sample::uniform(DType::F32, [2, 3], -3.0, 3.0)]),
            Exemplar::new(Sin, [Sample::uniform(DType::C64, [2], -1.0, 1.0)]),
        ]
    }
}

/// Returns the sine of each element of `x`, in radians. Integers become floats. See [`Sin`] for its
/// rules.
#[track_caller]
pub fn sin(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    bind1(Sin, [&inexact(x)])
}

/// Elementwise cosine of an angle in radians.
///
/// | | |
/// |-|-|
/// | operand    | `x: {float, complex}[…]` |
/// | result     | same shape and dtype as `x` |
/// | lowering   | [`stablehlo.cosine`](https://openxla.org/stablehlo/spec#cosine); complex: real functions of the parts |
/// | derivative | `cos(x)′ = -sin(x)` |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cos;

impl Elementwise for Cos {
    const NAME: &'static str = "cos";
    const TYPE: TypeRule<Cos> = TypeRule::unary(Dtypes::Inexact);
    const DERIVATIVE: Derivative<Cos> = Derivative::Unary(|_, x, _, dx| mul(dx, neg(sin(x))));
    const LOWERING: Lowering<Cos> =
        Lowering::Custom(|_, ctx, x, y| lower_wave(ctx, Wave::Cos, x, y));
    const COST: CostRule<Cos> = CostRule::Transcendental;
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(Cos, [Sample::uniform(DType::F32, [2, 3], -3.0, 3.0)]),
            Exemplar::new(Cos, [Sample::uniform(DType::C64, [2], -1.0, 1.0)]),
            Exemplar::new(Cos, [Sample::uniform(DType::F64, [0], -1.0, 1.0)]),
        ]
    }
}

/// Returns the cosine of each element of `x`, in radians. Integers become floats. See [`Cos`] for
/// its rules.
#[track_caller]
pub fn cos(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    bind1(Cos, [&inexact(x)])
}

/// Elementwise tangent of an angle in radians.
///
/// | | |
/// |-|-|
/// | operand    | `x: {float, complex}[…]` |
/// | result     | same shape and dtype as `x` |
/// | lowering   | [`stablehlo.tan`](https://openxla.org/stablehlo/spec#tan) |
/// | derivative | `tan(x)′ = 1 + tan(x)²` |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tan;

impl Elementwise for Tan {
    const NAME: &'static str = "tan";
    const TYPE: TypeRule<Tan> = TypeRule::unary(Dtypes::Inexact);
    const DERIVATIVE: Derivative<Tan> =
        Derivative::Unary(|_, _, y, dx| mul(dx, add(mul(y, y), 1.0)));
    const LOWERING: Lowering<Tan> = Lowering::Op("tan");
    const COST: CostRule<Tan> = CostRule::Transcendental;
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(Tan, [Sample::uniform(DType::F32, [2, 3], -1.2, 1.2)]),
            Exemplar::new(Tan, [Sample::uniform(DType::C64, [2], -1.0, 1.0)]),
            Exemplar::new(Tan, [Sample::uniform(DType::F16, [], -1.0, 1.0)]),
        ]
    }
}

/// Returns the tangent of each element of `x`, in radians. Integers become floats. See [`Tan`] for
/// its rules.
#[track_caller]
pub fn tan(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    bind1(Tan, [&inexact(x)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Aval;
    use crate::primitives::snapshot::{error_of, module_of};
    use expect_test::expect;

    #[test]
    fn a_tangent_is_one_operation() {
        expect![[r#"
            func.func public @main(%0: tensor<3xf32>) -> (tensor<3xf32>) {
            %1 = "stablehlo.tan"(%0) : (tensor<3xf32>) -> tensor<3xf32>
            "func.return"(%1) : (tensor<3xf32>) -> ()
            }
        "#]]
        .assert_eq(&module_of(Tan, [Aval::new(DType::F32, [3])]));
    }

    #[test]
    fn sin_rejects_integers() {
        expect![[r#"
            error[dtype]: sin: needs a float or complex operand, got i8
              operand: i8[]"#]]
        .assert_eq(&error_of(Sin, [Aval::new(DType::I8, [])]));
    }
}
