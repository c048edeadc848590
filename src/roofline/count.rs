//! [`Roofline`]: what each operation and each source line costs.

use super::fuse::fused_bytes;
use super::region::{Region, Step};
use super::trips::trips;
use crate::core::{Collective, Contraction, DType, Loc, Mesh, Program, Run};
use crate::jit::Collectives;
use crate::passes;
use serde::Serialize;
use std::collections::BTreeMap;

/// A position in the user's source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Place {
    /// The file, as the compiler named it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
}

impl Place {
    fn of(location: Loc) -> Option<Place> {
        location.map(|at| Place { file: at.file().into(), line: at.line() })
    }
}

/// What one operation of a program costs, over all its runs and all devices.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OpCost {
    /// The primitive's name.
    pub name: &'static str,
    /// The operands' types: `f32[32,784], f32[784,10]`; inside `shard_map` those of one device.
    pub operands: String,
    /// The results' types.
    pub results: String,
    /// The line that it was written in.
    pub place: Option<Place>,
    /// How often it runs on each device that runs it.
    pub times: u64,
    /// On how many devices it runs inside of `shard_map`; 1 outside, where the types are those of all devices together.
    pub devices: u64,
    /// Operations: a product and its sum are two.
    pub flops: u64,
    /// Exponentials, sines, roots and the like, which are no FLOPs here.
    pub transcendentals: u64,
    /// Bytes read and written if nothing is fused.
    pub bytes: u64,
    /// Bytes read and written if the compiler fuses; `docs/roofline.md` has the rule.
    pub fused_bytes: u64,
    /// The type of what is computed with: that of the first operand.
    pub dtype: Option<DType>,
    /// The product of matrices that it is, if it is one.
    pub product: Option<Contraction>,
}

/// What one line of the user's source costs: the sum over its operations.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LineCost {
    /// The line; `None` for operations without one.
    pub place: Option<Place>,
    /// How many operations stand in it.
    pub operations: usize,
    /// As in [`OpCost`].
    pub flops: u64,
    /// As in [`OpCost`].
    pub transcendentals: u64,
    /// As in [`OpCost`].
    pub bytes: u64,
    /// As in [`OpCost`].
    pub fused_bytes: u64,
}

/// An exchange between devices.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Exchange {
    /// Who gets what.
    pub kind: Collective,
    /// The axes of the mesh that it goes along; empty if a compiled one follows none.
    pub axes: Vec<String>,
    /// How many devices take part together.
    pub size: usize,
    /// The bytes that the time is proportional to: of a gather the result, of a reduction the operand, of an all-to-all the array
    /// over all devices of the group, of a permutation what one device sends.
    pub bytes: u64,
    /// How often it runs.
    pub times: u64,
    /// Of a permutation along one axis, from whom to whom.
    pub pairs: Vec<(usize, usize)>,
    /// The line that it was written in.
    pub place: Option<Place>,
}

/// A loop of which nobody knows how often it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OpenLoop {
    /// The line that it was written in.
    pub place: Option<Place>,
    /// As what it was counted.
    pub counted: u64,
}

/// What a program costs, operation by operation and line by line: arithmetic, memory, exchanges.
///
/// Counts are of the program as traced, after dead code is dropped, with loops counted as often as they run. A `cond` costs
/// what its dearest branch does. Outside of `shard_map` types are those of all devices together, and so are the counts;
/// [`Prediction`](super::Prediction) divides them. `docs/roofline.md` says what a FLOP is and which bytes are which.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::roofline::{DeviceSpec, Roofline};
/// let layer = |w: Array, x: Array| x.matmul(&w);
/// let w = Aval::new(DType::BF16, [4096, 4096]);
/// let lowered = jit(layer).lower((w, Aval::new(DType::BF16, [64, 4096])))?;
/// let roofline = Roofline::of(lowered.program());
/// assert_eq!(roofline.flops(), 2 * 64 * 4096 * 4096);
/// // 64 rows are too few: the weights take longer to read than to multiply.
/// let v5e = roofline.on(&DeviceSpec::named("v5e").expect("it is in the table"));
/// assert_eq!(v5e.bound.to_string(), "memory");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug, Default, Serialize)]
pub struct Roofline {
    /// Every operation, in the program's order; those of a loop once, with their [`OpCost::times`].
    pub operations: Vec<OpCost>,
    /// Every exchange between devices that the program says itself (`shard_map`); [`Roofline::exchanging`] has the compiler's.
    pub exchanges: Vec<Exchange>,
    /// Loops whose length was not found.
    pub open_loops: Vec<OpenLoop>,
    /// Bytes of the arguments that are used.
    pub argument_bytes: u64,
    /// Bytes of the results.
    pub result_bytes: u64,
    /// The axes of the mesh that the program speaks of: name and size.
    pub mesh: Vec<(String, usize)>,
}

impl Roofline {
    /// Counts a program. Loops whose length is not known count once.
    pub fn of(program: &Program) -> Roofline {
        Roofline::assuming(program, 1)
    }

    /// The same, with loops whose length is not known counted as `steps`.
    pub fn assuming(program: &Program, steps: u64) -> Roofline {
        let program = passes::dce(program);
        let region = Region::of(&program);
        let used = program.used_inputs();
        let arguments = region.inputs.iter().zip(used).filter(|(_, used)| *used);
        let mut roofline = Roofline {
            argument_bytes: arguments.map(|(&value, _)| region.bytes(value)).sum(),
            result_bytes: region.outputs.iter().map(|&value| region.bytes(value)).sum(),
            mesh: program.mesh().map(|mesh| mesh.axes().to_vec()).unwrap_or_default(),
            ..Roofline::default()
        };
        let mesh = program.mesh().cloned();
        let mut count = Count { roofline: &mut roofline, mesh, steps };
        count.region(&region, Scope { times: 1, devices: 1 });
        roofline
    }

