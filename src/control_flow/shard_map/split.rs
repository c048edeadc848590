//! Splitting a mapped program into what known operands determine and the rest.

use super::{ShardMap, ShardMapping};
use crate::control_flow::partial_eval::PartialEval;
use crate::core::{Aval, AxisSpec, Half, Known, Marks, PartitionSpec, SplitEqn, SplitOperand};
use crate::passes;
use crate::primitives::reshape;
use crate::transforms::staging::trace_rules;
use std::sync::Arc;

/// A residual of a mapped program.
struct Residual {
    /// Its type inside the program.
    aval: Aval,
    /// The manual axes over which it varies.
    axes: Vec<String>,
}

impl Residual {
    /// Returns the type with which it leaves the known half. A residual that varies gets an
    /// additional axis in front, along which the values of the devices are stacked.
    fn stacked_aval(&self) -> Aval {
        if self.axes.is_empty() {
            self.aval.clone()
        } else {
            self.aval.with_shape(self.aval.shape.insert(0, 1))
        }
    }

    fn spec(&self) -> PartitionSpec {
        if self.axes.is_empty() {
            PartitionSpec::replicated()
        } else {
            PartitionSpec(vec![AxisSpec::Axes(self.axes.clone())])
        }
    }
}

impl ShardMap {
    /// Maps both halves of the program.
    pub(super) fn map_halves(&self, halves: &PartialEval, known: &Marks<Known>) -> SplitEqn {
        let ShardMapping { in_specs, out_specs, .. } = &self.mapping;
        let n_known = halves.known_outputs().count();
        let residuals: Vec<Residual> = halves.known.avals_out()[n_known..]
            .iter()
            .map(|aval| Residual { aval: aval.clone(), axes: self.mapping.varying_axes(aval) })
            .collect();
        let residual_of = |source: &SplitOperand| match *source {
            SplitOperand::Known(output) => Some(&residuals[output.checked_sub(n_known)?]),
            SplitOperand::Operand(_) => None,
        };
        let known_program = trace_rules(halves.known.avals_in(), |inputs| {
            let mut outputs = passes::eval(&halves.known, inputs);
            for (output, residual) in outputs[n_known..].iter_mut().zip(&residuals) {
                *output = reshape(output, &residual.stacked_aval().shape);
            }
            outputs
        });
        let unknown_avals = halves.unknown.avals_in();
        let mut stacked_avals = Vec::with_capacity(unknown_avals.len());
        for (aval, source) in unknown_avals.iter().zip(&halves.sources) {
            stacked_avals.push(residual_of(source).map_or(aval.clone(), Residual::stacked_aval));
        }
        let unknown_program = trace_rules(stacked_avals, |inputs| {
            let pairs = inputs.iter().zip(&unknown_avals);
            let inputs: Vec<_> = pairs.map(|(x, aval)| reshape(x, &aval.shape)).collect();
            passes::eval(&halves.unknown, &inputs)
        });

        let mut known_out_specs = vec![PartitionSpec::replicated(); n_known];
        let mut unknown_out_specs = Vec::new();
        for (output, spec) in halves.outputs.iter().zip(out_specs) {
            match output {
                Half::Known(index) => known_out_specs[*index] = spec.clone(),
                Half::Unknown(_) => unknown_out_specs.push(spec.clone()),
            }
        }
        known_out_specs.extend(residuals.iter().map(Residual::spec));
        let mut unknown_in_specs = Vec::with_capacity(halves.sources.len());
        for source in &halves.sources {
            unknown_in_specs.push(match *source {
                SplitOperand::Operand(index) => in_specs[index].clone(),
                SplitOperand::Known(output) => known_out_specs[output].clone(),
            });
        }
        SplitEqn {
            known: Arc::new(self.with_program(
                Arc::new(known_program),
                known.select(in_specs),
                known_out_specs,
            )),
            known_operands: known.positions(),
            unknown: Arc::new(self.with_program(
                Arc::new(unknown_program),
                unknown_in_specs,
                unknown_out_specs,
            )),
            unknown_operands: halves.sources.clone(),
            outputs: halves.outputs.clone(),
        }
    }
}
