//! Transposition of a named axis and an array axis.

use super::axes::GroupSizes;
use super::lowering;
use super::{CollectiveAxes, behind, merged, split_axis_in};
use crate::core::{
    Array, Aval, BatchAxis, Batched, Collective, Communication, Cost, DType, Exemplar, JvpResult,
    LowerCtx, Operand, Primitive, Registered, RuleError, RuleResult, Sample, Spmd, Tangent, bind1,
};
use crate::ensure_shape;
use crate::primitives::rules::{arity, batch_at_front, batched, linear_jvp, one_cotangent};
use crate::primitives::shape::{reshape, transpose};
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// Sends one part of each example's value to every example along a named axis, and concatenates
/// what arrives.
///
/// | | |
/// |-|-|
/// | operand    | `x: any[…]` whose axis `split_axis` has the size of a group, or, if `tiled`, a multiple of it |
/// | result     | dtype of `x`, without axis `split_axis`, and then with a new one at `concat_axis`; if `tiled`, the first is divided and the second multiplied by that size. The part from example `k` has index `k` |
/// | lowering   | [`all_to_all`](https://openxla.org/stablehlo/spec#all_to_all); for `vmap` a transposition of the batch axis and `split_axis` |
/// | derivative | linear; transposes to the way back, `split_axis` and `concat_axis` exchanged |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AllToAll {
    /// The axes, and groups of equal size. Several axes occur only with groups.
    #[serde(flatten)]
    pub axes: CollectiveAxes,
    /// The operand axis that is split.
    pub split_axis: usize,
    /// The result axis along which received parts are concatenated.
    pub concat_axis: usize,
    /// Keeps the split axis, so that parts have several elements along it.
    pub tiled: bool,
}

impl AllToAll {
    /// Exchanges parts of `[g, s, …]`, the values of `g` groups of `s` examples.
    pub(super) fn exchanged(&self, x: &Array) -> Array {
        let (split, concat) = (self.split_axis, self.concat_axis);
        // Axis 1 is the sender, axis `split + 2` the receiver.
        let n = x.shape()[1];
        let x = if self.tiled { split_axis_in(x, split + 2, n) } else { x.clone() };
        let mut order: Vec<usize> = (2..x.rank()).filter(|&dim| dim != split + 2).collect();
        order.insert(concat, 1);
        order.splice(0..0, [0, split + 2]);
        let y = transpose(&x, &order);
        if self.tiled { merged(&y, concat + 2, concat + 2) } else { y }
    }
}

impl Primitive for AllToAll {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [x] = arity(operands)?;
        self.axes.check(GroupSizes::Equal)?;
        let (split, concat, n) = (self.split_axis, self.concat_axis, self.axes.group_size());
        let (along, rank) = (self.axes.described(), x.rank());
        for (field, dim) in [("split_axis", split), ("concat_axis", concat)] {
            ensure_shape!(
                dim < rank,
                "{field} {dim} must be less than the rank {rank} of the operand"
            );
        }
        let (mut shape, size) = (x.shape.to_vec(), x.shape[split]);
        if self.tiled {
            ensure_shape!(
                n > 0 && size % n == 0,
                "axis {split} has size {size}, which is not divisible by the size {n} of {along}"
            );
            shape[split] /= n;
            shape[concat] *= n;
            return Ok(vec![x.with_shape(shape)]);
        }
        if size != n {
            return Err(RuleError::shape(format!(
                "axis {split} has size {size}, and one element is to go to each of the {n} along {along}"
            ))
            .help("`tiled` sends several elements to each"));
        }
        shape.remove(split);
        shape.insert(concat, n);
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
        let (split, concat) = (self.split_axis, self.concat_axis);
        if !axis.is_among(&self.axes.axis_names) {
            let shifted =
                AllToAll { split_axis: split + 1, concat_axis: concat + 1, ..self.clone() };
            return behind(shifted, operands, axes, axis);
        }
        if !self.axes.is_one_axis() {
            return Ok(self.axes.batch_all(operands, axes, axis, |all| {
                self.axes.in_groups(&all[0], |x| self.exchanged(x))
            }));
        }
        let x = &batch_at_front(operands, axes, axis)[0];
        let one_group = reshape(x, x.shape().insert(0, 1));
        let exchanged = self.exchanged(&one_group);
        Ok(batched(reshape(&exchanged, exchanged.shape().remove(0)), 0))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let groups = self.axes.device_groups(ctx, self.name())?;
        let (x, dtype) = (&operands[0], results[0].dtype);
        let [split, concat] = [self.split_axis, self.concat_axis];
        if self.tiled {
            return Ok(vec![lowering::exchange(ctx, &groups, x, [split, concat], dtype)]);
        }
        let exchanged = lowering::exchange(ctx, &groups, x, [split, split], dtype);
        let mut order: Vec<usize> = (0..results[0].rank()).filter(|&dim| dim != split).collect();
        order.insert(concat, split);
        Ok(vec![ctx.transposed(&exchanged, &order)])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::whole(operands, results)
    }
    fn transpose(&self, cts: &[Tangent], _: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let back =
            AllToAll { split_axis: self.concat_axis, concat_axis: self.split_axis, ..self.clone() };
        Ok(vec![Some(bind1(back, [one_cotangent(cts)?]).into())])
    }
    fn spmd(&self) -> Option<&dyn Spmd> {
        Some(self)
    }
}

impl Spmd for AllToAll {
    fn communication(&self) -> Option<Communication> {
        Some(self.axes.communication(Collective::AllToAll))
    }
    fn axis_names(&self) -> Option<Vec<String>> {
        Some(self.axes.axis_names.clone())
    }
}

impl Registered for AllToAll {
    const NAME: &'static str = "all_to_all";
    fn exemplars() -> Vec<Exemplar> {
        let along = |split_axis, concat_axis, tiled, sample| {
            let axes = CollectiveAxes::one("i", 3);
            let primitive = AllToAll { axes, split_axis, concat_axis, tiled };
            Exemplar::new(primitive, [sample]).along([("i", 3)])
        };
        let in_groups = |split_axis, concat_axis, tiled, sample| {
            let axes = CollectiveAxes::exemplar();
            let primitive = AllToAll { axes, split_axis, concat_axis, tiled };
            Exemplar::new(primitive, [sample]).along([("i", 2), ("j", 2)])
        };
        vec![
            along(0, 0, false, Sample::uniform(DType::F32, [3], -1.0, 1.0)),
            along(0, 1, false, Sample::uniform(DType::F64, [3, 2], -1.0, 1.0)),
            along(2, 0, false, Sample::uniform(DType::I32, [2, 1, 3], 0.0, 9.0)),
            along(0, 1, true, Sample::uniform(DType::F32, [6, 2], -1.0, 1.0)),
            along(1, 1, true, Sample::uniform(DType::F64, [2, 6], -1.0, 1.0)),
            along(2, 0, true, Sample::uniform(DType::F32, [2, 1, 3], -1.0, 1.0)),
            along(1, 0, true, Sample::uniform(DType::F32, [0, 3], -1.0, 1.0)),
            in_groups(1, 0, false, Sample::uniform(DType::F32, [3, 2], -1.0, 1.0)),
            in_groups(0, 1, true, Sample::uniform(DType::F64, [4, 3], -1.0, 1.0)),
        ]
    }
}
