//! Conversion between dtypes.

use super::rules::{arity, one_cotangent};
use crate::core::{
    Array, Aval, DType, Exemplar, JvpResult, LowerCtx, Operand, RuleResult, Sample, Tangent, bind1,
};
use crate::primitives::elementwise::{
    CostRule, Derivative, Elementwise, Lowering, TransposeRule, TypeRule,
};
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// Converts every element to another dtype.
///
/// | | |
/// |-|-|
/// | operand    | `x: any[…]` |
/// | result     | the shape of `x`, of dtype `dtype`; floats round to nearest even, float to int truncates and saturates, int to int wraps, to `bool` is `x != 0`, complex to real drops the imaginary part |
/// | lowering   | [`stablehlo.convert`](https://openxla.org/stablehlo/spec#convert) |
/// | derivative | the same conversion between float and complex dtypes, else zero |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ConvertElementType {
    /// The dtype of the result.
    pub dtype: DType,
    /// The result is weakly typed.
    pub weak: bool,
}

impl ConvertElementType {
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [x] = arity(operands)?;
        Ok(vec![Aval { weak: self.weak, ..Aval::new(self.dtype, &x.shape) }])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let y = bind1(self.clone(), [&primals[0]]);
        let smooth = self.dtype.is_inexact() && primals[0].dtype().is_inexact();
        let dy = if smooth {
            tangents[0].map(y.aval(), |dx| bind1(self.clone(), [dx]))
        } else {
            Tangent::zero_like(&y)
        };
        Ok((vec![y], vec![dy]))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let result = results[0].stablehlo();
        if operands[0].ty() == &result {
            // Only the weakness differs.
            return Ok(operands.to_vec());
        }
        Ok(vec![ctx.op_as("convert", operands, "", &result)])
    }
    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let x = operands[0].aval();
        Ok(vec![Some(convert_to(one_cotangent(cts)?, x.dtype, x.weak).into())])
    }
}

impl Elementwise for ConvertElementType {
    const NAME: &'static str = "convert_element_type";
    const TYPE: TypeRule<ConvertElementType> = TypeRule::Custom(ConvertElementType::abstract_eval);
    const DERIVATIVE: Derivative<ConvertElementType> = Derivative::Custom(ConvertElementType::jvp);
    const LOWERING: Lowering<ConvertElementType> = Lowering::Custom(ConvertElementType::lower);
    const COST: CostRule<ConvertElementType> = CostRule::Arithmetic;
    const TRANSPOSE: Option<TransposeRule<ConvertElementType>> =
        Some(ConvertElementType::transpose);
    fn exemplars() -> Vec<Exemplar> {
        let to = |dtype: DType, sample: Sample| {
            Exemplar::new(ConvertElementType { dtype, weak: false }, [sample])
        };
        let floats = || Sample::uniform(DType::F32, [2, 3], -3.0, 3.0);
        let edges = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 3e9, -129.5];
        let mut all: Vec<Exemplar> = DType::all().map(|dtype| to(dtype, floats())).collect();
        all.push(to(DType::I8, Sample::listed(DType::F32, [6], &edges)).without_derivative());
        all.push(to(DType::F32, Sample::uniform(DType::C64, [3], -1.0, 1.0)));
        all.push(to(DType::U8, Sample::listed(DType::I32, [3], &[-1.0, 256.0, 7.0])));
        all.push(to(DType::BF16, Sample::uniform(DType::F64, [], -1.0, 1.0)));
        all
    }
}

/// Converts `x` to a dtype and weakness; returns `x` itself if it has them.
#[track_caller]
pub(crate) fn convert_to(x: &Array, dtype: DType, weak: bool) -> Array {
    if x.dtype() == dtype && x.aval().weak == weak {
        x.clone()
    } else {
        bind1(ConvertElementType { dtype, weak }, [x])
    }
}

/// Converts every element of `x` to `dtype`. See [`ConvertElementType`] for its rules.
#[doc(alias = "astype")]
#[track_caller]
pub fn convert_element_type(x: &Array, dtype: DType) -> Array {
    convert_to(x, dtype, false)
}
