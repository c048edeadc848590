//! [`Roofline`]: the costs of a program by operation and by source line.

use super::counting::{Counter, Scope};
use super::device_costs::Layout;
use crate::core::{Collective, Contraction, DType, Mesh, NamedSharding, Program, SourceLine};
use crate::jit::{Argument, Collectives};
use crate::passes::{self, Region};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The cost of one operation of a program, over all its runs and all devices.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OpCost {
    /// The name of the primitive.
    pub name: &'static str,
    /// The types of the operands, such as `f32[32,784], f32[784,10]`. Inside `shard_map` those of
    /// one device.
    pub operands: String,
    /// The types of the results.
    pub results: String,
    /// The source line.
    pub place: Option<SourceLine>,
    /// The names of the [scopes](crate::core::named_scope) around it, joined by `/`.
    pub scope: String,
    /// The number of runs on each device.
    pub times: u64,
    /// The number of devices inside `shard_map`. It is 1 outside, where types are global.
    pub devices: u64,
    /// FLOPs. A multiplication and an addition are two.
    pub flops: u64,
    /// Exponentials, sines, roots and so on, which do not count as FLOPs.
    pub transcendentals: u64,
    /// Bytes read and written if nothing is fused.
    pub bytes: u64,
    /// Bytes read and written after fusion. `docs/roofline.md` has the rule.
    pub fused_bytes: u64,
    /// The dtype of the first operand.
    pub dtype: Option<DType>,
    /// The matrix product that the operation computes, if any.
    pub product: Option<Contraction>,
    /// The cost on one device.
    pub per_device: DeviceCost,
}

/// The cost of an operation on one device, over all its runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeviceCost {
    /// FLOPs, as in [`OpCost::flops`].
    pub flops: u64,
    /// Transcendental operations, as in [`OpCost::transcendentals`].
    pub transcendentals: u64,
    /// Bytes that it reads and writes in its memory if nothing is fused.
    pub bytes: u64,
    /// Bytes that it reads and writes in its memory after fusion.
    pub fused_bytes: u64,
}

impl DeviceCost {
    fn add(self, other: DeviceCost) -> DeviceCost {
        DeviceCost {
            flops: self.flops.saturating_add(other.flops),
            transcendentals: self.transcendentals.saturating_add(other.transcendentals),
            bytes: self.bytes.saturating_add(other.bytes),
            fused_bytes: self.fused_bytes.saturating_add(other.fused_bytes),
        }
    }

    fn map(self, f: impl Fn(u64) -> u64) -> DeviceCost {
        DeviceCost {
            flops: f(self.flops),
            transcendentals: f(self.transcendentals),
            bytes: f(self.bytes),
            fused_bytes: f(self.fused_bytes),
        }
    }

    pub(super) fn times(self, times: u64) -> DeviceCost {
        self.map(|count| count.saturating_mul(times))
    }
}

/// The cost of one line of user code: the sum over its operations.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LineCost {
    /// The line. `None` for operations without a source location.
    pub place: Option<SourceLine>,
    /// The number of operations.
    pub operations: usize,
    /// FLOPs, as in [`OpCost::flops`].
    pub flops: u64,
    /// Transcendental operations, as in [`OpCost::transcendentals`].
    pub transcendentals: u64,
    /// Bytes, as in [`OpCost::bytes`].
    pub bytes: u64,
    /// Bytes after fusion, as in [`OpCost::fused_bytes`].
    pub fused_bytes: u64,
}

/// An exchange between devices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exchange {
    /// The kind of collective.
    pub kind: Collective,
    /// The mesh axes that it runs over. Empty if a compiled collective does not follow mesh axes.
    pub axes: Vec<String>,
    /// The number of devices in a group.
    pub size: usize,
    /// The bytes to which the time is proportional: the result of a gather, the operand of a
    /// reduction, the whole array of an all-to-all, the data that one device sends in a
    /// permutation.
    pub bytes: u64,
    /// The number of runs.
    pub times: u64,
    /// The source and target pairs of a permutation along one axis.
    pub pairs: Vec<(usize, usize)>,
    /// The source line.
    pub place: Option<SourceLine>,
}

