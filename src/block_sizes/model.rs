//! [`estimate`]: the predicted time of a kernel on a device.

use super::limits::{Cores, cores};
use crate::core::{Aval, Eqn, Primitive, Program};
use crate::kernel::{BlockMapping, DimensionSemantics, KernelCall, KernelMemory, RefGet, RefSet};
use crate::roofline::{DeviceSpec, Roofline};

/// The prediction of [`estimate`].
#[derive(Clone, Debug, PartialEq)]
pub struct KernelEstimate {
    /// The time of one run, in seconds.
    pub seconds: f64,
    /// The time of the arithmetic of all programs on all cores, in seconds.
    pub arithmetic: f64,
    /// The time of the traffic with main memory, in seconds.
    pub memory: f64,
    /// The time of programs and steps beside arithmetic and traffic, in seconds.
    pub overhead: f64,
    /// The fraction of the cores that are busy, on average.
    pub utilization: f64,
    /// The bytes of fast memory of one program: VMEM on a TPU, shared memory on a GPU.
    pub fast_memory: u64,
    /// The reason why the kernel does not fit into fast memory or registers. `None` if it fits.
    pub excess: Option<String>,
}

/// Predicts the time of a kernel on a device:
///
/// - arithmetic: the products of all programs at the peak rate of their dtype, with axes padded to
///   the tile of the matrix unit, or the other operations at the rate of the vector unit, if that
///   is longer;
/// - traffic: the bytes of all blocks over the bandwidth, where a block that stays is moved once.
///   On a GPU whose last cache holds all arrays, each array is read from main memory once, and
///   blocks from the cache;
/// - the longer of both, over the utilization: programs along parallel axes are distributed to the
///   cores or multiprocessors in waves, and the last wave may be incomplete. On a GPU, a
///   multiprocessor with fewer than 8 warps, because shared memory or registers are full, hides
///   less latency;
/// - the transfers of the first and the last blocks, which nothing overlaps, and a constant time
///   for each program, an assumption that was not measured.
///
/// Fast memory of a TPU holds two buffers of each block, scratch memory, and the operands and
/// results of the largest operation. On a GPU, shared memory holds loaded inputs once for each
/// stage, and registers hold outputs, scratch memory and results.
///
/// The model orders block sizes. It does not predict how far a kernel stays below the peaks. Loops
/// of unknown length count as one step.
pub fn estimate(kernel: &KernelCall, device: &DeviceSpec) -> KernelEstimate {
    let n_programs = kernel.n_programs() as f64;
    let of = |semantics| -> usize {
        let axes = kernel.grid.iter().zip(&kernel.semantics);
        axes.filter(|axis| *axis.1 == semantics).map(|axis| axis.0).product()
    };
    let n_parallel = of(DimensionSemantics::Parallel);
    let n_sequential = of(DimensionSemantics::Arbitrary);
    let arithmetic = n_programs * arithmetic_of(&kernel.body, device);
    let memory = traffic(kernel) / device.hbm_bandwidth;
    let windows = || kernel.inputs.iter().chain(&kernel.outputs);
    let ends = windows().map(|window| window.block_bytes() as f64).sum::<f64>();
    let ends = ends / device.hbm_bandwidth;
    let (seconds, memory, overhead, utilization, fast_memory, excess) = match cores(device) {
        Cores::Tpu { cores, step } => {
            let utilization = in_waves(n_parallel, cores);
            let overhead = n_programs * step / (cores as f64 * utilization) + ends;
            let fast_memory = vmem(kernel);
            let limit = (kernel.options.vmem_limit as u64).min(device.vmem_bytes);
            let seconds = (arithmetic / utilization).max(memory) + overhead;
            let excess = (fast_memory > limit).then(|| excess("VMEM", fast_memory, limit));
            (seconds, memory, overhead, utilization, fast_memory, excess)
        }
        Cores::Gpu { multiprocessors, shared, registers, launch, step } => {
            let warps = u64::from(kernel.options.num_warps.unwrap_or_else(|| warps_of(kernel)));
            let memory = memory.min(cached(kernel, device));
            let stages = if n_sequential > 1 { u64::from(kernel.num_stages()) } else { 1 };
            let fast_memory = loaded(kernel) * stages;
            let held = held_in_registers(kernel);
            let resident = (shared / fast_memory.max(1)).min(registers / held.max(1)).max(1);
            let hidden = ((resident * warps) as f64 / 8.0).min(1.0);
            let utilization = in_waves(n_parallel, multiprocessors) * hidden;
            let waves = n_parallel.div_ceil(multiprocessors * resident as usize) as f64;
            let overhead = launch + waves * n_sequential as f64 * step + ends / n_programs.max(1.0);
            let seconds = arithmetic.max(memory) / utilization + overhead;
            // A thread has at most 255 registers.
            let registers = registers.min(warps * 32 * 255 * 4);
            let excess = if fast_memory > shared {
                Some(excess("shared memory", fast_memory, shared))
            } else {
                (held > registers).then(|| excess("registers", held, registers))
            };
            (seconds, memory, overhead, utilization, fast_memory, excess)
        }
    };
    KernelEstimate { seconds, arithmetic, memory, overhead, utilization, fast_memory, excess }
}

/// Returns the bytes of all blocks that programs load and store.
fn traffic(kernel: &KernelCall) -> f64 {
    kernel.cost(&[], &[]).bytes as f64
}

