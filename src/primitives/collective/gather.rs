//! Concatenation or stacking of the examples along a named axis.

use super::axes::GroupSizes;
use super::lowering;
use super::{CollectiveAxes, PSumScatter, behind, merged};
use crate::core::{
    Array, Aval, BatchAxis, Batched, Collective, Communication, Cost, DType, Exemplar, JvpResult,
    LowerCtx, Operand, Primitive, Registered, RuleResult, Sample, Spmd, Tangent, bind1,
};
use crate::ensure_shape;
use crate::primitives::rules::{
    arity, batch_at, broadcast_axis, linear_jvp, move_axis, one_cotangent,
};
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// Gathers the values of all examples along a named axis into one array.
///
/// | | |
/// |-|-|
/// | operand    | `x: any[…]` |
/// | result     | dtype of `x`, the same for all examples; a new axis of the size of a group at `all_gather_dimension`; if `tiled`, that axis of `x` is so many times as long |
/// | lowering   | [`all_gather`](https://openxla.org/stablehlo/spec#all_gather); for `vmap` the batch axis becomes an ordinary one |
/// | derivative | linear; transposes to [`PSumScatter`] |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AllGather {
    /// The axes, and groups of equal size. Several axes occur only with groups.
    #[serde(flatten)]
    pub axes: CollectiveAxes,
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
        self.axes.check(GroupSizes::Equal)?;
        let dim = self.all_gather_dimension;
        let rank = x.rank() + usize::from(!self.tiled);
        ensure_shape!(dim < rank, "dimension {dim} must be less than {rank}");
        let mut shape = x.shape.to_vec();
        if self.tiled {
            shape[dim] = shape[dim].saturating_mul(self.axes.group_size())
        } else {
            shape.insert(dim, self.axes.group_size())
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
        if !axis.is_among(&self.axes.axis_names) {
            let shifted = AllGather { all_gather_dimension: dim + 1, ..self.clone() };
            return behind(shifted, operands, axes, axis);
        }
        if !self.axes.is_one_axis() {
            return Ok(self.axes.batch_all(operands, axes, axis, |all| {
                self.axes.in_groups(&all[0], |x| {
                    let gathered = match self.tiled {
                        true => merged(x, 1, dim + 1),
                        false => move_axis(x, 1, dim + 1),
                    };
                    broadcast_axis(&gathered, 1, x.shape()[1])
                })
            }));
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
        let groups = self.axes.device_groups(ctx, self.name())?;
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
            axes: self.axes.clone(),
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
        Some(self.axes.communication(Collective::AllGather))
    }
    fn axis_names(&self) -> Option<Vec<String>> {
        Some(self.axes.axis_names.clone())
    }
}

impl Registered for AllGather {
    const NAME: &'static str = "all_gather";
    fn exemplars() -> Vec<Exemplar> {
        let along = |all_gather_dimension, tiled, sample| {
            let gather =
                AllGather { axes: CollectiveAxes::one("i", 3), all_gather_dimension, tiled };
            Exemplar::new(gather, [sample]).along([("i", 3)])
        };
        let in_groups = |all_gather_dimension, tiled, sample| {
            let axes = CollectiveAxes::exemplar();
            let gather = AllGather { axes, all_gather_dimension, tiled };
            Exemplar::new(gather, [sample]).along([("i", 2), ("j", 2)])
        };
        vec![
            along(0, false, Sample::uniform(DType::F32, [], -1.0, 1.0)),
            along(2, false, Sample::uniform(DType::F64, [2, 4], -1.0, 1.0)),
            along(1, true, Sample::uniform(DType::F32, [2, 2], -1.0, 1.0)),
            along(0, true, Sample::uniform(DType::I32, [0, 2], 0.0, 9.0)),
            along(0, true, Sample::uniform(DType::F32, [1], -1.0, 1.0)),
            in_groups(1, false, Sample::uniform(DType::F32, [2], -1.0, 1.0)),
            in_groups(0, true, Sample::uniform(DType::F64, [2, 3], -1.0, 1.0)),
        ]
    }
}
