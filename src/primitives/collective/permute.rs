//! Permutation of values along a named axis.

use super::CollectiveAxes;
use super::axes::{GroupSizes, select_rows};
use super::lowering;
use crate::core::{
    Array, Aval, BatchAxis, Batched, Collective, Communication, Cost, DType, Exemplar, JvpResult,
    LowerCtx, Operand, Primitive, Registered, RuleResult, Sample, Spmd, Tangent, bind1,
};
use crate::ensure;
use crate::primitives::rules::{arity, batch_at_front, batched, linear_jvp, one_cotangent};
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// Sends the value of each example to another example along a named axis.
///
/// | | |
/// |-|-|
/// | operand    | `x: any[…]` |
/// | result     | type of `x`: the value of the example that sends to this one, zeros if none does |
/// | lowering   | [`collective_permute`](https://openxla.org/stablehlo/spec#collective_permute); for `vmap` a permutation along the batch axis, in as few slices as there are runs; of several axes, those that `vmap` does not bind are gathered |
/// | derivative | linear; transposes to the way back |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[doc(alias = "collective_permute")]
pub struct PPermute {
    /// The axes, without groups.
    #[serde(flatten)]
    pub axes: CollectiveAxes,
    /// Pairs of source and destination index. No index is a source or a destination twice.
    pub perm: Vec<(usize, usize)>,
}

impl PPermute {
    /// Returns, for each example, the index of the example whose value it receives.
    fn sources(&self) -> Vec<Option<usize>> {
        let mut sources = vec![None; self.axes.size()];
        for &(from, to) in &self.perm {
            sources[to] = Some(from);
        }
        sources
    }
}

impl Primitive for PPermute {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [x] = arity(operands)?;
        self.axes.check(GroupSizes::Equal)?;
        ensure!(
            self.axes.axis_index_groups.is_none(),
            "permutes along whole axes, and axis_index_groups divide them"
        );
        let (n, along) = (self.axes.size(), self.axes.quoted());
        let the_axes = if self.axes.axis_names.len() == 1 { "the axis" } else { "the axes" };
        for (index, &(from, to)) in self.perm.iter().enumerate() {
            ensure!(
                from < n && to < n,
                "the pair ({from}, {to}) leaves {the_axes} {along} of size {n}"
            );
            for &(other_from, other_to) in &self.perm[..index] {
                ensure!(
                    other_to != to,
                    "two elements are sent to {to} along {along}: those of {other_from} and of {from}"
                );
                ensure!(
                    other_from != from,
                    "the element of {from} along {along} is sent to {other_to} and to {to}"
                );
            }
        }
        Ok(vec![x.clone()])
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
        let x = &operands[0];
        if !axis.is_among(&self.axes.axis_names) {
            return Ok(batched(bind1(self.clone(), [x]), axes[0].unwrap_or(0)));
        }
        let sources = self.sources();
        if !self.axes.is_one_axis() {
            let permute = |all: &[Array]| select_rows(&all[0], &sources);
            return Ok(self.axes.batch_all(operands, axes, axis, permute));
        }
        if axes[0].is_none() && sources.iter().all(Option::is_some) {
            return Ok(Batched { outputs: vec![x.clone()], axes: vec![None] });
        }
        let x = &batch_at_front(operands, axes, axis)[0];
        Ok(batched(select_rows(x, &sources), 0))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let groups = self.axes.device_groups(ctx, self.name())?;
        let dtype = results[0].dtype;
        Ok(vec![lowering::permute(ctx, &groups, &operands[0], &self.perm, dtype)])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::whole(operands, results)
    }
    fn transpose(&self, cts: &[Tangent], _: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let perm = self.perm.iter().map(|&(from, to)| (to, from)).collect();
        let back = PPermute { perm, ..self.clone() };
        Ok(vec![Some(bind1(back, [one_cotangent(cts)?]).into())])
    }
    fn spmd(&self) -> Option<&dyn Spmd> {
        Some(self)
    }
}

impl Spmd for PPermute {
    fn communication(&self) -> Option<Communication> {
        Some(Communication {
            pairs: self.perm.clone(),
            ..self.axes.communication(Collective::CollectivePermute)
        })
    }
    fn axis_names(&self) -> Option<Vec<String>> {
        Some(self.axes.axis_names.clone())
    }
}

impl Registered for PPermute {
    const NAME: &'static str = "ppermute";
    fn exemplars() -> Vec<Exemplar> {
        let along = |perm: &[(usize, usize)], sample| {
            let permute = PPermute { axes: CollectiveAxes::one("i", 4), perm: perm.to_vec() };
            Exemplar::new(permute, [sample]).along([("i", 4)])
        };
        let over_two = |perm: &[(usize, usize)], sample| {
            let axes = CollectiveAxes {
                axis_names: vec!["j".into(), "i".into()],
                axis_sizes: vec![3, 2],
                axis_index_groups: None,
            };
            let permute = PPermute { axes, perm: perm.to_vec() };
            Exemplar::new(permute, [sample]).along([("i", 2), ("j", 3)])
        };
        let ring = [(0, 1), (1, 2), (2, 3), (3, 0)];
        vec![
            along(&ring, Sample::uniform(DType::F32, [2], -1.0, 1.0)),
            along(&[(3, 0), (0, 3), (1, 2), (2, 1)], Sample::uniform(DType::F64, [], -1.0, 1.0)),
            along(&[(0, 1), (1, 2)], Sample::uniform(DType::F32, [2, 3], -1.0, 1.0)),
            along(&[], Sample::uniform(DType::I32, [2], 1.0, 9.0)),
            along(&ring, Sample::uniform(DType::F32, [0], -1.0, 1.0)),
            over_two(&[(0, 3), (3, 4), (5, 1)], Sample::uniform(DType::F32, [2], -1.0, 1.0)),
            over_two(
                &[(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)],
                Sample::uniform(DType::F64, [], -1.0, 1.0),
            ),
        ]
    }
}
