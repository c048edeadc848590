//! Goes over a program, into its loops and branches, and writes down what each operation costs.

use super::count::{Exchange, OpCost, OpenLoop, Place, Roofline, Share};
use super::fuse::Groups;
use super::region::{Region, Step};
use super::shares::{Layout, Shares};
use super::trips::trips;
use crate::core::{Mesh, RunCount};

/// How often what is counted runs, and on how many devices.
#[derive(Clone, Copy)]
pub(super) struct Scope {
    times: u64,
    devices: u64,
}

impl Scope {
    /// Once, outside of `shard_map`.
    pub(super) const ONCE: Scope = Scope { times: 1, devices: 1 };
}

/// Goes over a program and adds what it finds.
pub(super) struct Walk<'r> {
    pub(super) roofline: &'r mut Roofline,
    pub(super) mesh: Option<Mesh>,
    pub(super) steps: u64,
}

impl Walk<'_> {
    pub(super) fn region(&mut self, region: &Region, layout: &Layout<'_>, scope: Scope) {
        let groups = Groups::of(region);
        let shares = layout.shares(region);
        let fused = groups.bytes(region, &Shares::Even(1));
        let own = groups.bytes(region, &shares);
        for (at, step) in region.steps.iter().enumerate() {
            match step.inner.is_empty() {
                true => {
                    let each = Share {
                        flops: shares.work(at, step.cost.flops),
                        transcendentals: shares.work(at, step.cost.transcendentals),
                        bytes: shares.bytes(region, at),
                        fused_bytes: own[at],
                    };
                    self.operation(region, step, (fused[at], each), scope);
                }
                false => self.programs(region, step, layout, scope),
            }
        }
    }

    fn operation(
        &mut self,
        region: &Region,
        step: &Step,
        (fused, each): (u64, Share),
        scope: Scope,
    ) {
        let runs = scope.times.saturating_mul(scope.devices);
        let list = |values: &[usize]| {
            let types: Vec<String> = values.iter().map(|&v| region.avals[v].to_string()).collect();
            types.join(", ")
        };
        let first = step.operands.first().or(step.results.first());
        self.roofline.operations.push(OpCost {
            name: step.primitive.name(),
            operands: list(&step.operands),
            results: list(&step.results),
            place: Place::of(step.location),
            times: scope.times,
            devices: scope.devices,
            flops: step.cost.flops.saturating_mul(runs),
            transcendentals: step.cost.transcendentals.saturating_mul(runs),
            bytes: step.cost.bytes.saturating_mul(runs),
            fused_bytes: fused.saturating_mul(runs),
            dtype: first.map(|&value| region.avals[value].dtype),
            product: step.contraction,
            each: each.times(scope.times),
        });
        self.exchange(region, step, scope);
    }

    fn exchange(&mut self, region: &Region, step: &Step, scope: Scope) {
        let (Some(says), Some(mesh)) = (step.primitive.communication(), &self.mesh) else { return };
        let sizes: Option<Vec<usize>> = says.axes.iter().map(|axis| mesh.size(axis)).collect();
        // Axes of a `vmap` are no axes of the mesh, and nothing is sent along them.
        let Some(sizes) = sizes else { return };
        let size: usize = sizes.iter().product();
        let sum = |values: &[usize]| values.iter().map(|&v| region.bytes(v)).sum::<u64>();
        let bytes = super::exchange::payload(says.kind, sum(&step.operands), size);
        self.roofline.exchanges.push(Exchange {
            kind: says.kind,
            axes: says.axes,
            size,
            bytes,
            times: scope.times,
            pairs: says.pairs,
            place: Place::of(step.location),
        });
    }

    fn programs(&mut self, region: &Region, step: &Step, layout: &Layout<'_>, scope: Scope) {
        let layouts = layout.within(region, step);
        let mut dearest: Option<(u128, &Region, &Layout<'_>)> = None;
        for ((run, inner), layout) in step.inner.iter().zip(&layouts) {
            match *run {
                RunCount::Times(times) => {
                    let times = scope.times.saturating_mul(times as u64);
                    self.region(inner, layout, Scope { times, ..scope });
                }
                RunCount::Devices(devices) => {
                    let devices = scope.devices.saturating_mul(devices as u64);
                    self.region(inner, layout, Scope { devices, ..scope });
                }
                RunCount::Choice => {
                    let weight = weight(inner, self.steps);
                    if dearest.is_none_or(|(most, ..)| weight > most) {
                        dearest = Some((weight, inner, layout));
                    }
                }
                RunCount::Unknown | RunCount::Counted | RunCount::Never => {}
            }
        }
        if let Some((_, inner, layout)) = dearest {
            self.region(inner, layout, scope);
        }
        if step.inner.iter().any(|(run, _)| *run == RunCount::Unknown) {
            self.open(region, step, &layouts, scope);
        }
    }

    fn open(&mut self, region: &Region, step: &Step, layouts: &[Layout<'_>], scope: Scope) {
        let found = trips(region, step);
        let counted = found.unwrap_or(self.steps);
        if found.is_none() {
            self.roofline.open_loops.push(OpenLoop { place: Place::of(step.location), counted });
        }
        for ((_, inner), layout) in step.inner.iter().zip(layouts) {
            let times = scope.times.saturating_mul(counted);
            self.region(inner, layout, Scope { times, ..scope });
        }
    }
}

/// What a branch costs, to compare it with others: operations first, then bytes.
fn weight(region: &Region, steps: u64) -> u128 {
    let mut roofline = Roofline::default();
    let mut walk = Walk { roofline: &mut roofline, mesh: None, steps };
    walk.region(region, &Layout::Even(1), Scope::ONCE);
    let work = roofline.flops().saturating_add(roofline.transcendentals());
    u128::from(work) << 64 | u128::from(roofline.bytes())
}
