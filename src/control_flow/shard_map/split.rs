//! A mapped program in two halves: what its known operands alone determine, and the rest.

use super::{Mapping, ShardMap};
use crate::control_flow::masked::marked;
use crate::control_flow::partial::PartialEval;
use crate::core::{Aval, AxisSpec, Half, PartitionSpec, Split, SplitOperand};
use crate::passes;
use crate::primitives::reshape;
use crate::transforms::staging::trace_rules;
use std::sync::Arc;

impl ShardMap {
    /// The two halves, each mapped. What the first computes for the second leaves it with one more axis in front, along
    /// which the devices lie that have it differently.
    pub(super) fn halves(&self, halves: &PartialEval, known: &[bool]) -> Split {
        let Mapping { in_specs, out_specs, .. } = &self.mapping;
        let n_known = halves.outputs.iter().filter(|output| output.is_known()).count();
        let residuals: Vec<Aval> = halves.known.avals_out().split_off(n_known);
        let differing: Vec<Vec<String>> =
            residuals.iter().map(|aval| self.mapping.differing(aval)).collect();
        let carried = |at: usize| !differing[at].is_empty();
        let spec_of = |at: usize| match carried(at) {
            true => PartitionSpec(vec![AxisSpec(differing[at].clone())]),
            false => PartitionSpec::replicated(),
        };
        let stacked = |at: usize, aval: &Aval| match carried(at) {
            true => aval.with_shape(aval.shape.insert(0, 1)),
            false => aval.clone(),
        };
        let first = trace_rules(halves.known.avals_in(), |inputs| {
            let mut outputs = passes::eval(&halves.known, inputs);
            for (at, output) in outputs[n_known..].iter_mut().enumerate() {
                *output = reshape(output, &stacked(at, output.aval()).shape);
            }
            outputs
        });
        // Which residual an input of the second half is, if it is one.
        let residual = |source: &SplitOperand| match *source {
            SplitOperand::Known(position) => position.checked_sub(n_known),
            SplitOperand::Operand(_) => None,
        };
        let inputs = halves.unknown.avals_in();
        let taken =
            inputs.iter().zip(&halves.sources).map(|(aval, source)| match residual(source) {
                Some(at) => stacked(at, aval),
                None => aval.clone(),
            });
        let second = trace_rules(taken.collect::<Vec<_>>(), |taken| {
            let own = taken.iter().zip(&inputs).map(|(x, aval)| reshape(x, &aval.shape));
            passes::eval(&halves.unknown, &own.collect::<Vec<_>>())
        });
        let mut known_out = vec![PartitionSpec::replicated(); n_known];
        let mut unknown_out = Vec::new();
        for (output, spec) in halves.outputs.iter().zip(out_specs) {
            match output {
                Half::Known(position) => known_out[*position] = spec.clone(),
                Half::Unknown(_) => unknown_out.push(spec.clone()),
            }
        }
        let unknown_in = halves.sources.iter().map(|source| match *source {
            SplitOperand::Operand(position) => in_specs[position].clone(),
            SplitOperand::Known(position) => match position.checked_sub(n_known) {
                Some(at) => spec_of(at),
                None => known_out[position].clone(),
            },
        });
        let unknown_in: Vec<PartitionSpec> = unknown_in.collect();
        let mut first_out = known_out;
        first_out.extend((0..residuals.len()).map(spec_of));
        Split {
            known: Arc::new(self.with(Arc::new(first), [marked(in_specs, known), first_out])),
            known_operands: (0..known.len()).filter(|&at| known[at]).collect(),
            unknown: Arc::new(self.with(Arc::new(second), [unknown_in, unknown_out])),
            unknown_operands: halves.sources.clone(),
            outputs: halves.outputs.clone(),
        }
    }
}
