//! What one device does of each step and has of each value.

use super::cuts::{self, Axes, Cuts, Grid, held};
use super::region::{Region, Step};
use crate::core::{NamedSharding, RunCount};

/// How a region's values lie on the devices.
pub(super) enum Layout<'m> {
    /// Nobody knows, so everything is in so many equal parts.
    Even(u64),
    /// Along the axes of a mesh.
    Along(Cuts<'m>),
}

/// In how many parts, each on other devices, a region's steps and values are.
pub(super) enum Shares {
    /// All in as many.
    Even(u64),
    /// Each step's work and its operands as it reads them, and each value.
    Each { steps: Vec<(u64, Vec<u64>)>, values: Vec<u64> },
}

impl<'m> Layout<'m> {
    /// Of a program whose arguments lie so; if of none of them anything is known, in equal parts on all devices.
    pub(super) fn of(
        region: &Region,
        arguments: &[Option<&'m NamedSharding>],
        devices: u64,
    ) -> Layout<'m> {
        let Some(mesh) = arguments.iter().flatten().map(|it| it.mesh()).next() else {
            return Layout::Even(devices);
        };
        let grid = Grid(mesh);
        let inputs = region.inputs.iter().enumerate().map(|(at, &value)| {
            let rank = region.avals[value].rank();
            let given = arguments.get(at).copied().flatten();
            (given.map_or(vec![0; rank], |it| grid.cut(it.spec(), rank)), given.is_some())
        });
        Layout::Along(Cuts::of(region, inputs.collect(), grid))
    }

    /// Of each program that a step holds.
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
                    Layout::Along(Cuts::of(inner, inputs, cuts.grid))
                }
            })
            .collect()
    }

    /// The parts of everything in a region.
    pub(super) fn shares(&self, region: &Region) -> Shares {
        match self {
            Layout::Even(parts) => Shares::Even(*parts),
            Layout::Along(cuts) => Shares::Each {
                steps: region.steps.iter().map(|step| parts(cuts, step)).collect(),
                values: (0..region.avals.len())
                    .map(|value| cuts.grid.parts(cuts::all(cuts.cut(value))))
                    .collect(),
            },
        }
    }
}

impl Shares {
    /// What one device computes of so much work of a step.
    pub(super) fn work(&self, at: usize, work: u64) -> u64 {
        match self {
            Shares::Even(parts) => work.div_ceil(*parts),
            Shares::Each { steps, .. } => work.div_ceil(steps[at].0),
        }
    }

    /// What one device holds of the bytes of a value.
    pub(super) fn held(&self, value: usize, bytes: u64) -> u64 {
        match self {
            Shares::Even(parts) => bytes.div_ceil(*parts),
            Shares::Each { values, .. } => bytes.div_ceil(values[value]),
        }
    }

    /// What one device reads of the bytes of a value for a step.
    pub(super) fn read(&self, region: &Region, at: usize, value: usize, bytes: u64) -> u64 {
        let operand = || region.steps[at].operands.iter().position(|&own| own == value);
        match self {
            Shares::Even(parts) => bytes.div_ceil(*parts),
            Shares::Each { steps, values } => {
                bytes.div_ceil(operand().map_or(values[value], |operand| steps[at].1[operand]))
            }
        }
    }

    /// The bytes of a step that one device reads and writes if nothing is fused.
    pub(super) fn bytes(&self, region: &Region, at: usize) -> u64 {
        let step = &region.steps[at];
        let read = |&value: &usize| self.read(region, at, value, region.bytes(value));
        let written = |&value: &usize| self.held(value, region.bytes(value));
        let own: u64 = step.operands.iter().map(read).chain(step.results.iter().map(written)).sum();
        let all: u64 = step.operands.iter().chain(&step.results).map(|&v| region.bytes(v)).sum();
        match all {
            0 => step.cost.bytes,
            // Slices and updates touch less than their operands; the device's part of them is as large.
            _ => (step.cost.bytes as f64 * (own as f64 / all as f64)).round() as u64,
        }
    }
}

