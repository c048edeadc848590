//! Reinterpretation of bits as another dtype.

use super::rules::{arity, batched, move_axis, zero_jvp};
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, LowerCtx, Primitive,
    Registered, RuleResult, Sample, Tangent, bind1,
};
use crate::stablehlo::Value;
use crate::{ensure_dtype, ensure_shape};
use serde::{Deserialize, Serialize};

/// Reinterprets the bits of every element as another dtype.
///
/// | | |
/// |-|-|
/// | operand    | `x: {int, float, complex}[…]` |
/// | result     | the shape of `x` if the widths are equal; to a dtype `n` times narrower a last axis of `n` is added, least significant first; to one `n` times wider the last axis, of size `n`, goes |
/// | lowering   | [`stablehlo.bitcast_convert`](https://openxla.org/stablehlo/spec#bitcast_convert) |
/// | derivative | zero |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BitcastConvertType {
    /// The dtype of the result.
    pub dtype: DType,
}

impl Primitive for BitcastConvertType {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [x] = arity(operands)?;
        ensure_dtype!(
            !x.dtype.is_bool() && !self.dtype.is_bool(),
            "bool has no bits to read, got {} to {}",
            x.dtype,
            self.dtype
        );
        ensure_dtype!(
            x.dtype.is_complex() == self.dtype.is_complex(),
            "complex and real dtypes do not share bits, got {} to {}",
            x.dtype,
            self.dtype
        );
        let (from, to) = (x.dtype.bits(), self.dtype.bits());
        let mut dims = x.shape.to_vec();
        if from > to {
            dims.push(from / to);
        } else if from < to {
            ensure_shape!(
                dims.last() == Some(&(to / from)),
                "{from}-bit elements become {to}-bit ones along a last axis of {}, got {x}",
                to / from
            );
            dims.pop();
        }
        Ok(vec![Aval::new(self.dtype, dims)])
    }
    fn jvp(&self, primals: &[Array], _: &[Tangent]) -> JvpResult {
        zero_jvp(self, primals)
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        _: &BatchAxis,
    ) -> RuleResult<Batched> {
        let x = move_axis(&operands[0], axes[0].unwrap_or(0), 0);
        Ok(batched(bind1(self.clone(), [&x]), 0))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        Ok(vec![ctx.op_as("bitcast_convert", operands, "", &results[0].stablehlo())])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::movement(operands, results)
    }
}

/// Reinterprets the bits of `x` as `dtype`. See [`BitcastConvertType`] for widths and rules.
#[track_caller]
pub fn bitcast_convert_type(x: &Array, dtype: DType) -> Array {
    bind1(BitcastConvertType { dtype }, [x])
}

impl Registered for BitcastConvertType {
    const NAME: &'static str = "bitcast_convert_type";
    fn exemplars() -> Vec<Exemplar> {
        let to = |dtype: DType, sample: Sample| {
            Exemplar::new(BitcastConvertType { dtype }, [sample]).without_derivative()
        };
        vec![
            to(DType::U32, Sample::uniform(DType::F32, [2, 3], -1.0, 1.0)),
            to(DType::F32, Sample::uniform(DType::I32, [0], 0.0, 9.0)),
            to(DType::U16, Sample::uniform(DType::U64, [2], 0.0, 1e15)),
            to(DType::U32, Sample::uniform(DType::U8, [2, 4], 0.0, 255.0)),
            to(DType::U16, Sample::listed(DType::BF16, [], &[-0.0])),
        ]
    }
}

#[cfg(test)]
mod tests {
    use crate::prelude::*;

    #[test]
    fn widths_change_the_last_axis() {
        let shape = |from: DType, dims: &[usize], to: DType| {
            eval_shape(move |x: Array| bitcast_convert_type(&x, to), Aval::new(from, dims))
                .map(|y| y.aval().to_string())
        };
        assert_eq!(shape(DType::F32, &[2], DType::U8).unwrap(), "u8[2,4]");
        assert_eq!(shape(DType::U8, &[2, 4], DType::F32).unwrap(), "f32[2]");
        let error = shape(DType::U8, &[2, 3], DType::F32).unwrap_err().to_string();
        assert!(error.contains("along a last axis of 4, got u8[2,3]"), "{error}");
    }
}