    /// The same with the exchanges that the compiler made instead of those that the program says: what
    /// [`Compiled::collectives`](crate::jit::Compiled::collectives) found, on the mesh that it was compiled for.
    #[must_use]
    pub fn exchanging(mut self, found: &Collectives, mesh: &Mesh) -> Roofline {
        self.mesh = mesh.axes().to_vec();
        self.exchanges = found.each().iter().map(|one| super::exchange::read(one, mesh)).collect();
        self
    }

    /// How many devices its mesh has; 1 without one.
    pub fn devices(&self) -> usize {
        self.mesh.iter().map(|(_, size)| size).product()
    }

    fn sum(&self, of: impl Fn(&OpCost) -> u64) -> u64 {
        self.operations.iter().map(of).fold(0, u64::saturating_add)
    }

    /// Operations, on all devices together. A product and its sum are two.
    pub fn flops(&self) -> u64 {
        self.sum(|operation| operation.flops)
    }

    /// Exponentials and the like, on all devices together.
    pub fn transcendentals(&self) -> u64 {
        self.sum(|operation| operation.transcendentals)
    }

    /// Bytes read and written if nothing is fused: an upper bound.
    pub fn bytes(&self) -> u64 {
        self.sum(|operation| operation.bytes)
    }

    /// Bytes read and written if the compiler fuses: an estimate.
    pub fn fused_bytes(&self) -> u64 {
        self.sum(|operation| operation.fused_bytes)
    }

    /// Bytes of arguments and results: what has to be read and written whatever the compiler does.
    pub fn least_bytes(&self) -> u64 {
        self.argument_bytes + self.result_bytes
    }

    /// FLOPs per byte, with fused bytes.
    pub fn intensity(&self) -> f64 {
        self.flops() as f64 / self.fused_bytes().max(1) as f64
    }

    /// The costs by source line, the one with most FLOPs first.
    pub fn lines(&self) -> Vec<LineCost> {
        let mut lines: BTreeMap<Option<&Place>, LineCost> = BTreeMap::new();
        for operation in &self.operations {
            let line = lines.entry(operation.place.as_ref()).or_default();
            line.place.clone_from(&operation.place);
            line.operations += 1;
            line.flops = line.flops.saturating_add(operation.flops);
            line.transcendentals = line.transcendentals.saturating_add(operation.transcendentals);
            line.bytes = line.bytes.saturating_add(operation.bytes);
            line.fused_bytes = line.fused_bytes.saturating_add(operation.fused_bytes);
        }
        let mut lines: Vec<LineCost> = lines.into_values().collect();
        lines.sort_by_key(|line| std::cmp::Reverse((line.flops, line.fused_bytes)));
        lines
    }
}

/// How often what is counted runs, and on how many devices.
#[derive(Clone, Copy)]
struct Scope {
    times: u64,
    devices: u64,
}

struct Count<'r> {
    roofline: &'r mut Roofline,
    mesh: Option<Mesh>,
    steps: u64,
}

impl Count<'_> {
    fn region(&mut self, region: &Region, scope: Scope) {
        let fused = fused_bytes(region);
        for (step, fused) in region.steps.iter().zip(fused) {
            match step.inner.is_empty() {
                true => self.operation(region, step, fused, scope),
                false => self.programs(region, step, scope),
            }
        }
    }

    fn operation(&mut self, region: &Region, step: &Step, fused: u64, scope: Scope) {
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

    fn programs(&mut self, region: &Region, step: &Step, scope: Scope) {
        let mut dearest: Option<(u128, &Region)> = None;
        for (run, inner) in &step.inner {
            match *run {
                Run::Times(times) => {
                    let times = scope.times.saturating_mul(times as u64);
                    self.region(inner, Scope { times, ..scope });
                }
                Run::Devices(devices) => {
                    let devices = scope.devices.saturating_mul(devices as u64);
                    self.region(inner, Scope { devices, ..scope });
                }
                Run::Choice => {
                    let weight = weight(inner, self.steps);
                    if dearest.is_none_or(|(most, _)| weight > most) {
                        dearest = Some((weight, inner));
                    }
                }
                Run::Unknown | Run::Counted | Run::Never => {}
            }
        }
        if let Some((_, inner)) = dearest {
            self.region(inner, scope);
        }
        if step.inner.iter().any(|(run, _)| *run == Run::Unknown) {
            self.open(region, step, scope);
        }
    }

    fn open(&mut self, region: &Region, step: &Step, scope: Scope) {
        let found = trips(region, step);
        let counted = found.unwrap_or(self.steps);
        if found.is_none() {
            self.roofline.open_loops.push(OpenLoop { place: Place::of(step.location), counted });
        }
        for (_, inner) in &step.inner {
            let times = scope.times.saturating_mul(counted);
            self.region(inner, Scope { times, ..scope });
        }
    }
}

/// What a branch costs, to compare it with others: operations first, then bytes.
fn weight(region: &Region, steps: u64) -> u128 {
    let mut roofline = Roofline::default();
    let scope = Scope { times: 1, devices: 1 };
    Count { roofline: &mut roofline, mesh: None, steps }.region(region, scope);
    let work = roofline.flops().saturating_add(roofline.transcendentals());
    u128::from(work) << 64 | u128::from(roofline.bytes())
}
