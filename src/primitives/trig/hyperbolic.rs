//! Hyperbolic functions and their inverses.

use super::complex::{Wave, lower_wave};
use crate::core::{Array, DType, Exemplar, Sample, bind1};
use crate::primitives::ArrayLike;
use crate::primitives::arithmetic::{add, div, mul, rsqrt, sub};
use crate::primitives::elementwise::{
    CostRule, Derivative, Dtypes, Elementwise, Lowering, TypeRule,
};
use crate::primitives::promote::inexact;
use serde::{Deserialize, Serialize};

/// Elementwise hyperbolic sine.
///
/// | | |
/// |-|-|
/// | operand    | `x: {float, complex}[…]` |
/// | result     | same shape and dtype as `x` |
/// | lowering   | [`chlo.sinh`](https://openxla.org/stablehlo/generated/chlo); complex: real functions of the parts |
/// | derivative | `sinh(x)′ = cosh(x)` |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sinh;

impl Elementwise for Sinh {
    const NAME: &'static str = "sinh";
    const TYPE: TypeRule<Sinh> = TypeRule::unary(Dtypes::Inexact);
    const DERIVATIVE: Derivative<Sinh> = Derivative::Unary(|_, x, _, dx| mul(dx, cosh(x)));
    const LOWERING: Lowering<Sinh> =
        Lowering::Custom(|_, ctx, x, y| lower_wave(ctx, Wave::Sinh, x, y));
    const COST: CostRule<Sinh> = CostRule::Transcendental;
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(Sinh, [Sample::uniform(DType::F32, [2, 3], -3.0, 3.0)]),
            Exemplar::new(Sinh, [Sample::uniform(DType::C64, [2], -1.0, 1.0)]),
            Exemplar::new(Sinh, [Sample::uniform(DType::BF16, [2, 0], -1.0, 1.0)]),
        ]
    }
}

/// Returns the hyperbolic sine of each element of `x`. Integers become floats. See [`Sinh`] for its
/// rules.
#[track_caller]
pub fn sinh(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    bind1(Sinh, [&inexact(x)])
}

/// Elementwise hyperbolic cosine.
///
/// | | |
/// |-|-|
/// | operand    | `x: {float, complex}[…]` |
/// | result     | same shape and dtype as `x` |
/// | lowering   | [`chlo.cosh`](https://openxla.org/stablehlo/generated/chlo); complex: real functions of the parts |
/// | derivative | `cosh(x)′ = sinh(x)` |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cosh;

impl Elementwise for Cosh {
    const NAME: &'static str = "cosh";
    const TYPE: TypeRule<Cosh> = TypeRule::unary(Dtypes::Inexact);
    const DERIVATIVE: Derivative<Cosh> = Derivative::Unary(|_, x, _, dx| mul(dx, sinh(x)));
    const LOWERING: Lowering<Cosh> =
        Lowering::Custom(|_, ctx, x, y| lower_wave(ctx, Wave::Cosh, x, y));
    const COST: CostRule<Cosh> = CostRule::Transcendental;
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(Cosh, [Sample::uniform(DType::F32, [2, 3], -3.0, 3.0)]),
            Exemplar::new(Cosh, [Sample::uniform(DType::C64, [2], -1.0, 1.0)]),
            Exemplar::new(Cosh, [Sample::uniform(DType::F64, [], -1.0, 1.0)]),
        ]
    }
}

/// Returns the hyperbolic cosine of each element of `x`. Integers become floats. See [`Cosh`] for
/// its rules.
#[track_caller]
pub fn cosh(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    bind1(Cosh, [&inexact(x)])
}

/// Elementwise inverse hyperbolic sine.
///
/// | | |
/// |-|-|
/// | operand    | `x: {float, complex}[…]` |
/// | result     | same shape and dtype as `x` |
/// | lowering   | [`chlo.asinh`](https://openxla.org/stablehlo/generated/chlo) |
/// | derivative | `asinh(x)′ = 1 / √(x² + 1)` |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Asinh;

impl Elementwise for Asinh {
    const NAME: &'static str = "asinh";
    const TYPE: TypeRule<Asinh> = TypeRule::unary(Dtypes::Inexact);
    const DERIVATIVE: Derivative<Asinh> =
        Derivative::Unary(|_, x, _, dx| mul(dx, rsqrt(add(mul(x, x), 1.0))));
    const LOWERING: Lowering<Asinh> = Lowering::Op("chlo.asinh");
    const COST: CostRule<Asinh> = CostRule::Transcendental;
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(Asinh, [Sample::uniform(DType::F32, [2, 3], -3.0, 3.0)]),
            Exemplar::new(Asinh, [Sample::uniform(DType::C64, [2], -0.7, 0.7)]),
            Exemplar::new(Asinh, [Sample::uniform(DType::F64, [1], -99.0, 99.0)]),
        ]
    }
}

/// Returns the inverse hyperbolic sine of each element of `x`. Integers become floats. See
/// [`Asinh`] for its rules.
#[doc(alias = "arcsinh")]
#[track_caller]
pub fn asinh(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    bind1(Asinh, [&inexact(x)])
}

/// Returns the derivative of [`acosh`]. The product under one root is exact near 1, where `x² - 1`
/// cancels. For complex numbers only the product of two roots has the branch cut of the function.
fn acosh_slope(x: &Array) -> Array {
    let (low, high) = (sub(x, 1.0), add(x, 1.0));
    if x.dtype().is_complex() { mul(rsqrt(&low), rsqrt(&high)) } else { rsqrt(mul(low, high)) }
}

