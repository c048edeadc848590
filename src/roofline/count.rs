//! [`Roofline`]: what each operation and each source line costs.

use super::region::Region;
use super::shares::Layout;
use super::walk::{Scope, Walk};
use crate::core::{Collective, Contraction, DType, Loc, Mesh, NamedSharding, Program};
use crate::jit::{Argument, Collectives};
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
    pub(super) fn of(location: Loc) -> Option<Place> {
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
    /// What one device does of it.
    pub each: Share,
}

/// What one device does of an operation, over all its runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Share {
    /// Operations, as in [`OpCost::flops`].
    pub flops: u64,
    /// Exponentials and the like.
    pub transcendentals: u64,
    /// Bytes that it reads and writes of its own memory if nothing is fused.
    pub bytes: u64,
    /// The same if the compiler fuses.
    pub fused_bytes: u64,
}

impl Share {
    fn and(self, other: Share) -> Share {
        Share {
            flops: self.flops.saturating_add(other.flops),
            transcendentals: self.transcendentals.saturating_add(other.transcendentals),
            bytes: self.bytes.saturating_add(other.bytes),
            fused_bytes: self.fused_bytes.saturating_add(other.fused_bytes),
        }
    }

    fn map(self, of: impl Fn(u64) -> u64) -> Share {
        Share {
            flops: of(self.flops),
            transcendentals: of(self.transcendentals),
            bytes: of(self.bytes),
            fused_bytes: of(self.fused_bytes),
        }
    }

    pub(super) fn times(self, times: u64) -> Share {
        self.map(|count| count.saturating_mul(times))
    }
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
/// [`OpCost::each`] is one device's part. `docs/roofline.md` says what a FLOP is and which bytes are which.
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
    /// Bytes of both on one device.
    pub held_bytes: u64,
    /// The axes of the mesh that the program speaks of: name and size.
    pub mesh: Vec<(String, usize)>,
}

impl Roofline {
    /// Counts a program. Loops whose length is not known count once. How its arguments lie on devices is not known either, so
    /// outside of `shard_map` each device is taken to do an equal part; [`Roofline::placed`] knows.
    pub fn of(program: &Program) -> Roofline {
        Roofline::assuming(program, 1)
    }

    /// The same, with loops whose length is not known counted as `steps`.
    pub fn assuming(program: &Program, steps: u64) -> Roofline {
        Roofline::count(program, &[], program.mesh(), steps)
    }

    /// Counts a program whose arguments lie as [`Lowered::arguments`](crate::jit::Lowered::arguments) says: what is cut nowhere,
    /// every device computes.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// use oxidax::roofline::Roofline;
    /// let mesh = Mesh::without_devices([("data", 8)])?;
    /// let rows = mesh.sharding(p!["data"])?;
    /// let step = jit(|w: Array, x: Array| (&w * 0.9, x.matmul(&w)));
    /// let step = step.in_shardings((&mesh.replicated(), &rows));
    /// let (w, x) = (Aval::new(DType::F32, [64, 64]), Aval::new(DType::F32, [32, 64]));
    /// let lowered = step.lower((w, x))?;
    /// let roofline = Roofline::placed(lowered.program(), &lowered.arguments());
    /// let of = |name| roofline.operations.iter().find(|it| it.name == name).expect("it is in the step");
    /// assert_eq!(of("dot_general").each.flops, of("dot_general").flops / 8);
    /// assert_eq!(of("mul").each.flops, of("mul").flops);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn placed(program: &Program, arguments: &[Argument]) -> Roofline {
        let shardings: Vec<_> =
            arguments.iter().map(|argument| argument.sharding.as_ref()).collect();
        let mesh = shardings.iter().flatten().map(|sharding| sharding.mesh()).next();
        Roofline::count(program, &shardings, mesh.or_else(|| program.mesh()), 1)
    }

    fn count(
        program: &Program,
        arguments: &[Option<&NamedSharding>],
        mesh: Option<&Mesh>,
        steps: u64,
    ) -> Roofline {
        let program = passes::dce(program);
        let region = Region::of(&program);
        let devices = mesh.map_or(1, |mesh| mesh.devices().len() as u64);
        let layout = Layout::of(&region, arguments, devices);
        let shares = layout.shares(&region);
        let used = region.inputs.iter().zip(program.used_inputs()).filter(|(_, used)| *used);
        let arguments: Vec<usize> = used.map(|(&value, _)| value).collect();
        let bytes = |values: &[usize]| values.iter().map(|&value| region.bytes(value)).sum();
        let held = |value: &usize| shares.held(*value, region.bytes(*value));
        let mut roofline = Roofline {
            argument_bytes: bytes(&arguments),
            result_bytes: bytes(&region.outputs),
            held_bytes: arguments.iter().chain(&region.outputs).map(held).sum(),
            mesh: mesh.map(|mesh| mesh.axes().to_vec()).unwrap_or_default(),
            ..Roofline::default()
        };
        let mut walk = Walk { roofline: &mut roofline, mesh: mesh.cloned(), steps };
        walk.region(&region, &layout, Scope::ONCE);
        roofline
    }

    /// The same with the exchanges that the compiler made instead of those that the program says: what
    /// [`Compiled::collectives`](crate::jit::Compiled::collectives) found, on the mesh that it was compiled for. Where the compiler does
    /// not say how often one runs, as often as the program says of one of this kind along these axes.
    #[must_use]
    pub fn exchanging(mut self, found: &Collectives, mesh: &Mesh) -> Roofline {
        if self.mesh.is_empty() {
            let devices = mesh.devices().len().max(1) as u64;
            for operation in &mut self.operations {
                operation.each = operation.each.map(|count| count.div_ceil(devices));
            }
            self.held_bytes /= devices;
        }
        self.mesh = mesh.axes().to_vec();
        let said = std::mem::take(&mut self.exchanges);
        let read = |one| super::exchange::read(one, mesh, &said);
        self.exchanges = found.each().iter().map(read).collect();
        self
    }

    /// How many devices its mesh has; 1 without one.
    pub fn devices(&self) -> usize {
        self.mesh.iter().map(|(_, size)| size).product()
    }

    /// What one device does of all operations together.
    pub fn each(&self) -> Share {
        self.operations.iter().fold(Share::default(), |all, operation| all.and(operation.each))
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
