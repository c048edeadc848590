//! Complex numbers and their parts.
//!
//! The derivative rules follow JAX: tangents of holomorphic functions are multiplied by the complex
//! derivative, and cotangents are not conjugated. A cotangent `c` of `z` represents the linear
//! function `re(c · dz)`, which determines the transposes below.

use super::arithmetic::neg;
use super::constant::{zeros_like, zeros_of};
use super::promote::{ArrayLike, inexact, promote_inexact};
use super::rules::{arity, one_cotangent, same_type};
use super::trig::atan2;
use crate::core::{
    Array, Aval, DType, Exemplar, JvpResult, LowerCtx, Operand, RuleError, RuleResult, Sample,
    Tangent, bind1,
};
use crate::ensure_dtype;
use crate::primitives::elementwise::{
    CostRule, Derivative, Elementwise, Lowering, TransposeRule, TypeRule,
};
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// Returns the type of the parts of a complex operand.
fn parts(operands: &[Aval]) -> RuleResult<Aval> {
    let [z] = arity(operands)?;
    ensure_dtype!(z.dtype.is_complex(), "needs a complex operand, got {}", z.dtype);
    Ok(Aval { dtype: z.dtype.real(), ..z.clone() })
}

/// Builds complex numbers from real and imaginary parts.
///
/// | | |
/// |-|-|
/// | operands   | `re, im: {f32, f64}[…]`, of one shape and dtype |
/// | result     | the same shape; `c64` from `f32`, `c128` from `f64` |
/// | lowering   | [`stablehlo.complex`](https://openxla.org/stablehlo/spec#complex) |
/// | derivative | linear in both together |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Complex;

impl Complex {
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let re = same_type(arity::<2>(operands)?)?;
        let dtype = match re.dtype {
            DType::F32 | DType::F64 => re.dtype.complex(),
            _ => None,
        };
        let Some(dtype) = dtype else {
            let message = format!("parts of complex numbers are f32 or f64, got {}", re.dtype);
            return Err(RuleError::dtype(message).help("convert the parts to f32"));
        };
        Ok(vec![Aval { dtype, ..re }])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let z = bind1(Complex, [&primals[0], &primals[1]]);
        let dz = match (&tangents[0], &tangents[1]) {
            (Tangent::Zero(_), Tangent::Zero(_)) => Tangent::zero_like(&z),
            (Tangent::Dense(re), Tangent::Dense(im)) => complex(re, im).into(),
            (Tangent::Dense(re), Tangent::Zero(_)) => complex(re, zeros_like(re)).into(),
            (Tangent::Zero(_), Tangent::Dense(im)) => complex(zeros_like(im), im).into(),
        };
        Ok((vec![z], vec![dz]))
    }
    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let ct = one_cotangent(cts)?;
        Ok(vec![
            operands[0].is_linear().then(|| real(ct).into()),
            operands[1].is_linear().then(|| neg(imag(ct)).into()),
        ])
    }
}

impl Elementwise for Complex {
    const NAME: &'static str = "complex";
    const TYPE: TypeRule<Complex> = TypeRule::Custom(Complex::abstract_eval);
    const DERIVATIVE: Derivative<Complex> = Derivative::Custom(Complex::jvp);
    const LOWERING: Lowering<Complex> = Lowering::Op("complex");
    const COST: CostRule<Complex> = CostRule::Movement;
    const TRANSPOSE: Option<TransposeRule<Complex>> = Some(Complex::transpose);
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(Complex, [0, 1].map(|_| Sample::uniform(DType::F32, [2, 3], -1.0, 1.0))),
            Exemplar::new(Complex, [0, 1].map(|_| Sample::uniform(DType::F64, [], -1.0, 1.0))),
            Exemplar::new(Complex, [0, 1].map(|_| Sample::uniform(DType::F32, [0], -1.0, 1.0))),
        ]
    }
}

/// Returns the complex numbers `re + i·im`, with promotion and broadcasting. Integers become
/// floats. See [`Complex`] for its rules.
/// [`Complex`] for its rules.
#[track_caller]
pub fn complex(re: impl ArrayLike, im: impl ArrayLike) -> Array {
    let [re, im] = promote_inexact("complex", [re.like(), im.like()]);
    bind1(Complex, [&re, &im])
}

/// Real part of complex numbers.
///
/// | | |
/// |-|-|
/// | operand    | `z: complex[…]` |
/// | result     | the same shape; `f32` from `c64`, `f64` from `c128` |
/// | lowering   | [`stablehlo.real`](https://openxla.org/stablehlo/spec#real) |
/// | derivative | linear over the real numbers |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Real;

impl Real {
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        Ok(vec![parts(operands)?])
    }
    fn transpose(&self, cts: &[Tangent], _: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let ct = one_cotangent(cts)?;
        Ok(vec![Some(complex(ct, zeros_like(ct)).into())])
    }
}

impl Elementwise for Real {
    const NAME: &'static str = "real";
    const TYPE: TypeRule<Real> = TypeRule::Custom(Real::abstract_eval);
    const DERIVATIVE: Derivative<Real> = Derivative::Linear;
    const LOWERING: Lowering<Real> = Lowering::Op("real");
    const COST: CostRule<Real> = CostRule::Movement;
    const TRANSPOSE: Option<TransposeRule<Real>> = Some(Real::transpose);
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(Real, [Sample::uniform(DType::C64, [2, 3], -1.0, 1.0)]),
            Exemplar::new(Real, [Sample::uniform(DType::C128, [], -1.0, 1.0)]),
        ]
    }
}

/// Returns the real part of each element of `x`; a real array is returned unchanged. See [`Real`]
/// for its rules.
#[track_caller]
pub fn real(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    if x.dtype().is_complex() { bind1(Real, [x]) } else { x.clone() }
}