/// Elementwise inverse hyperbolic cosine.
///
/// | | |
/// |-|-|
/// | operand    | `x: {float, complex}[…]` |
/// | result     | same shape and dtype as `x` |
/// | lowering   | [`chlo.acosh`](https://openxla.org/stablehlo/generated/chlo) |
/// | derivative | `acosh(x)′ = 1 / (√(x - 1) √(x + 1))`, infinite at 1 |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Acosh;

impl Elementwise for Acosh {
    const NAME: &'static str = "acosh";
    const TYPE: TypeRule<Acosh> = TypeRule::unary(Dtypes::Inexact);
    const DERIVATIVE: Derivative<Acosh> = Derivative::Unary(|_, x, _, dx| mul(dx, acosh_slope(x)));
    const LOWERING: Lowering<Acosh> = Lowering::Op("chlo.acosh");
    const COST: CostRule<Acosh> = CostRule::Transcendental;
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(Acosh, [Sample::uniform(DType::F32, [2, 3], 1.1, 3.0)]),
            Exemplar::new(Acosh, [Sample::uniform(DType::C64, [2], -2.0, 2.0)]),
            Exemplar::new(Acosh, [Sample::listed(DType::F32, [3], &[1.0, 0.5, f64::NAN])])
                .without_derivative(),
        ]
    }
}

/// Returns the inverse hyperbolic cosine of each element of `x`, NaN below 1. Integers become
/// floats. See [`Acosh`] for its rules.
/// [`Acosh`] for its rules.
#[doc(alias = "arccosh")]
#[track_caller]
pub fn acosh(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    bind1(Acosh, [&inexact(x)])
}

/// Elementwise inverse hyperbolic tangent.
///
/// | | |
/// |-|-|
/// | operand    | `x: {float, complex}[…]` |
/// | result     | same shape and dtype as `x` |
/// | lowering   | [`chlo.atanh`](https://openxla.org/stablehlo/generated/chlo) |
/// | derivative | `atanh(x)′ = 1 / ((1 - x) (1 + x))`, infinite at ±1 |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Atanh;

impl Elementwise for Atanh {
    const NAME: &'static str = "atanh";
    const TYPE: TypeRule<Atanh> = TypeRule::unary(Dtypes::Inexact);
    const DERIVATIVE: Derivative<Atanh> =
        Derivative::Unary(|_, x, _, dx| div(dx, mul(sub(1.0, x), add(x, 1.0))));
    const LOWERING: Lowering<Atanh> = Lowering::Op("chlo.atanh");
    const COST: CostRule<Atanh> = CostRule::Transcendental;
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(Atanh, [Sample::uniform(DType::F32, [2, 3], -0.9, 0.9)]),
            Exemplar::new(Atanh, [Sample::uniform(DType::C64, [2], -0.7, 0.7)]),
            Exemplar::new(Atanh, [Sample::listed(DType::F32, [3], &[1.0, -1.0, 2.0])])
                .without_derivative(),
        ]
    }
}

/// Returns the inverse hyperbolic tangent of each element of `x`, infinite at ±1 and NaN beyond.
/// Integers become floats. See [`Atanh`] for its rules.
#[doc(alias = "arctanh")]
#[track_caller]
pub fn atanh(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    bind1(Atanh, [&inexact(x)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Aval;
    use crate::primitives::snapshot::{error_of, module_of};
    use expect_test::expect;

    #[test]
    fn hyperbolic_functions_lower_to_chlo() {
        expect![[r#"
            func.func public @main(%0: tensor<complex<f32>>) -> (tensor<complex<f32>>) {
            %1 = "stablehlo.real"(%0) : (tensor<complex<f32>>) -> tensor<f32>
            %2 = "stablehlo.imag"(%0) : (tensor<complex<f32>>) -> tensor<f32>
            %3 = "stablehlo.sine"(%2) : (tensor<f32>) -> tensor<f32>
            %4 = "stablehlo.cosine"(%2) : (tensor<f32>) -> tensor<f32>
            %5 = "chlo.sinh"(%1) : (tensor<f32>) -> tensor<f32>
            %6 = "chlo.cosh"(%1) : (tensor<f32>) -> tensor<f32>
            %7 = "stablehlo.multiply"(%3, %6) : (tensor<f32>, tensor<f32>) -> tensor<f32>
            %8 = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>
            %9 = "stablehlo.compare"(%2, %8) <{comparison_direction = #stablehlo<comparison_direction EQ>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
            %10 = "stablehlo.select"(%9, %2, %7) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
            %11 = "stablehlo.multiply"(%4, %5) : (tensor<f32>, tensor<f32>) -> tensor<f32>
            %12 = "stablehlo.complex"(%11, %10) : (tensor<f32>, tensor<f32>) -> tensor<complex<f32>>
            "func.return"(%12) : (tensor<complex<f32>>) -> ()
            }
        "#]]
        .assert_eq(&module_of(Sinh, [Aval::new(DType::C64, [])]));
    }

    #[test]
    fn rejects_booleans() {
        expect![[r#"
            error[dtype]: sinh: needs a float or complex operand, got bool
              operand: bool[2,2]"#]]
        .assert_eq(&error_of(Sinh, [Aval::new(DType::Bool, [2, 2])]));
    }
}