/// A loop whose number of iterations is not known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnknownLoop {
    /// The source line.
    pub place: Option<SourceLine>,
    /// The number of iterations that is assumed.
    pub counted: u64,
}

/// The costs of a program by operation and by line: FLOPs, memory traffic and exchanges.
///
/// - Counts are those of the traced program after dead code elimination. Loops count as often as
///   they run, a `cond` as its most expensive branch.
/// - Outside `shard_map` types and counts are global. [`OpCost::per_device`] is the part of one
///   device.
/// - `docs/roofline.md` defines FLOPs and bytes.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::roofline::{DeviceSpec, Roofline};
/// let layer = |w: Array, x: Array| x.matmul(&w);
/// let w = Aval::new(DType::BF16, [4096, 4096]);
/// let lowered = jit(layer).lower(w, Aval::new(DType::BF16, [64, 4096]))?;
/// let roofline = Roofline::of(lowered.program());
/// assert_eq!(roofline.flops(), 2 * 64 * 4096 * 4096);
/// // 64 rows are too few: the weights take longer to read than to multiply.
/// let v5e = roofline.on(&DeviceSpec::named("v5e").expect("it is in the table"));
/// assert_eq!(v5e.bound.to_string(), "memory");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug, Default, Serialize)]
pub struct Roofline {
    /// All operations in program order. Those of a loop occur once, with their [`OpCost::times`].
    pub operations: Vec<OpCost>,
    /// The exchanges of `shard_map`. [`Roofline::with_exchanges`] replaces them by those of the
    /// compiler.
    pub exchanges: Vec<Exchange>,
    /// The loops whose number of iterations is not known.
    pub unknown_loops: Vec<UnknownLoop>,
    /// The size of the arguments that are used, in bytes.
    pub argument_bytes: u64,
    /// The size of the results, in bytes.
    pub result_bytes: u64,
    /// The size of arguments and results on one device, in bytes.
    pub held_bytes: u64,
    /// The axes of the mesh of the program: name and size.
    pub mesh: Vec<(String, usize)>,
}

impl Roofline {
    /// Counts a program.
    ///
    /// Loops of unknown length count once. Outside `shard_map` it assumes that every device
    /// computes an equal part. [`Roofline::with_arguments`] uses the shardings of the arguments
    /// instead.
    pub fn of(program: &Program) -> Roofline {
        Roofline::assuming(program, 1)
    }

    /// Counts a program, with `steps` iterations for loops of unknown length.
    pub fn assuming(program: &Program, steps: u64) -> Roofline {
        Roofline::count(program, &[], program.mesh(), steps)
    }

