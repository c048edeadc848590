//! Sum over a named axis, scattered over the examples.

use super::axes::GroupSizes;
use super::lowering;
use super::sum::total;
use super::{AllGather, CollectiveAxes, behind, split_axis_in};
use crate::core::{
    Array, Aval, BatchAxis, Batched, Collective, Communication, Cost, DType, Exemplar, JvpResult,
    LowerCtx, Operand, Primitive, Registered, RuleError, RuleResult, Sample, Spmd, Tangent, bind1,
};
use crate::ensure_shape;
use crate::primitives::reduce::reduce_sum;
use crate::primitives::rules::{batched, linear_jvp, move_axis, one_cotangent, same_numeric_type};
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// Sum over all examples along a named axis, of which each example gets one part.
///
/// | | |
/// |-|-|
/// | operand    | `x: {int, float, complex}[…]` whose axis `scatter_dimension` has the size of a group, or, if `tiled`, a multiple of it |
/// | result     | dtype of `x`, without that axis; if `tiled`, with that axis divided by the size of a group |
/// | lowering   | [`reduce_scatter`](https://openxla.org/stablehlo/spec#reduce_scatter); for `vmap` a sum along the batch axis, after which the scattered axis is the batch axis |
/// | derivative | linear; transposes to [`AllGather`] |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[doc(alias = "reduce_scatter")]
pub struct PSumScatter {
    /// The axes, and groups of equal size. Several axes occur only with groups.
    #[serde(flatten)]
    pub axes: CollectiveAxes,
    /// The dimension of the sum that is scattered.
    pub scatter_dimension: usize,
    /// Keeps the scattered dimension, with one part of its elements.
    pub tiled: bool,
}

impl Primitive for PSumScatter {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let x = same_numeric_type(operands)?;
        self.axes.check(GroupSizes::Equal)?;
        let (dim, n) = (self.scatter_dimension, self.axes.group_size());
        let along = self.axes.described();
        ensure_shape!(dim < x.rank(), "dimension {dim} must be less than the rank {}", x.rank());
        let size = x.shape[dim];
        if self.tiled {
            ensure_shape!(
                n > 0 && size % n == 0,
                "axis {dim} has size {size}, which is not divisible by the size {n} of {along}"
            );
            let mut shape = x.shape.to_vec();
            shape[dim] /= n;
            return Ok(vec![x.with_shape(shape)]);
        }
        if size != n {
            return Err(RuleError::shape(format!(
                "axis {dim} has size {size}, and one element is to go to each of the {n} along {along}"
            ))
            .help("`tiled` scatters several elements to each"));
        }
        Ok(vec![x.with_shape(x.shape.remove(dim))])
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
        let dim = self.scatter_dimension;
        if !axis.is_among(&self.axes.axis_names) {
            let shifted = PSumScatter { scatter_dimension: dim + 1, ..self.clone() };
            return behind(shifted, operands, axes, axis);
        }
        if !self.axes.is_one_axis() {
            return Ok(self.axes.batch_all(operands, axes, axis, |all| {
                self.axes.in_groups(&all[0], |x| {
                    let sum = reduce_sum(x, &[1]);
                    let parts = match self.tiled {
                        true => split_axis_in(&sum, dim + 1, x.shape()[1]),
                        false => sum,
                    };
                    move_axis(&parts, dim + 1, 1)
                })
            }));
        }
        let sum = total(&operands[0], axes[0], axis.size);
        let sum = if self.tiled { split_axis_in(&sum, dim, self.axes.group_size()) } else { sum };
        Ok(batched(sum, dim))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let groups = self.axes.device_groups(ctx, self.name())?;
        let dim = self.scatter_dimension;
        Ok(vec![lowering::sum_scatter(ctx, &groups, &operands[0], dim, &results[0])?])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost { flops: Cost::elementwise(operands, results).flops, ..Cost::whole(operands, results) }
    }
    fn transpose(&self, cts: &[Tangent], _: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let gather = AllGather {
            axes: self.axes.clone(),
            all_gather_dimension: self.scatter_dimension,
            tiled: self.tiled,
        };
        Ok(vec![Some(bind1(gather, [one_cotangent(cts)?]).into())])
    }
    fn spmd(&self) -> Option<&dyn Spmd> {
        Some(self)
    }
}

impl Spmd for PSumScatter {
    fn communication(&self) -> Option<Communication> {
        Some(self.axes.communication(Collective::ReduceScatter))
    }
    fn axis_names(&self) -> Option<Vec<String>> {
        Some(self.axes.axis_names.clone())
    }
}

impl Registered for PSumScatter {
    const NAME: &'static str = "psum_scatter";
    fn exemplars() -> Vec<Exemplar> {
        let along = |scatter_dimension, tiled, sample| {
            let scatter =
                PSumScatter { axes: CollectiveAxes::one("i", 3), scatter_dimension, tiled };
            Exemplar::new(scatter, [sample]).along([("i", 3)])
        };
        let in_groups = |scatter_dimension, tiled, sample| {
            let axes = CollectiveAxes::exemplar();
            let scatter = PSumScatter { axes, scatter_dimension, tiled };
            Exemplar::new(scatter, [sample]).along([("i", 2), ("j", 2)])
        };
        vec![
            along(0, false, Sample::uniform(DType::F32, [3], -1.0, 1.0)),
            along(1, false, Sample::uniform(DType::F64, [2, 3, 2], -1.0, 1.0)),
            along(1, true, Sample::uniform(DType::F32, [2, 6], -1.0, 1.0)),
            along(0, true, Sample::uniform(DType::I32, [0, 2], 0.0, 9.0)),
            along(0, true, Sample::uniform(DType::F32, [3, 1], -1.0, 1.0)),
            in_groups(1, false, Sample::uniform(DType::F32, [3, 2], -1.0, 1.0)),
            in_groups(0, true, Sample::uniform(DType::F64, [4], -1.0, 1.0)),
        ]
    }
}