/// Returns the time of the traffic of a GPU if all arrays stay in its last cache.
fn cached(kernel: &KernelCall, device: &DeviceSpec) -> f64 {
    let windows = kernel.inputs.iter().chain(&kernel.outputs);
    let arrays = windows.map(|window| window.array.bytes() as u64).fold(0, u64::saturating_add);
    if arrays > device.vmem_bytes {
        return f64::INFINITY;
    }
    let from_cache = traffic(kernel) / device.vmem_bandwidth;
    from_cache.max(arrays as f64 / device.hbm_bandwidth)
}

/// Returns the number of warps of a program of a GPU, from the elements of its largest value.
fn warps_of(kernel: &KernelCall) -> u32 {
    fn largest(program: &Program) -> usize {
        let of = |eqn: &Eqn| match eqn.primitive.as_higher_order() {
            Some(holder) => {
                holder.programs().into_iter().map(|(_, inner)| largest(inner)).max().unwrap_or(0)
            }
            None => eqn.results.iter().map(|&var| program.aval(var).size()).max().unwrap_or(0),
        };
        program.eqns().iter().map(of).max().unwrap_or(0)
    }
    match largest(&kernel.body) {
        0..1024 => 1,
        1024..2048 => 2,
        2048..16384 => 4,
        _ => 8,
    }
}

fn excess(memory: &str, needed: u64, limit: u64) -> String {
    let kib = |bytes: u64| bytes.div_ceil(1 << 10);
    format!("needs {} KiB of {memory}, of {} KiB", kib(needed), kib(limit))
}

/// Returns the fraction of cores that are busy if they run this many programs in waves.
fn in_waves(n_programs: usize, cores: usize) -> f64 {
    let n_programs = n_programs.max(1);
    n_programs as f64 / n_programs.next_multiple_of(cores) as f64
}

/// Returns the time of one program's arithmetic on the whole device.
fn arithmetic_of(body: &Program, device: &DeviceSpec) -> f64 {
    let (mut products, mut vectors) = (0.0, 0.0);
    for operation in &Roofline::of(body).operations {
        let time = operation.on(device);
        let used = operation.product.map_or(1.0, |product| device.tile_use(&product));
        products += time.products / used.max(f64::MIN_POSITIVE);
        vectors += time.vectors;
    }
    products.max(vectors)
}

/// Returns the bytes of an array in VMEM, in whole tiles of 8 x 128 elements of 32 bits.
fn tiled_bytes(aval: &Aval) -> u64 {
    let width = aval.dtype.host_bytes().max(1);
    let mut shape = aval.shape.to_vec();
    let rank = shape.len();
    if let Some(lanes) = shape.last_mut() {
        *lanes = lanes.next_multiple_of(128);
    }
    if rank > 1 {
        shape[rank - 2] = shape[rank - 2].next_multiple_of(8 * (4 / width).max(1));
    }
    shape.iter().fold(width as u64, |bytes, &size| bytes.saturating_mul(size as u64))
}

/// Returns the bytes of VMEM of a kernel.
fn vmem(kernel: &KernelCall) -> u64 {
    let windows = kernel.inputs.iter().chain(&kernel.outputs);
    let in_vmem = windows.filter(|window| window.memory == KernelMemory::Vmem);
    let buffers = in_vmem.map(|window| 2 * tiled_bytes(&window.ref_aval()));
    let scratch = kernel.scratch.iter().filter(|scratch| scratch.memory() == KernelMemory::Vmem);
    let scratch = scratch.map(|scratch| tiled_bytes(scratch.aval()));
    let total = buffers.chain(scratch).fold(0, u64::saturating_add);
    total.saturating_add(largest_operation(&kernel.body))
}

/// Returns the bytes of the operands and results of the largest operation.
fn largest_operation(program: &Program) -> u64 {
    let of = |eqn: &Eqn| {
        if let Some(holder) = eqn.primitive.as_higher_order() {
            let inner = holder.programs().into_iter().map(|(_, inner)| largest_operation(inner));
            return inner.max().unwrap_or(0);
        }
        let primitive = (*eqn.primitive).as_any();
        // Elements go between memory and registers.
        if primitive.is::<RefGet>() || primitive.is::<RefSet>() {
            return 0;
        }
        let vars = eqn.operands.iter().chain(&eqn.results);
        vars.map(|&var| program.aval(var).bytes() as u64).fold(0, u64::saturating_add)
    };
    program.eqns().iter().map(of).max().unwrap_or(0)
}

/// Returns the bytes of inputs that a program loads: all parts, at most the blocks.
fn loaded(kernel: &KernelCall) -> u64 {
    fn parts(program: &Program) -> u64 {
        let of = |eqn: &Eqn| match eqn.primitive.as_higher_order() {
            Some(holder) => holder.programs().into_iter().map(|(_, inner)| parts(inner)).sum(),
            None if (*eqn.primitive).as_any().is::<RefGet>() => {
                program.aval(eqn.results[0]).bytes() as u64
            }
            None => 0,
        };
        program.eqns().iter().map(of).fold(0, u64::saturating_add)
    }
    let blocks = kernel.inputs.iter().map(BlockMapping::block_bytes).sum::<usize>();
    parts(&kernel.body).min(blocks as u64)
}

/// Returns the bytes that a program of a GPU holds in registers.
fn held_in_registers(kernel: &KernelCall) -> u64 {
    let outputs = kernel.outputs.iter().map(BlockMapping::block_bytes).sum::<usize>();
    let scratch = kernel.scratch.iter().map(|scratch| scratch.aval().bytes()).sum::<usize>();
    (outputs.max(scratch)) as u64
}
