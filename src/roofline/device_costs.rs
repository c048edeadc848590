//! The part of each operation that one device computes, and of each value that it stores.

use crate::core::{NamedSharding, RunCount};
use crate::passes::{Axes, Grid, Partitioning, Region, Step, all_axes, held};
use std::rc::Rc;

/// The partitioning of the values of a region over devices.
pub(super) enum Layout<'m> {
    /// Unknown. Everything is assumed to be in this many equal parts.
    Even(u64),
    /// Known, along the axes of a mesh.
    Along(Rc<Partitioning<'m>>),
}

/// The number of parts on different devices of the steps and values of a region.
pub(super) enum DeviceParts {
    /// One number for everything.
    Even(u64),
    /// For each step the parts of its work and of its operands as read, and for each value its
    /// parts.
    Each { steps: Vec<(u64, Vec<u64>)>, values: Vec<u64> },
}

impl<'m> Layout<'m> {
    /// Creates the layout of a program with these argument shardings. Without any sharding
    /// everything is in equal parts on all devices.
    pub(super) fn of(
        region: &Region,
        arguments: &[Option<&'m NamedSharding>],
        devices: u64,
    ) -> Layout<'m> {
        let Some(mesh) = arguments.iter().flatten().map(|sharding| sharding.mesh()).next() else {
            return Layout::Even(devices);
        };
        let grid = Grid(mesh);
        let inputs = region.inputs.iter().enumerate().map(|(i, &value)| {
            let rank = region.avals[value].rank();
            let sharding = arguments.get(i).copied().flatten();
            let axes = sharding.map_or(vec![0; rank], |s| grid.dim_axes(s.spec(), rank));
            (axes, sharding.is_some())
        });
        Layout::Along(Partitioning::of(region, inputs.collect(), grid))
    }

    /// Returns the layout of each program that a step holds.
    pub(super) fn within(&self, region: &Region, step: &Step) -> Vec<Layout<'m>> {
        let held = held(region, step).into_iter();
        let inner = step.inner.iter().zip(held);
        inner
            .map(|((run, inner), held)| match (self, run, held) {
                (Layout::Even(parts), RunCount::Devices(devices), _) => {
                    Layout::Even(parts.div_ceil(*devices as u64))
                }
                (Layout::Even(parts), ..) => Layout::Even(*parts),
                (Layout::Along(cuts), _, Some(held)) => Layout::Along(cuts.within(step, &held)),
                (Layout::Along(cuts), _, None) => {
                    let whole = |&value: &usize| (vec![0; inner.avals[value].rank()], true);
                    let inputs = inner.inputs.iter().map(whole).collect();
                    Layout::Along(cuts.of_held(inner, inputs))
                }
            })
            .collect()
    }

    /// Returns the parts of everything in a region.
    pub(super) fn parts(&self, region: &Region) -> DeviceParts {
        match self {
            Layout::Even(parts) => DeviceParts::Even(*parts),
            Layout::Along(cuts) => DeviceParts::Each {
                steps: region.steps.iter().map(|step| parts(cuts, step)).collect(),
                values: (0..region.avals.len())
                    .map(|value| cuts.grid.parts(all_axes(cuts.cut(value))))
                    .collect(),
            },
        }
    }
}

impl DeviceParts {
    /// Returns the part of the work of a step on one device.
    pub(super) fn work(&self, at: usize, work: u64) -> u64 {
        match self {
            DeviceParts::Even(parts) => work.div_ceil(*parts),
            DeviceParts::Each { steps, .. } => work.div_ceil(steps[at].0),
        }
    }

    /// Returns the part of the bytes of a value on one device.
    pub(super) fn held(&self, value: usize, bytes: u64) -> u64 {
        match self {
            DeviceParts::Even(parts) => bytes.div_ceil(*parts),
            DeviceParts::Each { values, .. } => bytes.div_ceil(values[value]),
        }
    }

    /// Returns the part of the bytes of a value that one device reads for a step.
    pub(super) fn read(&self, region: &Region, at: usize, value: usize, bytes: u64) -> u64 {
        let operand = || region.steps[at].operands.iter().position(|&own| own == value);
        match self {
            DeviceParts::Even(parts) => bytes.div_ceil(*parts),
            DeviceParts::Each { steps, values } => {
                bytes.div_ceil(operand().map_or(values[value], |operand| steps[at].1[operand]))
            }
        }
    }

    /// Returns the bytes that one device reads and writes for a step if nothing is fused.
    pub(super) fn bytes(&self, region: &Region, at: usize) -> u64 {
        let step = &region.steps[at];
        let read = |&value: &usize| self.read(region, at, value, region.bytes(value));
        let written = |&value: &usize| self.held(value, region.bytes(value));
        let own: u64 = step.operands.iter().map(read).chain(step.results.iter().map(written)).sum();
        let all: u64 = step.operands.iter().chain(&step.results).map(|&v| region.bytes(v)).sum();
        match all {
            0 => step.cost.bytes,
            // Slices and updates access less than their operands, in the same proportion.
            _ => (step.cost.bytes as f64 * (own as f64 / all as f64)).round() as u64,
        }
    }
}