    /// Counts a program with the shardings of its arguments, as returned by
    /// [`Lowered::arguments`](crate::jit::Lowered::arguments).
    ///
    /// Every device computes the operations that are not partitioned.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// use oxidax::roofline::Roofline;
    /// let mesh = Mesh::without_devices([("data", 8)])?;
    /// let rows = mesh.sharding(p!["data"])?;
    /// let step = jit(|w: Array, x: Array| (&w * 0.9, x.matmul(&w)));
    /// let step = step.in_shardings((&mesh.replicated(), &rows));
    /// let (w, x) = (Aval::new(DType::F32, [64, 64]), Aval::new(DType::F32, [32, 64]));
    /// let lowered = step.lower(w, x)?;
    /// let roofline = Roofline::with_arguments(lowered.program(), &lowered.arguments());
    /// let cost = |name| roofline.operations.iter().find(|op| op.name == name).expect("it exists");
    /// assert_eq!(cost("dot_general").per_device.flops, cost("dot_general").flops / 8);
    /// assert_eq!(cost("mul").per_device.flops, cost("mul").flops);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn with_arguments(program: &Program, arguments: &[Argument]) -> Roofline {
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
        let parts = layout.parts(&region);
        let arguments: Vec<usize> = program.used_inputs().select(&region.inputs);
        let bytes = |values: &[usize]| values.iter().map(|&value| region.bytes(value)).sum();
        let held = |value: &usize| parts.held(*value, region.bytes(*value));
        let mut roofline = Roofline {
            argument_bytes: bytes(&arguments),
            result_bytes: bytes(&region.outputs),
            held_bytes: arguments.iter().chain(&region.outputs).map(held).sum(),
            mesh: mesh.map(|mesh| mesh.axes().to_vec()).unwrap_or_default(),
            ..Roofline::default()
        };
        let (mesh, weights) = (mesh.cloned(), Default::default());
        let mut counter = Counter { roofline: &mut roofline, mesh, steps, weights };
        counter.region(&region, &layout, Scope::ONCE);
        roofline
    }

    /// Replaces the exchanges of the program by those of the compiled program, as returned by
    /// [`CompilerReport::collectives`](crate::jit::CompilerReport::collectives), on the mesh that
    /// it was compiled for.
    ///
    /// If the compiler does not report the number of runs of an exchange, it is taken from the
    /// exchange of the program with the same kind and axes.
    #[must_use]
    pub fn with_exchanges(mut self, collectives: &Collectives, mesh: &Mesh) -> Roofline {
        if self.mesh.is_empty() {
            let devices = mesh.devices().len().max(1) as u64;
            for operation in &mut self.operations {
                operation.per_device = operation.per_device.map(|count| count.div_ceil(devices));
            }
            self.held_bytes /= devices;
        }
        self.mesh = mesh.axes().to_vec();
        let traced = std::mem::take(&mut self.exchanges);
        let convert = |collective| super::compiled_exchanges::convert(collective, mesh, &traced);
        self.exchanges = collectives.each().iter().map(convert).collect();
        self
    }

    /// Returns the number of devices of the mesh, or 1 without a mesh.
    pub fn devices(&self) -> usize {
        self.mesh.iter().map(|(_, size)| size).product()
    }

    /// Returns the cost of all operations on one device.
    pub fn per_device(&self) -> DeviceCost {
        let costs = self.operations.iter().map(|operation| operation.per_device);
        costs.fold(DeviceCost::default(), DeviceCost::add)
    }

    fn sum(&self, count: impl Fn(&OpCost) -> u64) -> u64 {
        self.operations.iter().map(count).fold(0, u64::saturating_add)
    }

    /// Returns the FLOPs on all devices. A multiplication and an addition are two.
    pub fn flops(&self) -> u64 {
        self.sum(|operation| operation.flops)
    }

    /// Returns the transcendental operations on all devices.
    pub fn transcendentals(&self) -> u64 {
        self.sum(|operation| operation.transcendentals)
    }

    /// Returns the bytes read and written if nothing is fused: an upper bound.
    pub fn bytes(&self) -> u64 {
        self.sum(|operation| operation.bytes)
    }

    /// Returns the bytes read and written after fusion: an estimate.
    pub fn fused_bytes(&self) -> u64 {
        self.sum(|operation| operation.fused_bytes)
    }

    /// Returns the bytes of arguments and results: a lower bound.
    pub fn least_bytes(&self) -> u64 {
        self.argument_bytes + self.result_bytes
    }

    /// Returns FLOPs per byte after fusion.
    pub fn intensity(&self) -> f64 {
        self.flops() as f64 / self.fused_bytes().max(1) as f64
    }

    /// Returns the costs by source line, the line with most FLOPs first.
    pub fn lines(&self) -> Vec<LineCost> {
        let mut lines: BTreeMap<Option<&SourceLine>, LineCost> = BTreeMap::new();
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
