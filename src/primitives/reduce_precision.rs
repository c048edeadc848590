//! Rounding to the precision of a narrower float.

use super::rules::{arity, one_cotangent};
use crate::core::{
    Array, Aval, DType, Exemplar, LowerCtx, Operand, RuleResult, Sample, Tangent, bind1,
};
use crate::primitives::elementwise::{
    CostRule, Derivative, Elementwise, Lowering, TransposeRule, TypeRule,
};
use crate::stablehlo::Value;
use crate::{ensure, ensure_dtype};
use serde::{Deserialize, Serialize};

/// Rounds every element to the precision of a float with fewer bits. The dtype stays.
///
/// | | |
/// |-|-|
/// | operand    | `x: float[…]` |
/// | result     | same shape and dtype as `x`; rounds to nearest even; what is too large becomes infinite, what is too small for a normal number zero |
/// | lowering   | [`stablehlo.reduce_precision`](https://openxla.org/stablehlo/spec#reduce_precision) |
/// | derivative | the tangent, rounded alike; transposes to itself |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ReducePrecision {
    /// Bits of the exponent, at least 1.
    pub exponent_bits: u32,
    /// Bits of the mantissa without the leading one.
    pub mantissa_bits: u32,
}

impl ReducePrecision {
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [x] = arity(operands)?;
        ensure_dtype!(x.dtype.is_float(), "needs a float operand, got {}", x.dtype);
        ensure!(self.exponent_bits >= 1, "exponent_bits must be at least 1, got 0");
        Ok(vec![x.clone()])
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        _: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let attributes = format!(
            "exponent_bits = {} : i32, mantissa_bits = {} : i32",
            self.exponent_bits, self.mantissa_bits
        );
        let ty = operands[0].ty().clone();
        Ok(vec![ctx.op_as("reduce_precision", operands, &attributes, &ty)])
    }
    fn transpose(&self, cts: &[Tangent], _: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        Ok(vec![Some(bind1(self.clone(), [one_cotangent(cts)?]).into())])
    }
}

impl Elementwise for ReducePrecision {
    const NAME: &'static str = "reduce_precision";
    const TYPE: TypeRule<ReducePrecision> = TypeRule::Custom(ReducePrecision::abstract_eval);
    const DERIVATIVE: Derivative<ReducePrecision> = Derivative::Linear;
    const LOWERING: Lowering<ReducePrecision> = Lowering::Custom(ReducePrecision::lower);
    const COST: CostRule<ReducePrecision> = CostRule::Arithmetic;
    const TRANSPOSE: Option<TransposeRule<ReducePrecision>> = Some(ReducePrecision::transpose);
    fn exemplars() -> Vec<Exemplar> {
        let to = |exponent_bits, mantissa_bits, x: Sample| {
            Exemplar::new(ReducePrecision { exponent_bits, mantissa_bits }, [x])
        };
        let edges = [f64::NAN, f64::INFINITY, -0.0, 1.0 + 1.0 / 512.0, 1e38, 1e-38, 70000.0, -3.1];
        let listed = |dtype| Sample::listed(dtype, [8], &edges);
        vec![
            // The precision of the dtype of the derivative laws: the identity.
            to(11, 52, Sample::uniform(DType::F64, [2, 3], -3.0, 3.0)),
            to(11, 52, Sample::uniform(DType::F64, [], -3.0, 3.0)),
            // Narrower precisions are discontinuous.
            to(8, 7, listed(DType::F32)).without_derivative(),
            to(5, 10, listed(DType::F32)).without_derivative(),
            to(8, 23, listed(DType::F64)).without_derivative(),
            to(4, 3, listed(DType::BF16)).without_derivative(),
            to(5, 0, Sample::uniform(DType::F16, [0, 2], -3.0, 3.0)).without_derivative(),
            to(1, 2, Sample::uniform(DType::F16, [2, 1], -3.0, 3.0)).without_derivative(),
        ]
    }
}

/// Rounds `x` to `exponent_bits` bits of exponent and `mantissa_bits` of mantissa, in its dtype.
/// The compiler keeps this rounding, whereas it may remove a conversion and its inverse. See
/// [`ReducePrecision`] for its rules.
/// [`ReducePrecision`] for its rules.
///
/// ```
/// use oxidax::prelude::*;
/// // What bf16 would hold.
/// let y = eval_shape(|x: Array| reduce_precision(&x, 8, 7), Aval::new(DType::F32, [3]))?;
/// assert_eq!(y.aval().to_string(), "f32[3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn reduce_precision(x: &Array, exponent_bits: u32, mantissa_bits: u32) -> Array {
    bind1(ReducePrecision { exponent_bits, mantissa_bits }, [x])
}

#[cfg(test)]
mod tests {
    use super::super::snapshot::{error_of, module_of};
    use super::*;
    use expect_test::expect;

    fn bfloat16() -> ReducePrecision {
        ReducePrecision { exponent_bits: 8, mantissa_bits: 7 }
    }

    #[test]
    fn lowering() {
        expect![[r#"
            func.func public @main(%0: tensor<3xf32>) -> (tensor<3xf32>) {
            %1 = "stablehlo.reduce_precision"(%0) <{exponent_bits = 8 : i32, mantissa_bits = 7 : i32}> : (tensor<3xf32>) -> tensor<3xf32>
            "func.return"(%1) : (tensor<3xf32>) -> ()
            }
        "#]]
        .assert_eq(&module_of(bfloat16(), [Aval::new(DType::F32, [3])]));
    }

    #[test]
    fn rejects_invalid_operands() {
        expect![[r#"
            error[dtype]: reduce_precision: needs a float operand, got i32
              operand: i32[3]"#]]
        .assert_eq(&error_of(bfloat16(), [Aval::new(DType::I32, [3])]));
        let none = ReducePrecision { exponent_bits: 0, mantissa_bits: 7 };
        expect![[r#"
            error[value]: reduce_precision: exponent_bits must be at least 1, got 0
              operand: f32[3]"#]]
        .assert_eq(&error_of(none, [Aval::new(DType::F32, [3])]));
    }
}
