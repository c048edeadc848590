//! Sum over named axes.

use super::lowering::{self, Groups};
use super::{AxisIndexGroups, vary};
use crate::core::{
    Array, Aval, BatchAxis, Batched, Collective, Communication, Cost, DType, Exemplar, JvpResult,
    LowerCtx, Operand, Primitive, Registered, RuleResult, Sample, Scalar, Spmd, Tangent, Varying,
    bind1,
};
use crate::primitives::arithmetic::mul;
use crate::primitives::constant::fill_of;
use crate::primitives::reduce::reduce_sum;
use crate::primitives::rules::{
    arity, batched, broadcast_axis, linear_jvp, one_cotangent, same_numeric_type,
};
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// Sum over all examples along named axes.
///
/// | | |
/// |-|-|
/// | operand    | `x: {int, float, complex}[…]` |
/// | result     | type of `x`, the same for all examples, or for those of a group; integers wrap |
/// | lowering   | [`all_reduce`](https://openxla.org/stablehlo/spec#all_reduce); `vmap` makes it a sum along the batch axis, and a product with the size where the operand is the same for all |
/// | derivative | linear; for `vmap` transposes to itself: a cotangent is that of the sum of all examples' results; where types say what varies, to [`PVary`](super::PVary) |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[doc(alias = "all_reduce")]
pub struct PSum {
    /// The distinct names of the axes.
    pub axis_names: Vec<String>,
    /// The groups of indices that are summed; `None` for all together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub axis_index_groups: Option<AxisIndexGroups>,
}

impl PSum {
    /// Creates the sum over all examples along these axes.
    pub fn over(axis_names: Vec<String>) -> PSum {
        PSum { axis_names, axis_index_groups: None }
    }
}

/// Returns the sum along batch axis `axis`. If `x` is equal for the whole batch, returns its
/// product with `size`.
pub(super) fn total(x: &Array, axis: Option<usize>, size: usize) -> Array {
    match axis {
        Some(axis) => reduce_sum(x, &[axis as isize]),
        None if x.dtype().is_inexact() => mul(x, fill_of(Scalar::Int(size as i128), x.aval())),
        // A size that overflows the dtype wraps, as the sum does.
        None => reduce_sum(&broadcast_axis(x, 0, size), &[0]),
    }
}

/// Returns the names without the name of the batch axis.
pub(super) fn other_names(names: &[String], axis: &BatchAxis) -> Vec<String> {
    names.iter().filter(|name| !axis.is_named(name)).cloned().collect()
}

impl Primitive for PSum {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        arity::<1>(operands)?;
        if let Some(groups) = &self.axis_index_groups {
            groups.check(&self.axis_names)?;
        }
        Ok(vec![same_numeric_type(operands)?])
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
        if !axis.is_among(&self.axis_names) {
            return Ok(batched(bind1(self.clone(), [&operands[0]]), axes[0].unwrap_or(0)));
        }
        if let Some(groups) = &self.axis_index_groups {
            let along = groups.along(&self.axis_names);
            return Ok(along.batch_all(operands, axes, axis, |all| {
                along.reduce_groups(&all[0], |x| reduce_sum(x, &[1]))
            }));
        }
        let sum = total(&operands[0], axes[0], axis.size);
        let sum = match other_names(&self.axis_names, axis) {
            none if none.is_empty() => sum,
            axis_names => bind1(PSum::over(axis_names), [&sum]),
        };
        Ok(Batched { outputs: vec![sum], axes: vec![None] })
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        if self.axis_names.is_empty() {
            return Ok(operands.to_vec());
        }
        let groups = match &self.axis_index_groups {
            None => Groups::along(ctx, self.name(), &self.axis_names)?,
            Some(groups) if groups.are_equal() => {
                groups.along(&self.axis_names).device_groups(ctx, self.name())?
            }
            // Not every compiler has sums over groups of different sizes.
            Some(groups) => {
                let along = groups.along(&self.axis_names);
                return along.lower_all(ctx, operands, |all| {
                    along.reduce_groups(&all[0], |x| reduce_sum(x, &[1]))
                });
            }
        };
        Ok(vec![lowering::sum(ctx, &groups, &operands[0], results[0].dtype)?])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost { flops: Cost::elementwise(operands, results).flops, ..Cost::whole(operands, results) }
    }
    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        if self.axis_index_groups.is_some() {
            return Ok(vec![Some(bind1(self.clone(), [one_cotangent(cts)?]).into())]);
        }
        let before = &operands[0].aval().varying;
        let (tracked, summed): (Vec<String>, Vec<String>) =
            self.axis_names.iter().cloned().partition(|name| before.contains(name));
        let ct = one_cotangent(cts)?;
        let ct = if summed.is_empty() { ct.clone() } else { bind1(PSum::over(summed), [ct]) };
        Ok(vec![Some(vary(&ct, &Varying::over(tracked)).into())])
    }
    fn spmd(&self) -> Option<&dyn Spmd> {
        Some(self)
    }
}

impl Spmd for PSum {
    fn result_varying(&self, operands: &[Aval], _: &[Aval]) -> Option<Vec<Varying>> {
        // Groups have different sums.
        Some(vec![match self.axis_index_groups {
            Some(_) => operands[0].varying.clone(),
            None => operands[0].varying.without(&self.axis_names),
        }])
    }
    fn communication(&self) -> Option<Communication> {
        Some(match &self.axis_index_groups {
            Some(groups) => groups.along(&self.axis_names).communication(Collective::AllReduce),
            None => Communication::along(Collective::AllReduce, &self.axis_names),
        })
    }
    fn axis_names(&self) -> Option<Vec<String>> {
        Some(self.axis_names.clone())
    }
}

impl Registered for PSum {
    const NAME: &'static str = "psum";
    fn exemplars() -> Vec<Exemplar> {
        let over = |names: &[&str], sample| {
            let axis_names = names.iter().map(ToString::to_string).collect();
            Exemplar::new(PSum::over(axis_names), [sample]).along([("i", 3), ("j", 2)])
        };
        let in_groups = |groups: &[&[usize]], sample| {
            let groups = groups.iter().map(|group| group.to_vec()).collect();
            let groups = AxisIndexGroups { axis_sizes: vec![3, 2], groups };
            let axis_names = vec!["i".into(), "j".into()];
            let sum = PSum { axis_names, axis_index_groups: Some(groups) };
            Exemplar::new(sum, [sample]).along([("i", 3), ("j", 2)])
        };
        vec![
            over(&["i"], Sample::uniform(DType::F32, [2, 3], -1.0, 1.0)),
            over(&["j", "i"], Sample::uniform(DType::F64, [2], -1.0, 1.0)),
            over(&["j"], Sample::uniform(DType::C64, [], -1.0, 1.0)),
            over(&["i"], Sample::listed(DType::U8, [2], &[200.0, 100.0, 1.0])),
            over(&["i"], Sample::uniform(DType::F32, [0], -1.0, 1.0)),
            in_groups(&[&[0, 3, 4], &[5, 2, 1]], Sample::uniform(DType::F32, [2], -1.0, 1.0)),
            in_groups(&[&[0, 3, 4, 1], &[5, 2]], Sample::uniform(DType::F64, [], -1.0, 1.0)),
        ]
    }
}
