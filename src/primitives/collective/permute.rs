//! Permutation of values along a named axis.

use super::lowering::{self, Groups};
use crate::core::{
    Array, Aval, BatchAxis, Batched, Collective, Communication, Cost, DType, Exemplar, JvpResult,
    LowerCtx, Operand, Primitive, Registered, RuleResult, Sample, Spmd, Tangent, bind1,
};
use crate::ensure;
use crate::primitives::constant::zeros_of;
use crate::primitives::rules::{arity, batch_at_front, batched, linear_jvp, one_cotangent};
use crate::primitives::slicing::slice_in_dim;
use crate::primitives::structural::concatenate;
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// Sends the value of each example to another example along a named axis.
///
/// | | |
/// |-|-|
/// | operand    | `x: any[…]` |
/// | result     | type of `x`: the value of the example that sends to this one, zeros if none does |
/// | lowering   | [`collective_permute`](https://openxla.org/stablehlo/spec#collective_permute); for `vmap` a permutation along the batch axis, in as few slices as there are runs |
/// | derivative | linear; transposes to the way back |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[doc(alias = "collective_permute")]
pub struct PPermute {
    /// The name of the axis.
    pub axis_name: String,
    /// The size of the axis.
    pub axis_size: usize,
    /// Pairs of source and destination index. No index is a source or a destination twice.
    pub perm: Vec<(usize, usize)>,
}

impl PPermute {
    /// Returns, for each example, the index of the example whose value it receives.
    fn sources(&self) -> Vec<Option<usize>> {
        let mut sources = vec![None; self.axis_size];
        for &(from, to) in &self.perm {
            sources[to] = Some(from);
        }
        sources
    }
}

/// Returns the sources in runs of consecutive indices: start, if the run has sources, and length.
fn runs(sources: &[Option<usize>]) -> Vec<(Option<usize>, usize)> {
    let mut runs: Vec<(Option<usize>, usize)> = Vec::new();
    for &source in sources {
        match runs.last_mut() {
            Some((begin, length)) if begin.map(|begin| begin + *length) == source => *length += 1,
            _ => runs.push((source, 1)),
        }
    }
    runs
}

impl Primitive for PPermute {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [x] = arity(operands)?;
        let (n, name) = (self.axis_size, &self.axis_name);
        for (index, &(from, to)) in self.perm.iter().enumerate() {
            ensure!(
                from < n && to < n,
                "the pair ({from}, {to}) leaves the axis `{name}` of size {n}"
            );
            for &(other_from, other_to) in &self.perm[..index] {
                ensure!(
                    other_to != to,
                    "two elements are sent to {to} along `{name}`: those of {other_from} and of {from}"
                );
                ensure!(
                    other_from != from,
                    "the element of {from} along `{name}` is sent to {other_to} and to {to}"
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
        if !axis.is_named(&self.axis_name) {
            return Ok(batched(bind1(self.clone(), [x]), axes[0].unwrap_or(0)));
        }
        let sources = self.sources();
        if axes[0].is_none() && sources.iter().all(Option::is_some) {
            return Ok(Batched { outputs: vec![x.clone()], axes: vec![None] });
        }
        let x = &batch_at_front(operands, axes, axis)[0];
        let piece = |(begin, length): (Option<usize>, usize)| match begin {
            Some(begin) => slice_in_dim(x, begin as isize, (begin + length) as isize, 1, 0),
            None => zeros_of(&x.aval().with_shape(x.shape().remove(0).insert(0, length))),
        };
        let pieces: Vec<Array> = runs(&sources).into_iter().map(piece).collect();
        let moved = if pieces.is_empty() { x.clone() } else { concatenate(&pieces, 0) };
        Ok(batched(moved, 0))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let groups = Groups::along(ctx, self.name(), std::slice::from_ref(&self.axis_name))?;
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
            ..Communication::along(
                Collective::CollectivePermute,
                std::slice::from_ref(&self.axis_name),
            )
        })
    }
    fn axis_names(&self) -> Option<Vec<String>> {
        Some(vec![self.axis_name.clone()])
    }
}

impl Registered for PPermute {
    const NAME: &'static str = "ppermute";
    fn exemplars() -> Vec<Exemplar> {
        let along = |perm: &[(usize, usize)], sample| {
            let permute = PPermute { axis_name: "i".into(), axis_size: 4, perm: perm.to_vec() };
            Exemplar::new(permute, [sample]).along([("i", 4)])
        };
        let ring = [(0, 1), (1, 2), (2, 3), (3, 0)];
        vec![
            along(&ring, Sample::uniform(DType::F32, [2], -1.0, 1.0)),
            along(&[(3, 0), (0, 3), (1, 2), (2, 1)], Sample::uniform(DType::F64, [], -1.0, 1.0)),
            along(&[(0, 1), (1, 2)], Sample::uniform(DType::F32, [2, 3], -1.0, 1.0)),
            along(&[], Sample::uniform(DType::I32, [2], 1.0, 9.0)),
            along(&ring, Sample::uniform(DType::F32, [0], -1.0, 1.0)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotation_has_two_contiguous_runs() {
        let sources = |perm: &[(usize, usize)]| {
            PPermute { axis_name: "i".into(), axis_size: 4, perm: perm.to_vec() }.sources()
        };
        let ring = sources(&[(0, 1), (1, 2), (2, 3), (3, 0)]);
        assert_eq!(runs(&ring), [(Some(3), 1), (Some(0), 3)]);
        assert_eq!(runs(&sources(&[(1, 1)])), [(None, 1), (Some(1), 1), (None, 2)]);
    }
}