/// Imaginary part of complex numbers.
///
/// | | |
/// |-|-|
/// | operand    | `z: complex[…]` |
/// | result     | the same shape; `f32` from `c64`, `f64` from `c128` |
/// | lowering   | [`stablehlo.imag`](https://openxla.org/stablehlo/spec#imag) |
/// | derivative | linear over the real numbers |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Imag;

impl Imag {
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        Ok(vec![parts(operands)?])
    }
    fn transpose(&self, cts: &[Tangent], _: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let ct = one_cotangent(cts)?;
        Ok(vec![Some(complex(zeros_like(ct), neg(ct)).into())])
    }
}

impl Elementwise for Imag {
    const NAME: &'static str = "imag";
    const TYPE: TypeRule<Imag> = TypeRule::Custom(Imag::abstract_eval);
    const DERIVATIVE: Derivative<Imag> = Derivative::Linear;
    const LOWERING: Lowering<Imag> = Lowering::Op("imag");
    const COST: CostRule<Imag> = CostRule::Movement;
    const TRANSPOSE: Option<TransposeRule<Imag>> = Some(Imag::transpose);
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(Imag, [Sample::uniform(DType::C64, [2, 3], -1.0, 1.0)]),
            Exemplar::new(Imag, [Sample::uniform(DType::C128, [], -1.0, 1.0)]),
        ]
    }
}

/// Returns the imaginary part of each element of `x`, 0 for real numbers. See [`Imag`] for its
/// rules.
#[track_caller]
pub fn imag(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    if x.dtype().is_complex() { bind1(Imag, [x]) } else { zeros_of(x.aval()) }
}

/// Complex conjugation.
///
/// | | |
/// |-|-|
/// | operand    | `z: complex[…]` |
/// | result     | same shape and dtype as `z` |
/// | lowering   | [`stablehlo.complex`](https://openxla.org/stablehlo/spec#complex) of the parts, the imaginary one negated |
/// | derivative | linear over the real numbers |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Conj;

impl Conj {
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [z] = arity(operands)?;
        ensure_dtype!(z.dtype.is_complex(), "needs a complex operand, got {}", z.dtype);
        Ok(vec![z.clone()])
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let part = Aval { dtype: results[0].dtype.real(), ..results[0].clone() }.stablehlo();
        let re = ctx.op_as("real", operands, "", &part);
        let im = ctx.op_as("imag", operands, "", &part);
        let im = ctx.op("negate", &[im]);
        Ok(vec![ctx.op_as("complex", &[re, im], "", &results[0].stablehlo())])
    }
    fn transpose(&self, cts: &[Tangent], _: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        Ok(vec![Some(conj(one_cotangent(cts)?).into())])
    }
}

impl Elementwise for Conj {
    const NAME: &'static str = "conj";
    const TYPE: TypeRule<Conj> = TypeRule::Custom(Conj::abstract_eval);
    const DERIVATIVE: Derivative<Conj> = Derivative::Linear;
    const LOWERING: Lowering<Conj> = Lowering::Custom(Conj::lower);
    const COST: CostRule<Conj> = CostRule::Arithmetic;
    const TRANSPOSE: Option<TransposeRule<Conj>> = Some(Conj::transpose);
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(Conj, [Sample::uniform(DType::C64, [2, 3], -1.0, 1.0)]),
            Exemplar::new(Conj, [Sample::uniform(DType::C128, [0, 1], -1.0, 1.0)]),
        ]
    }
}

/// Returns the complex conjugate of each element of `x`; a real array is returned unchanged. See
/// [`Conj`] for its rules.
#[doc(alias = "conjugate")]
#[track_caller]
pub fn conj(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    if x.dtype().is_complex() { bind1(Conj, [x]) } else { x.clone() }
}

/// Returns the angle of each element of `x` in the complex plane, from -π to π radians: 0 or π for
/// real numbers (π for -0), NaN for NaN. Integers become floats.
#[doc(alias = "arg")]
#[doc(alias = "phase")]
#[track_caller]
pub fn angle(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    let x = inexact(x);
    if x.dtype().is_complex() { atan2(imag(&x), real(&x)) } else { atan2(zeros_like(&x), &x) }
}

#[cfg(test)]
mod tests {
    use super::super::snapshot::{error_of, module_of};
    use super::*;
    use expect_test::expect;

    #[test]
    fn conjugate_lowers_to_real_and_imaginary_parts() {
        expect![[r#"
            func.func public @main(%0: tensor<2xcomplex<f32>>) -> (tensor<2xcomplex<f32>>) {
            %1 = "stablehlo.real"(%0) : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
            %2 = "stablehlo.imag"(%0) : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
            %3 = "stablehlo.negate"(%2) : (tensor<2xf32>) -> tensor<2xf32>
            %4 = "stablehlo.complex"(%1, %3) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xcomplex<f32>>
            "func.return"(%4) : (tensor<2xcomplex<f32>>) -> ()
            }
        "#]].assert_eq(&module_of(Conj, [Aval::new(DType::C64, [2])]));
    }

    #[test]
    fn rejects_operands_that_do_not_fit() {
        expect![[r#"
            error[dtype]: complex: parts of complex numbers are f32 or f64, got bf16
              lhs: bf16[2]
              rhs: bf16[2]
              help: convert the parts to f32"#]]
        .assert_eq(&error_of(Complex, [DType::BF16; 2].map(|bf16| Aval::new(bf16, [2]))));
        expect![[r#"
            error[dtype]: real: needs a complex operand, got f32
              operand: f32[2]"#]]
        .assert_eq(&error_of(Real, [Aval::new(DType::F32, [2])]));
    }
}
