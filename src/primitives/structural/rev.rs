//! Reversal.

use super::distinct_axes;
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, LowerCtx, Operand,
    Primitive, Registered, RuleResult, Sample, Tangent, bind1, trace,
};
use crate::ensure_shape;
use crate::primitives::rules::{arity, batched, linear_jvp, one_cotangent};
use crate::stablehlo::{Value, i64_array};
use serde::{Deserialize, Serialize};

/// Reverses the order of elements along axes.
///
/// | | |
/// |-|-|
/// | operand    | `x: any[…]` |
/// | result     | the type of `x` |
/// | lowering   | [`stablehlo.reverse`](https://openxla.org/stablehlo/spec#reverse) |
/// | derivative | linear; its own transpose |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rev {
    /// The axes to reverse, distinct.
    pub dimensions: Vec<usize>,
}

impl Primitive for Rev {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [x] = arity(operands)?;
        let axes = &self.dimensions;
        let distinct = (1..axes.len()).all(|index| !axes[..index].contains(&axes[index]));
        ensure_shape!(
            distinct && axes.iter().all(|&axis| axis < x.rank()),
            "dimensions {axes:?} must be distinct and lie below the rank {} of {x}",
            x.rank()
        );
        Ok(vec![x.clone()])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        linear_jvp(self, primals, tangents)
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        _: &BatchAxis,
    ) -> RuleResult<Batched> {
        let index = axes[0].unwrap_or(0);
        let dimensions = self.dimensions.iter().map(|&axis| axis + usize::from(axis >= index));
        Ok(batched(bind1(Rev { dimensions: dimensions.collect() }, [&operands[0]]), index))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        _: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let dimensions = format!("dimensions = {}", i64_array(&self.dimensions));
        let ty = operands[0].ty().clone();
        Ok(vec![ctx.op_as("reverse", operands, &dimensions, &ty)])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::movement(operands, results)
    }
    fn transpose(&self, cts: &[Tangent], _: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        Ok(vec![Some(bind1(self.clone(), [one_cotangent(cts)?]).into())])
    }
}

/// Reverses the elements of `x` along `axes`. Negative axes count from the back. See [`Rev`] for
/// its rules.
/// [`Rev`] for its rules.
#[doc(alias = "reverse")]
#[doc(alias = "flip")]
#[track_caller]
pub fn rev(x: &Array, axes: &[isize]) -> Array {
    match distinct_axes(axes, x.rank()) {
        Ok(dimensions) if dimensions.is_empty() => x.clone(),
        Ok(dimensions) => bind1(Rev { dimensions }, [x]),
        Err(error) => trace::throw_operands("rev", error, &[x]),
    }
}

impl Registered for Rev {
    const NAME: &'static str = "rev";
    fn exemplars() -> Vec<Exemplar> {
        let along = |dimensions: &[usize], sample| {
            Exemplar::new(Rev { dimensions: dimensions.to_vec() }, [sample])
        };
        vec![
            along(&[1], Sample::uniform(DType::F32, [2, 3], -1.0, 1.0)),
            along(&[0, 2], Sample::uniform(DType::F32, [2, 3, 4], -1.0, 1.0)),
            along(&[0], Sample::uniform(DType::I32, [0], 0.0, 1.0)),
            along(&[0], Sample::listed(DType::Bool, [3], &[0.0, 1.0, 1.0])),
            along(&[], Sample::uniform(DType::C64, [], -1.0, 1.0)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn axes_are_distinct_and_in_range() {
        let x = Aval::new(DType::F32, [2, 3]);
        let error = Rev { dimensions: vec![1, 1] }.abstract_eval(std::slice::from_ref(&x));
        expect!["dimensions [1, 1] must be distinct and lie below the rank 2 of f32[2,3]"]
            .assert_eq(&error.unwrap_err().message);
    }
}