/// In how many parts a step's work is, and each of its operands as it reads them.
///
/// A device makes its part of the result. What is summed over stays cut where that does not cut the result already, or where
/// all operands are cut alike: the devices' sums are added. Otherwise the device needs it whole, as weights that fully
/// sharded data parallelism gathers.
fn parts(cuts: &Cuts<'_>, step: &Step) -> (u64, Vec<u64>) {
    let results = step.results.iter().fold(0, |axes, &value| axes | cuts::all(cuts.cut(value)));
    let summed = |operand: usize| -> Axes {
        let cut = cuts.cut(step.operands[operand]).iter().enumerate();
        let lost = cut.filter(|(dim, _)| !step.rule.is_kept(operand, *dim));
        lost.fold(0, |all, (_, axes)| all | axes)
    };
    // Along which the result is cut where this operand goes along with it.
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

    /// The costs of a function of two arguments that lie so on a mesh `data=4,model=2`.
    fn costs<O: Tree + 'static>(
        f: impl Fn(Array, Array) -> O + Send + Sync + 'static,
        avals: [Aval; 2],
        specs: [PartitionSpec; 2],
    ) -> Roofline {
        let mesh = mesh();
        let [a, b] = specs.map(|spec| mesh.sharding(spec).unwrap());
        let lowered = jit(f).in_shardings((&a, &b)).lower(<(Aval, Aval)>::from(avals)).unwrap();
        Roofline::placed(lowered.program(), &lowered.arguments().unwrap())
    }

    fn mesh() -> Mesh {
        Mesh::without_devices([("data", 4), ("model", 2)]).unwrap()
    }

    fn named<'r>(costs: &'r Roofline, name: &str) -> Vec<&'r OpCost> {
        costs.operations.iter().filter(|operation| operation.name == name).collect()
    }

    /// In how many parts the work of the operations of this name is.
    fn parts(costs: &Roofline, name: &str) -> Vec<u64> {
        let each = |it: &&OpCost| match it.each.flops {
            0 => it.bytes / it.each.bytes,
            own => it.flops / own,
        };
        named(costs, name).iter().map(each).collect()
    }

    const X: [usize; 2] = [64, 128];
    const W: [usize; 2] = [128, 256];

    #[test]
    fn what_nothing_cuts_every_device_does() {
        let step = |w: Array, x: Array| {
            let slopes = grad(|w: &Array| tanh(&x.matmul(w)).sum())(&w);
            &w - slopes * 0.1
        };
        let costs = costs(step, [f32s(W), f32s(X)], [p![], p!["data"]]);
        // Forwards by rows, and for the gradient each device's own rows.
        assert_eq!(parts(&costs, "dot_general"), [4, 4]);
        // Tanh's derivative, and the update.
        assert_eq!(parts(&costs, "sub"), [4, 1]);
        // All of the weights are read on each device, and a part of the rows.
        let forwards = named(&costs, "dot_general")[0];
        assert_eq!(forwards.each.bytes, 4 * (128 * 256 + 64 * (128 + 256) / 4));
        assert_eq!(costs.held_bytes, 4 * (2 * 128 * 256 + 64 * 128 / 4));
    }

    #[test]
    fn parts_of_weights_are_gathered_and_their_update_is_cut() {
        let step = |w: Array, x: Array| {
            let slopes = grad(|w: &Array| tanh(&x.matmul(w)).sum())(&w);
            &w - slopes * 0.1
        };
        let costs = costs(step, [f32s(W), f32s(X)], [p!["data"], p!["data"]]);
        assert_eq!(parts(&costs, "dot_general"), [4, 4]);
        assert_eq!(parts(&costs, "sub"), [4, 4]);
        let forwards = named(&costs, "dot_general")[0];
        assert_eq!(forwards.each.bytes, 4 * (128 * 256 + 64 * (128 + 256) / 4));
        assert_eq!(costs.held_bytes, 4 * (2 * 128 * 256 + 64 * 128) / 4);
    }

    #[test]
    fn a_pair_of_layers_by_columns_and_rows() {
        let pair = |w: Array, x: Array| tanh(&x.matmul(&w)).matmul(&w.t());
        let costs = costs(pair, [f32s(W), f32s(X)], [p![None, "model"], p!["data"]]);
        assert_eq!(parts(&costs, "dot_general"), [8, 8]);
        assert_eq!(
            named(&costs, "dot_general")[1].each.bytes,
            4 * (64 * 256 / 8 + 128 * 256 / 2 + 64 * 128 / 4)
        );
    }

    #[test]
    fn loops_carry_how_their_values_lie() {
        let rows = |ws: Array, x: Array| {
            let step = |(h, sum): (Array, Array), w: Array| {
                let h = tanh(&h.matmul(&w));
                ((h.clone(), sum + &h), h)
            };
            scan(step, (x.clone(), zeros([64, 128], DType::F32)), &ws)
        };
        let costs = costs(rows, [f32s([3, 128, 128]), f32s(X)], [p![], p!["data"]]);
        assert_eq!(parts(&costs, "dot_general"), [4]);
        assert_eq!(parts(&costs, "add"), [4]);
        assert_eq!(named(&costs, "dot_general")[0].each.flops, 3 * 2 * 16 * 128 * 128);
        let until = |w: Array, x: Array| {
            while_loop(|x: Array| lt(x.sum(), 9.0), move |x: Array| tanh(&x.matmul(&w)), x)
        };
        let costs = self::costs(until, [f32s([128, 128]), f32s(X)], [p![], p!["data"]]);
        assert_eq!(parts(&costs, "dot_general"), [4]);
    }

    #[test]
    fn inside_of_shard_map_types_are_those_of_a_device() {
        let inner = shard_map(|w: Array, x: Array| tanh(&x.matmul(&w)), &mesh())
            .in_specs((p![], p!["data"]))
            .out_specs(p!["data"]);
        let both = move |w: Array, x: Array| inner.apply(&w, &x) * 2.0;
        let costs = costs(both, [f32s(W), f32s(X)], [p![], p!["data"]]);
        let product = named(&costs, "dot_general")[0];
        assert_eq!((product.each.flops, product.devices), (2 * 16 * 128 * 256, 8));
        assert_eq!(parts(&costs, "mul"), [4]);
    }

    #[test]
    fn constraints_cut_anew_and_reach_back() {
        let mesh = mesh();
        let columns = mesh.sharding(p![None, "model"]).unwrap();
        let again = move |key: Array, x: Array| {
            let noise = broadcast_to(&iota(DType::F32, 128), [64, 128]) * key;
            let y = with_sharding_constraint(&(&x * noise), &columns);
            exp(&y) + 1.0
        };
        let costs = costs(again, [f32s([]), f32s(X)], [p![], p!["data"]]);
        assert_eq!(parts(&costs, "add"), [2]);
        // Nothing but its use says how the noise lies: by rows as its factor, by columns as what is made of it.
        assert_eq!(parts(&costs, "mul"), [8, 8]);
    }

    #[test]
    fn dimensions_go_along() {
        let heads = |_: Array, x: Array| {
            let heads = x.reshape([64, 4, 32]).transpose([1, 0, 2]);
            (exp(&heads).sum_axes([2]), concatenate(&[&heads, &heads], -1) * 3.0)
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
    fn what_does_not_divide_stays_whole() {
        let odd = |_: Array, x: Array| exp(&x.reshape([2, 32, 128]).sum_axes([1])) * 2.0;
        let costs = costs(odd, [f32s([]), f32s(X)], [p![], p!["data"]]);
        assert_eq!(parts(&costs, "mul"), [1]);
    }
}
