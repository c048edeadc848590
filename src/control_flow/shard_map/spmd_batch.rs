//! Batching of `shard_map` whose batch is sharded over a mesh axis, by `vmap` with
//! `spmd_axis_name`.

use super::ShardMap;
use crate::control_flow::derive::{batch_front, mapped_of};
use crate::core::{
    Array, AxisSpec, BatchAxis, Batched, Marks, PartitionSpec, RuleError, RuleResult, bind,
};
use crate::passes;
use crate::primitives::rules::{batch_at, broadcast_axis};
use crate::primitives::{reshape, slice_in_dim};
use crate::transforms::staging::trace_rules;
use std::sync::Arc;

impl ShardMap {
    /// Batches the program so that each device along the manual axes of `spmd_axis_name` runs it on
    /// a part of the batch.
    ///
    /// Every operand and result has one more axis in front, which is sharded over them: the batch,
    /// or a copy per device of a value without a batch axis. No value is shared along these axes,
    /// so derivatives need no sums over them inside the program.
    pub(super) fn batch_over_devices(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        let mesh = &self.mapping.mesh;
        let (manual, auto): (Vec<String>, Vec<String>) = axis
            .spmd_axis_name
            .names()
            .iter()
            .cloned()
            .partition(|name| self.mapping.axes.contains(name));
        self.check_spmd_axes(&manual, axis)?;
        let n_devices = mesh.count(&manual);
        let over = AxisSpec::Axes(manual);
        let mapped = mapped_of(axes);
        let part = BatchAxis {
            size: axis.size / n_devices,
            name: axis.name.clone(),
            spmd_axis_name: AxisSpec::Axes(auto),
            sharding: None,
        };
        let batched =
            batch_front(&self.program, &mapped, &Marks::none(self.mapping.out_specs.len()), &part);
        let with_front = |avals: Vec<crate::core::Aval>, is_mapped: &dyn Fn(usize) -> bool| {
            let avals = avals.into_iter().enumerate().map(|(index, aval)| match is_mapped(index) {
                true => aval,
                false => aval.with_shape(aval.shape.insert(0, 1)),
            });
            avals.collect::<Vec<_>>()
        };
        let inputs = with_front(batched.program.avals_in(), &|index| mapped[index]);
        let program = trace_rules(inputs, |inputs| {
            let inputs = inputs.iter().enumerate().map(|(index, x)| match mapped[index] {
                true => x.clone(),
                false => reshape(x, x.shape().remove(0)),
            });
            let outputs = passes::eval(&batched.program, &inputs.collect::<Vec<_>>());
            let outputs =
                outputs.iter().enumerate().map(|(index, y)| match batched.results[index] {
                    true => y.clone(),
                    false => reshape(y, y.shape().insert(0, 1)),
                });
            outputs.collect()
        });
        let specs = |specs: &[PartitionSpec]| -> Vec<PartitionSpec> {
            specs.iter().map(|spec| spec.with_axis_over(0, &over)).collect()
        };
        let (in_specs, out_specs) = (specs(&self.mapping.in_specs), specs(&self.mapping.out_specs));
        let primitive = self.with_program(Arc::new(program), in_specs, out_specs);
        let operands: Vec<Array> = operands
            .iter()
            .zip(axes)
            .map(|(x, &position)| match position {
                Some(_) => batch_at(x, position, 0, axis),
                None => broadcast_axis(x, 0, n_devices),
            })
            .collect();
        let results = bind(primitive, &operands.iter().collect::<Vec<_>>());
        let mut outputs = Vec::with_capacity(results.len());
        for (index, y) in results.into_iter().enumerate() {
            outputs.push(match batched.results[index] {
                true => y,
                false => {
                    let first = slice_in_dim(&y, 0, 1, 1, 0);
                    reshape(&first, first.shape().remove(0))
                }
            });
        }
        let positions = (0..outputs.len()).map(|index| batched.results[index].then_some(0));
        let axes = positions.collect();
        Ok(Batched { outputs, axes })
    }

    /// Checks that the batch can be sharded over these manual axes.
    fn check_spmd_axes(&self, manual: &[String], axis: &BatchAxis) -> RuleResult<()> {
        let mapping = &self.mapping;
        let name = &mapping.name;
        let specs = mapping.in_specs.iter().chain(&mapping.out_specs);
        for spec in specs {
            if let Some(used) = spec.mentioned().find(|used| manual.contains(used)) {
                return Err(RuleError::value(format!(
                    "`{used}` is the spmd_axis_name of `vmap`, and {spec} of `{name}` shards over \
                     it already"
                ))
                .help("shard the batch over an axis that the specs do not mention"));
            }
        }
        let used = self.program.axis_names();
        if let Some(used) = used.iter().find(|used| manual.contains(used)) {
            return Err(RuleError::value(format!(
                "`{used}` is the spmd_axis_name of `vmap`, and `{name}` has a collective along it"
            ))
            .help("shard the batch over an axis that the function does not use"));
        }
        if let Some(used) = used.iter().find(|used| axis.is_named(used)) {
            return Err(RuleError::unsupported(format!(
                "`{name}` has a collective along `{used}`, the axis of `vmap`, which \
                 spmd_axis_name divides among devices"
            ))
            .help("move the collective out of the `shard_map`"));
        }
        let n_devices = mapping.mesh.count(manual);
        if !axis.size.is_multiple_of(n_devices) {
            return Err(RuleError::shape(format!(
                "the batch of {} is not divisible by the {n_devices} devices along {manual:?}",
                axis.size
            )));
        }
        Ok(())
    }
}