/// Returns the number of parts of the work of a step, and of each operand as the step reads it.
///
/// A device computes its part of the result. Contracted dimensions stay partitioned if their axes
/// do not partition the result, or if they partition all operands: then the partial sums of devices
/// are added. Otherwise a device reads them whole, as the weights that fully sharded data
/// parallelism gathers.
fn parts(cuts: &Partitioning<'_>, step: &Step) -> (u64, Vec<u64>) {
    let results = step.results.iter().fold(0, |axes, &value| axes | all_axes(cuts.cut(value)));
    let summed = |operand: usize| -> Axes {
        let cut = cuts.cut(step.operands[operand]).iter().enumerate();
        let lost = cut.filter(|(dim, _)| !step.rule.is_kept(operand, *dim));
        lost.fold(0, |all, (_, axes)| all | axes)
    };
    // The axes of the result along dimensions that come from this operand.
    let kept = |operand: usize| -> Axes {
        let mut axes = 0;
        for (at, &result) in step.results.iter().enumerate() {
            for (dim, own) in cuts.cut(result).iter().enumerate() {
                if step.rule.along(at, dim).iter().any(|&(from, _)| from == operand) {
                    axes |= own;
                }
            }
        }
        axes
    };
    let operands = 0..step.operands.len();
    let by_all = operands.clone().map(summed).reduce(|a, b| a & b).unwrap_or(0);
    let mut work = results;
    let read = operands.map(|operand| {
        let stays = summed(operand) & (by_all | !results);
        work |= stays;
        cuts.grid.parts(stays | kept(operand))
    });
    let read = read.collect();
    (cuts.grid.parts(work), read)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use crate::core::Aval;
    use crate::roofline::{OpCost, Roofline};
    use oxidax::prelude::*;

    fn f32s<const N: usize>(shape: [usize; N]) -> Aval {
        Aval::new(DType::F32, shape)
    }

    /// Counts a function of two arguments with these shardings over a mesh `data=4,model=2`.
    fn costs<O: Tree + 'static>(
        f: impl Fn(Array, Array) -> O + Send + Sync + 'static,
        avals: [Aval; 2],
        specs: [PartitionSpec; 2],
    ) -> Roofline {
        let mesh = mesh();
        let [a, b] = specs.map(|spec| mesh.sharding(spec).unwrap());
        let [x, y] = avals;
        let lowered = jit(f).in_shardings((&a, &b)).lower(x, y).unwrap();
        Roofline::with_arguments(lowered.program(), &lowered.arguments())
    }

    fn mesh() -> Mesh {
        Mesh::without_devices([("data", 4), ("model", 2)]).unwrap()
    }

    fn named<'r>(costs: &'r Roofline, name: &str) -> Vec<&'r OpCost> {
        costs.operations.iter().filter(|operation| operation.name == name).collect()
    }

    /// Returns the number of parts of the work of the operations with this name.
    fn parts(costs: &Roofline, name: &str) -> Vec<u64> {
        let parts = |op: &&OpCost| match op.per_device.flops {
            0 => op.bytes / op.per_device.bytes,
            flops => op.flops / flops,
        };
        named(costs, name).iter().map(parts).collect()
    }

    const X: [usize; 2] = [64, 128];
    const W: [usize; 2] = [128, 256];

    #[test]
    fn unpartitioned_operations_run_on_every_device() {
        let step = |w: Array, x: Array| {
            let slopes = grad(|w: &Array| tanh(x.matmul(w)).sum())(&w);
            &w - slopes * 0.1
        };
        let costs = costs(step, [f32s(W), f32s(X)], [p![], p!["data"]]);
        // By rows in the forward pass; for the gradient, the rows of each device.
        assert_eq!(parts(&costs, "dot_general"), [4, 4]);
        // The derivative of tanh, and the update.
        assert_eq!(parts(&costs, "sub"), [4, 1]);
        // Each device reads all weights and a part of the rows.
        let forwards = named(&costs, "dot_general")[0];
        assert_eq!(forwards.per_device.bytes, 4 * (128 * 256 + 64 * (128 + 256) / 4));
        assert_eq!(costs.held_bytes, 4 * (2 * 128 * 256 + 64 * 128 / 4));
    }

    #[test]
    fn sharded_weights_are_gathered_and_their_update_is_partitioned() {
        let step = |w: Array, x: Array| {
            let slopes = grad(|w: &Array| tanh(x.matmul(w)).sum())(&w);
            &w - slopes * 0.1
        };
        let costs = costs(step, [f32s(W), f32s(X)], [p!["data"], p!["data"]]);
        assert_eq!(parts(&costs, "dot_general"), [4, 4]);
        assert_eq!(parts(&costs, "sub"), [4, 4]);
        let forwards = named(&costs, "dot_general")[0];
        assert_eq!(forwards.per_device.bytes, 4 * (128 * 256 + 64 * (128 + 256) / 4));
        assert_eq!(costs.held_bytes, 4 * (2 * 128 * 256 + 64 * 128) / 4);
    }

    #[test]
    fn column_and_row_parallel_layers_are_fully_partitioned() {
        let pair = |w: Array, x: Array| tanh(x.matmul(&w)).matmul(&w.t());
        let costs = costs(pair, [f32s(W), f32s(X)], [p![None, "model"], p!["data"]]);
        assert_eq!(parts(&costs, "dot_general"), [8, 8]);
        assert_eq!(
            named(&costs, "dot_general")[1].per_device.bytes,
            4 * (64 * 256 / 8 + 128 * 256 / 2 + 64 * 128 / 4)
        );
    }

    #[test]
    fn loops_propagate_the_partitioning_of_carried_values() {
        let rows = |ws: Array, x: Array| {
            let step = |(h, sum): (Array, Array), w: Array| {
                let h = tanh(h.matmul(&w));
                ((h.clone(), sum + &h), h)
            };
            scan(step, (x.clone(), zeros([64, 128])), &ws)
        };
        let costs = costs(rows, [f32s([3, 128, 128]), f32s(X)], [p![], p!["data"]]);
        assert_eq!(parts(&costs, "dot_general"), [4]);
        assert_eq!(parts(&costs, "add"), [4]);
        assert_eq!(named(&costs, "dot_general")[0].per_device.flops, 3 * 2 * 16 * 128 * 128);
        let until = |w: Array, x: Array| {
            while_loop(|x: Array| lt(x.sum(), 9.0), move |x: Array| tanh(x.matmul(&w)), x)
        };
        let costs = self::costs(until, [f32s([128, 128]), f32s(X)], [p![], p!["data"]]);
        assert_eq!(parts(&costs, "dot_general"), [4]);
    }

    #[test]
    fn costs_inside_shard_map_are_per_device() {
        let inner = shard_map(|w: Array, x: Array| tanh(x.matmul(&w)), &mesh())
            .in_specs((p![], p!["data"]))
            .out_specs(p!["data"]);
        let both = move |w: Array, x: Array| inner.apply(&w, &x) * 2.0;
        let costs = costs(both, [f32s(W), f32s(X)], [p![], p!["data"]]);
        let product = named(&costs, "dot_general")[0];
        assert_eq!((product.per_device.flops, product.devices), (2 * 16 * 128 * 256, 8));
        assert_eq!(parts(&costs, "mul"), [4]);
    }

    #[test]
    fn constraints_change_shardings_and_propagate_backward() {
        let mesh = mesh();
        let columns = mesh.sharding(p![None, "model"]).unwrap();
        let again = move |key: Array, x: Array| {
            let noise = broadcast_to(&iota(DType::F32, 128), [64, 128]) * key;
            let y = with_sharding_constraint(&(&x * noise), &columns);
            exp(&y) + 1.0
        };
        let costs = costs(again, [f32s([]), f32s(X)], [p![], p!["data"]]);
        assert_eq!(parts(&costs, "add"), [2]);
        // The sharding of the noise follows from its uses only: by rows from its factor, by columns
        // from the values computed from it.
        assert_eq!(parts(&costs, "mul"), [8, 8]);
    }

    #[test]
    fn shardings_follow_dimensions_through_reshapes() {
        let heads = |_: Array, x: Array| {
            let heads = x.reshape([64, 4, 32]).transpose_axes([1, 0, 2]);
            (exp(&heads).sum_axes([2]), concatenate([&heads, &heads], -1) * 3.0)
        };
        let costs = costs(heads, [f32s([]), f32s(X)], [p![], p!["data", "model"]]);
        assert_eq!(parts(&costs, "reduce_sum"), [8]);
        assert_eq!(parts(&costs, "mul"), [8]);
        let rows = |table: Array, ids: Array| table.take(&ids.astype(DType::I32), 0) * 2.0;
        let costs =
            self::costs(rows, [f32s([1000, 128]), f32s([64])], [p![None, "model"], p!["data"]]);
        assert_eq!(parts(&costs, "mul"), [8]);
        let pictures = |kernel: Array, x: Array| conv(&x, &kernel, &[1, 1], Padding::Same);
        let specs = [p!["model"], p!["data"]];
        let costs = self::costs(pictures, [f32s([16, 8, 3, 3]), f32s([8, 8, 16, 16])], specs);
        assert_eq!(parts(&costs, "conv_general_dilated"), [8]);
    }

    #[test]
    fn indivisible_dimensions_are_not_sharded() {
        let odd = |_: Array, x: Array| exp(x.reshape([2, 32, 128]).sum_axes([1])) * 2.0;
        let costs = costs(odd, [f32s([]), f32s(X)], [p![], p!["data"]]);
        assert_eq!(parts(&costs, "mul"), [1]);
    }
}
