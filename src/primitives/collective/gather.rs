//! Concatenation or stacking of the examples along a named axis.

use super::lowering::{self, Groups};
use super::{PSumScatter, behind, merged};
use crate::core::{
    Array, Aval, BatchAxis, Batched, Collective, Communication, Cost, DType, Exemplar, JvpResult,
    LowerCtx, Operand, Primitive, Registered, RuleResult, Sample, Spmd, Tangent, bind1,
};
use crate::ensure_shape;
use crate::primitives::rules::{arity, batch_at, linear_jvp, one_cotangent};
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// Gathers the values of all examples along a named axis into one array.
///
/// | | |
/// |-|-|
/// | operand    | `x: any[…]` |
/// | result     | dtype of `x`, the same for all examples; a new axis of size `axis_size` at `all_gather_dimension`; if `tiled`, that axis of `x` is `axis_size` times as long |
/// | lowering   | [`all_gather`](https://openxla.org/stablehlo/spec#all_gather); for `vmap` the batch axis becomes an ordinary one |
/// | derivative | linear; transposes to [`PSumScatter`] |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AllGather {
    /// The name of the axis.
    pub axis_name: String,
    /// The size of the axis.
    pub axis_size: usize,
    /// The dimension of the result along which the values are gathered.
    pub all_gather_dimension: usize,
    /// Concatenates along an existing dimension instead of stacking along a new one.
    pub tiled: bool,
}

impl Primitive for AllGather {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [x] = arity(operands)?;
        let dim = self.all_gather_dimension;
        let rank = x.rank() + usize::from(!self.tiled);
        ensure_shape!(dim < rank, "dimension {dim} must be less than {rank}");
        let mut shape = x.shape.to_vec();
        if self.tiled {
            shape[dim] = shape[dim].saturating_mul(self.axis_size)
        } else {
            shape.insert(dim, self.axis_size)
        }
        Ok(vec![x.with_shape(shape)])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        linear_jvp(self, primals, tangents)
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        let dim = self.all_gather_dimension;
        if !axis.is_named(&self.axis_name) {
            let shifted = AllGather { all_gather_dimension: dim + 1, ..self.clone() };
            return behind(shifted, operands, axes, axis);
        }
        let gathered = batch_at(&operands[0], axes[0], dim, axis);
        let gathered = if self.tiled { merged(&gathered, dim, dim) } else { gathered };
        Ok(Batched { outputs: vec![gathered], axes: vec![None] })
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let groups = Groups::along(ctx, self.name(), std::slice::from_ref(&self.axis_name))?;
        let (dim, result) = (self.all_gather_dimension, &results[0]);
        let own = if self.tiled {
            operands[0].clone()
        } else {
            let own = result.with_shape(result.shape.remove(dim).insert(dim, 1));
            lowering::shaped(ctx, &operands[0], &own)
        };
        Ok(vec![lowering::gather(ctx, &groups, &own, dim, result.dtype)])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::whole(operands, results)
    }
    fn transpose(&self, cts: &[Tangent], _: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let scatter = PSumScatter {
            axis_name: self.axis_name.clone(),
            axis_size: self.axis_size,
            scatter_dimension: self.all_gather_dimension,
            tiled: self.tiled,
        };
        Ok(vec![Some(bind1(scatter, [one_cotangent(cts)?]).into())])
    }
    fn spmd(&self) -> Option<&dyn Spmd> {
        Some(self)
    }
}

impl Spmd for AllGather {
    fn communication(&self) -> Option<Communication> {
        Some(Communication::along(Collective::AllGather, std::slice::from_ref(&self.axis_name)))
    }
    fn axis_names(&self) -> Option<Vec<String>> {
        Some(vec![self.axis_name.clone()])
    }
}

impl Registered for AllGather {
    const NAME: &'static str = "all_gather";
    fn exemplars() -> Vec<Exemplar> {
        let along = |all_gather_dimension, tiled, sample| {
            let gather =
                AllGather { axis_name: "i".into(), axis_size: 3, all_gather_dimension, tiled };
            Exemplar::new(gather, [sample]).along([("i", 3)])
        };
        vec![
            along(0, false, Sample::uniform(DType::F32, [], -1.0, 1.0)),
            along(2, false, Sample::uniform(DType::F64, [2, 4], -1.0, 1.0)),
            along(1, true, Sample::uniform(DType::F32, [2, 2], -1.0, 1.0)),
            along(0, true, Sample::uniform(DType::I32, [0, 2], 0.0, 9.0)),
            along(0, true, Sample::uniform(DType::F32, [1], -1.0, 1.0)),
        ]
    }
}
