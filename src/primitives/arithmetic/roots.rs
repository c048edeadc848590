//! Square and cube roots.

use super::basic::{div, mul};
use super::powers::integer_pow;
use crate::core::{Array, DType, Exemplar, Sample, bind1};
use crate::primitives::ArrayLike;
use crate::primitives::elementwise::{
    CostRule, Derivative, Dtypes, Elementwise, Lowering, TypeRule,
};
use crate::primitives::promote::inexact;
use serde::{Deserialize, Serialize};

/// Elementwise square root.
///
/// | | |
/// |-|-|
/// | operand    | `x: {float, complex}[…]` |
/// | result     | same shape and dtype as `x`; the principal root, NaN for negative floats |
/// | lowering   | [`stablehlo.sqrt`](https://openxla.org/stablehlo/spec#sqrt) |
/// | derivative | `sqrt(x)′ = 1 / (2 sqrt(x))`, infinite at 0 |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sqrt;

impl Elementwise for Sqrt {
    const NAME: &'static str = "sqrt";
    const TYPE: TypeRule<Sqrt> = TypeRule::unary(Dtypes::Inexact);
    const DERIVATIVE: Derivative<Sqrt> = Derivative::Unary(|_, _, y, dx| mul(dx, div(0.5, y)));
    const LOWERING: Lowering<Sqrt> = Lowering::Op("sqrt");
    const COST: CostRule<Sqrt> = CostRule::Transcendental;
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(Sqrt, [Sample::uniform(DType::F32, [2, 3], 0.1, 3.0)]),
            Exemplar::new(Sqrt, [Sample::uniform(DType::C64, [2], 0.5, 1.0)]),
            Exemplar::new(Sqrt, [Sample::uniform(DType::F16, [], 0.5, 1.0)]),
            // The derivative is infinite at 0 and undefined below.
            Exemplar::new(Sqrt, [Sample::listed(DType::F32, [3], &[-0.0, 0.0, -1.0])])
                .without_derivative(),
        ]
    }
}

/// Returns the square root of each element of `x`, NaN below 0. Integers become floats. See
/// [`Sqrt`] for its rules.
#[track_caller]
pub fn sqrt(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    bind1(Sqrt, [&inexact(x)])
}

/// Elementwise reciprocal of the square root.
///
/// | | |
/// |-|-|
/// | operand    | `x: {float, complex}[…]` |
/// | result     | same shape and dtype as `x` |
/// | lowering   | [`stablehlo.rsqrt`](https://openxla.org/stablehlo/spec#rsqrt) |
/// | derivative | `rsqrt(x)′ = -rsqrt(x) / (2x)`, infinite at 0 |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rsqrt;

impl Elementwise for Rsqrt {
    const NAME: &'static str = "rsqrt";
    const TYPE: TypeRule<Rsqrt> = TypeRule::unary(Dtypes::Inexact);
    const DERIVATIVE: Derivative<Rsqrt> =
        Derivative::Unary(|_, x, y, dx| mul(dx, mul(div(y, x), -0.5)));
    const LOWERING: Lowering<Rsqrt> = Lowering::Op("rsqrt");
    const COST: CostRule<Rsqrt> = CostRule::Transcendental;
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(Rsqrt, [Sample::uniform(DType::F32, [2, 3], 0.1, 3.0)]),
            Exemplar::new(Rsqrt, [Sample::uniform(DType::C64, [2], 0.5, 1.0)]),
            Exemplar::new(Rsqrt, [Sample::uniform(DType::BF16, [3, 0], 0.5, 1.0)]),
            // The derivative is infinite at 0 and undefined below.
            Exemplar::new(Rsqrt, [Sample::listed(DType::F32, [3], &[-0.0, 0.0, -1.0])])
                .without_derivative(),
        ]
    }
}

/// Returns `1 / sqrt(x)` for each element of `x`: ∞ at 0, NaN below. Integers become floats. See
/// [`Rsqrt`] for its rules.
#[track_caller]
pub fn rsqrt(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    bind1(Rsqrt, [&inexact(x)])
}

/// Elementwise cube root, negative for negative numbers.
///
/// | | |
/// |-|-|
/// | operand    | `x: float[…]` |
/// | result     | same shape and dtype as `x` |
/// | lowering   | [`stablehlo.cbrt`](https://openxla.org/stablehlo/spec#cbrt) |
/// | derivative | `cbrt(x)′ = 1 / (3 cbrt(x)²)`, infinite at 0 |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cbrt;

impl Elementwise for Cbrt {
    const NAME: &'static str = "cbrt";
    const TYPE: TypeRule<Cbrt> = TypeRule::unary(Dtypes::Float);
    const DERIVATIVE: Derivative<Cbrt> =
        Derivative::Unary(|_, _, y, dx| mul(dx, mul(integer_pow(y, -2), 1.0 / 3.0)));
    const LOWERING: Lowering<Cbrt> = Lowering::Op("cbrt");
    const COST: CostRule<Cbrt> = CostRule::Transcendental;
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(Cbrt, [Sample::uniform(DType::F32, [2, 3], 0.1, 3.0)]),
            Exemplar::new(Cbrt, [Sample::uniform(DType::F64, [2], -3.0, -0.5)]),
            // The derivative is infinite at 0.
            Exemplar::new(Cbrt, [Sample::listed(DType::F32, [2], &[-0.0, -27.0])])
                .without_derivative(),
        ]
    }
}

/// Returns the cube root of each element of `x`. Integers become floats. See [`Cbrt`] for its
/// rules.
#[track_caller]
pub fn cbrt(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    bind1(Cbrt, [&inexact(x)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Aval;
    use crate::primitives::snapshot::{error_of, module_of};
    use expect_test::expect;

    #[test]
    fn a_root_is_one_operation() {
        expect![[r#"
            func.func public @main(%0: tensor<3xf32>) -> (tensor<3xf32>) {
            %1 = "stablehlo.rsqrt"(%0) : (tensor<3xf32>) -> tensor<3xf32>
            "func.return"(%1) : (tensor<3xf32>) -> ()
            }
        "#]]
        .assert_eq(&module_of(Rsqrt, [Aval::new(DType::F32, [3])]));
    }

    #[test]
    fn cube_roots_are_real() {
        expect![[r#"
            error[dtype]: cbrt: needs a float operand, got c128
              operand: c128[3]"#]]
        .assert_eq(&error_of(Cbrt, [Aval::new(DType::C128, [3])]));
    }
}
