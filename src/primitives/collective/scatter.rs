//! Sum over a named axis, scattered over the examples.

use super::lowering::{self, Groups};
use super::sum::total;
use super::{AllGather, behind, split_axis_in};
use crate::core::{
    Array, Aval, BatchAxis, Batched, Collective, Communication, Cost, DType, Exemplar, JvpResult,
    LowerCtx, Operand, Primitive, Registered, RuleError, RuleResult, Sample, Spmd, Tangent, bind1,
};
use crate::ensure_shape;
use crate::primitives::rules::{batched, linear_jvp, one_cotangent, same_numeric_type};
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// Sum over all examples along a named axis, of which each example gets one part.
///
/// | | |
/// |-|-|
/// | operand    | `x: {int, float, complex}[…]` whose axis `scatter_dimension` has size `axis_size`, or, if `tiled`, a multiple of it |
/// | result     | dtype of `x`, without that axis; if `tiled`, with that axis divided by `axis_size` |
/// | lowering   | [`reduce_scatter`](https://openxla.org/stablehlo/spec#reduce_scatter); for `vmap` a sum along the batch axis, after which the scattered axis is the batch axis |
/// | derivative | linear; transposes to [`AllGather`] |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[doc(alias = "reduce_scatter")]
pub struct PSumScatter {
    /// The name of the axis.
    pub axis_name: String,
    /// The size of the axis.
    pub axis_size: usize,
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
        let (dim, n, name) = (self.scatter_dimension, self.axis_size, &self.axis_name);
        ensure_shape!(dim < x.rank(), "dimension {dim} must be less than the rank {}", x.rank());
        let size = x.shape[dim];
        if self.tiled {
            ensure_shape!(
                n > 0 && size % n == 0,
                "axis {dim} has size {size}, which is not divisible by the size {n} of `{name}`"
            );
            let mut shape = x.shape.to_vec();
            shape[dim] /= n;
            return Ok(vec![x.with_shape(shape)]);
        }
        if size != n {
            return Err(RuleError::shape(format!(
                "axis {dim} has size {size}, and one element is to go to each of the {n} along `{name}`"
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
        if !axis.is_named(&self.axis_name) {
            let shifted = PSumScatter { scatter_dimension: dim + 1, ..self.clone() };
            return behind(shifted, operands, axes, axis);
        }
        let sum = total(&operands[0], axes[0], axis.size);
        let sum = if self.tiled { split_axis_in(&sum, dim, self.axis_size) } else { sum };
        Ok(batched(sum, dim))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let groups = Groups::along(ctx, self.name(), std::slice::from_ref(&self.axis_name))?;
        let dim = self.scatter_dimension;
        Ok(vec![lowering::sum_scatter(ctx, &groups, &operands[0], dim, &results[0])?])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost { flops: Cost::elementwise(operands, results).flops, ..Cost::whole(operands, results) }
    }
    fn transpose(&self, cts: &[Tangent], _: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let gather = AllGather {
            axis_name: self.axis_name.clone(),
            axis_size: self.axis_size,
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
        Some(Communication::along(Collective::ReduceScatter, std::slice::from_ref(&self.axis_name)))
    }
    fn axis_names(&self) -> Option<Vec<String>> {
        Some(vec![self.axis_name.clone()])
    }
}

impl Registered for PSumScatter {
    const NAME: &'static str = "psum_scatter";
    fn exemplars() -> Vec<Exemplar> {
        let along = |scatter_dimension, tiled, sample| {
            let scatter =
                PSumScatter { axis_name: "i".into(), axis_size: 3, scatter_dimension, tiled };
            Exemplar::new(scatter, [sample]).along([("i", 3)])
        };
        vec![
            along(0, false, Sample::uniform(DType::F32, [3], -1.0, 1.0)),
            along(1, false, Sample::uniform(DType::F64, [2, 3, 2], -1.0, 1.0)),
            along(1, true, Sample::uniform(DType::F32, [2, 6], -1.0, 1.0)),
            along(0, true, Sample::uniform(DType::I32, [0, 2], 0.0, 9.0)),
            along(0, true, Sample::uniform(DType::F32, [3, 1], -1.0, 1.0)),
        ]
    }
}
