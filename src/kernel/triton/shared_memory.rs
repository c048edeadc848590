//! An estimate of a program's shared memory, from the operands of its products.
//!
//! The compiler loads operands of products several steps of a loop ahead, into one buffer for each
//! stage but the first. On H100 and later GPUs, whose asynchronous products read operands of 16 and
//! 8 bits from shared memory, there is one for each stage. The compiler does so for loads directly
//! in the innermost loop, not for those under a condition, and only where rows are aligned. Only
//! such buffers count, so that a kernel above the
//! limit certainly does not compile: what the compiler adds for conversions, transposes and
//! reductions is unknown, and its refusal of them becomes an error with the kernel's line
//! (`runtime/compile_error.rs`). Measured with the CUDA plugin 0.12 for A100, H100 and B200.

use super::ir::padded;
use crate::control_flow::{Scan, WhileLoop};
use crate::core::{Aval, GpuLimits, Loc, Program, RuleError, Var};
use crate::kernel::kernel_call::KernelCall;
use crate::kernel::ref_ops::RefGet;
use crate::kernel::spec::DimensionSemantics;
use crate::primitives::DotGeneral;

/// The bytes of shared memory of a program on H100, H200 and B200.
const LIMIT: usize = 232_448;
/// The bytes of shared memory of a program on an A100.
const A100_LIMIT: usize = 166_912;
/// The bytes to which rows must be aligned for asynchronous loads.
const ALIGNMENT: usize = 16;
/// The smallest sides of products on tensor cores.
const TILE: usize = 16;

/// Returns the number of stages of software pipelining: the chosen one, or the largest of 3 with
/// which the operands of products fit the shared memory of an A100.
pub(in crate::kernel) fn n_stages(kernel: &KernelCall) -> u32 {
    let bytes = buffered_operands(kernel).bytes;
    // Measured: the compiler needs half a buffer in addition.
    let fits = |stages: &u32| bytes * (2 * *stages as usize - 1) / 2 <= A100_LIMIT;
    kernel.options.num_stages.unwrap_or_else(|| (1..=3).rev().find(fits).unwrap_or(1))
}

/// Checks, when a kernel is traced, that buffers of operands fit the largest shared memory.
///
/// # Errors
/// The bytes and the remedy, and the location of the last product that is counted.
pub(in crate::kernel) fn check(kernel: &KernelCall) -> Result<(), (RuleError, Loc)> {
    check_limit(kernel, "a GPU", LIMIT, false)
}

/// Checks, when a kernel is lowered for a GPU, that buffers of operands fit its shared memory.
///
/// # Errors
/// Those of [`check`].
pub(super) fn check_for(
    kernel: &KernelCall,
    gpu: Option<GpuLimits<'_>>,
) -> Result<(), (RuleError, Loc)> {
    match gpu {
        Some(gpu) => {
            let is_asynchronous = gpu.shared_memory >= LIMIT;
            check_limit(kernel, gpu.kind, gpu.shared_memory, is_asynchronous)
        }
        None => Ok(()),
    }
}

/// Checks that buffers of operands fit `limit` bytes. `is_asynchronous` is true for a GPU whose
/// products read narrow operands from shared memory while the next ones are loaded.
fn check_limit(
    kernel: &KernelCall,
    gpu: &str,
    limit: usize,
    is_asynchronous: bool,
) -> Result<(), (RuleError, Loc)> {
    let n_stages = n_stages(kernel);
    let Operands { bytes, narrow_bytes, loc } = buffered_operands(kernel);
    let n_buffers = n_stages.saturating_sub(1) as usize;
    let (bytes, n_buffers) = match is_asynchronous && narrow_bytes * (n_buffers + 1) > limit {
        true => (narrow_bytes, n_buffers + 1),
        false => (bytes, n_buffers),
    };
    let total = bytes * n_buffers;
    if total <= limit {
        return Ok(());
    }
    let message = format!(
        "operands of products take {bytes} bytes of shared memory on {gpu}, {total} in the \
         {n_buffers} buffers of {n_stages} stages, and a program has at most {limit}"
    );
    let help = "choose smaller blocks, for GPUs alone with `Kernel::on_gpu`, or set \
                `KernelOptions::num_stages` to fewer stages";
    Err((RuleError::shape(message).help(help), loc))
}

/// Operands of products that the compiler loads ahead.
#[derive(Default)]
struct Operands {
    /// The bytes of all of them.
    bytes: usize,
    /// The bytes of those of products whose operands have at most 16 bits.
    narrow_bytes: usize,
    /// The location of the last product.
    loc: Loc,
}

/// Returns the operands of products that the compiler loads ahead.
fn buffered_operands(kernel: &KernelCall) -> Operands {
    let axes = kernel.grid.iter().zip(&kernel.semantics).enumerate();
    let sequential: Vec<usize> = axes
        .filter(|(_, (size, of))| **of != DimensionSemantics::Parallel && **size > 1)
        .map(|(axis, _)| axis)
        .collect();
    let Some(&innermost) = sequential.last() else { return Operands::default() };
    let body = &*kernel.body;
    let is_loop =
        |primitive: &dyn std::any::Any| primitive.is::<Scan>() || primitive.is::<WhileLoop>();
    if body.eqns().iter().any(|eqn| is_loop(eqn.primitive.as_any())) {
        return Operands::default();
    }
    let buffered = kernel.inputs.iter().enumerate().filter(|(_, window)| {
        let row =
            |sizes: &[usize]| sizes.last().copied().unwrap_or(0) * window.array.dtype.bits() / 8;
        window.used_axes(kernel.rank())[innermost]
            && row(&window.array.shape).is_multiple_of(ALIGNMENT)
            && row(&window.block_sizes()).is_multiple_of(ALIGNMENT)
    });
    let states: Vec<_> =
        buffered.map(|(index, _)| body.inputs()[kernel.first_input() + index]).collect();
    operand_bytes(body, |state| states.contains(state))
}

/// Returns the operands that are loaded from the marked states and multiplied on tensor cores.
fn operand_bytes(body: &Program, is_buffered: impl Fn(&Var) -> bool) -> Operands {
    let (mut loads, mut counted): (Vec<Var>, Vec<Var>) = (Vec::new(), Vec::new());
    let mut found = Operands::default();
    for eqn in body.eqns() {
        let primitive = eqn.primitive.as_any();
        if primitive.is::<RefGet>() && eqn.operands.first().is_some_and(&is_buffered) {
            loads.extend(&eqn.results);
        }
        let Some(product) = primitive.downcast_ref::<DotGeneral>() else { continue };
        let axes = [&product.lhs_contracting, &product.rhs_contracting];
        for (operand, summed) in eqn.operands.iter().zip(axes) {
            let aval = body.aval(*operand);
            if loads.contains(operand) && !counted.contains(operand) && is_tile(aval, summed) {
                counted.push(*operand);
                let n_elements: usize = padded(&aval.shape).iter().product();
                let bytes = n_elements * aval.dtype.bits() / 8;
                found.bytes += bytes;
                if aval.dtype.bits() <= 16 {
                    found.narrow_bytes += bytes;
                }
                found.loc = eqn.loc.or(found.loc);
            }
        }
    }
    found
}

/// Returns true if an operand is a matrix that is multiplied on tensor cores.
fn is_tile(operand: &Aval, summed: &[usize]) -> bool {
    let is_long = |&size: &usize| size >= 2 * TILE;
    operand.rank() == 2 && summed.len() == 1 && operand.shape.iter().all(is_long)
}
