//! Counts the cost of each operation of a program, including its loops and branches.

use super::count::{DeviceCost, Exchange, OpCost, Roofline, UnknownLoop};
use super::device_costs::{DeviceParts, Layout};
use super::fusion::Groups;
use super::trip_count::trip_count;
use crate::core::{Mesh, RunCount, SourceLine};
use crate::passes::{Region, Step};
use rustc_hash::FxHashMap;

/// The number of runs and of devices of a region.
#[derive(Clone, Copy)]
pub(super) struct Scope {
    times: u64,
    devices: u64,
}

impl Scope {
    /// One run, outside of `shard_map`.
    pub(super) const ONCE: Scope = Scope { times: 1, devices: 1 };
}

/// Adds the costs of a program to a roofline.
pub(super) struct Counter<'r> {
    pub(super) roofline: &'r mut Roofline,
    pub(super) mesh: Option<Mesh>,
    pub(super) steps: u64,
    /// The weights of branches that were computed, by the address of their region.
    pub(super) weights: FxHashMap<*const Region, u128>,
}

impl Counter<'_> {
    pub(super) fn region(&mut self, region: &Region, layout: &Layout<'_>, scope: Scope) {
        let groups = Groups::of(region);
        let parts = layout.parts(region);
        let fused = groups.bytes(region, &DeviceParts::Even(1));
        let fused_per_device = groups.bytes(region, &parts);
        for (i, step) in region.steps.iter().enumerate() {
            if !step.inner.is_empty() {
                self.programs(region, step, layout, scope);
                continue;
            }
            let per_device = DeviceCost {
                flops: parts.work(i, step.cost.flops),
                transcendentals: parts.work(i, step.cost.transcendentals),
                bytes: parts.bytes(region, i),
                fused_bytes: fused_per_device[i],
            };
            self.operation(region, step, (fused[i], per_device), scope);
        }
    }

    fn operation(
        &mut self,
        region: &Region,
        step: &Step,
        (fused, per_device): (u64, DeviceCost),
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
            place: SourceLine::of(step.loc),
            scope: step.loc.scope_path().to_owned(),
            times: scope.times,
            devices: scope.devices,
            flops: step.cost.flops.saturating_mul(runs),
            transcendentals: step.cost.transcendentals.saturating_mul(runs),
            bytes: step.cost.bytes.saturating_mul(runs),
            fused_bytes: fused.saturating_mul(runs),
            dtype: first.map(|&value| region.avals[value].dtype),
            product: step.contraction,
            per_device: per_device.times(scope.times),
        });
        self.exchange(region, step, scope);
    }

    fn exchange(&mut self, region: &Region, step: &Step, scope: Scope) {
        let (Some(communication), Some(mesh)) = (step.primitive.communication(), &self.mesh) else {
            return;
        };
        let sizes: Option<Vec<usize>> =
            communication.axes.iter().map(|axis| mesh.size(axis)).collect();
        // Axes of a `vmap` are not axes of the mesh, and nothing is sent along them.
        let Some(sizes) = sizes else { return };
        let size: usize = communication.group_size.unwrap_or_else(|| sizes.iter().product());
        let sum = |values: &[usize]| values.iter().map(|&v| region.bytes(v)).sum::<u64>();
        let bytes =
            super::compiled_exchanges::payload(communication.kind, sum(&step.operands), size);
        self.roofline.exchanges.push(Exchange {
            kind: communication.kind,
            // Groups do not follow mesh axes.
            axes: match communication.group_size {
                Some(_) => Vec::new(),
                None => communication.axes,
            },
            size,
            bytes,
            times: scope.times,
            pairs: communication.pairs,
            place: SourceLine::of(step.loc),
        });
    }

    fn programs(&mut self, region: &Region, step: &Step, layout: &Layout<'_>, scope: Scope) {
        let layouts = layout.within(region, step);
        let mut most_expensive: Option<(u128, &Region, &Layout<'_>)> = None;
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
                    let weight = self.weight(inner);
                    if most_expensive.is_none_or(|(most, ..)| weight > most) {
                        most_expensive = Some((weight, inner, layout));
                    }
                }
                RunCount::Unknown | RunCount::Counted | RunCount::Never => {}
            }
        }
        if let Some((_, inner, layout)) = most_expensive {
            self.region(inner, layout, scope);
        }
        if step.inner.iter().any(|(run, _)| *run == RunCount::Unknown) {
            self.while_loop(region, step, &layouts, scope);
        }
    }

    /// Returns the cost of a branch for comparisons: operations first, then bytes.
    fn weight(&mut self, region: &Region) -> u128 {
        if let Some(&known) = self.weights.get(&std::ptr::from_ref(region)) {
            return known;
        }
        let (mut roofline, steps) = (Roofline::default(), self.steps);
        let weights = std::mem::take(&mut self.weights);
        let mut walk = Counter { roofline: &mut roofline, mesh: None, steps, weights };
        walk.region(region, &Layout::Even(1), Scope::ONCE);
        self.weights = walk.weights;
        let work = roofline.flops().saturating_add(roofline.transcendentals());
        let weight = u128::from(work) << 64 | u128::from(roofline.bytes());
        self.weights.insert(region, weight);
        weight
    }

    fn while_loop(&mut self, region: &Region, step: &Step, layouts: &[Layout<'_>], scope: Scope) {
        let trip_count = trip_count(region, step);
        let counted = trip_count.unwrap_or(self.steps);
        if trip_count.is_none() {
            self.roofline
                .unknown_loops
                .push(UnknownLoop { place: SourceLine::of(step.loc), counted });
        }
        for ((_, inner), layout) in step.inner.iter().zip(layouts) {
            let times = scope.times.saturating_mul(counted);
            self.region(inner, layout, Scope { times, ..scope });
        }
    }
}
