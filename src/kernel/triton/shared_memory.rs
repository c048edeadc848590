//! An estimate of a program's shared memory, from the operands of its products.
//!
//! The compiler loads operands of products several steps of a loop ahead, into one buffer for each
//! stage but the first. It does so for loads directly in the innermost loop, not for those under a
//! condition, and only where rows are aligned. Only such buffers count, so that a kernel above the
//! limit certainly does not compile: what the compiler adds for conversions is unknown. Measured
//! with the CUDA plugin 0.12 for A100, H100 and B200.

use super::ir::padded;
use crate::control_flow::{Scan, WhileLoop};
use crate::core::{Aval, Loc, Program, RuleError, Var};
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
    let (bytes, _) = buffered_operands(kernel);
    // Measured: the compiler needs half a buffer in addition.
    let fits = |stages: &u32| bytes * (2 * *stages as usize - 1) / 2 <= A100_LIMIT;
    kernel.options.num_stages.unwrap_or_else(|| (1..=3).rev().find(fits).unwrap_or(1))
}

/// Checks that buffers of operands fit the largest shared memory.
///
/// # Errors
/// The bytes and the remedy, and the location of the last product that is counted.
pub(in crate::kernel) fn check(kernel: &KernelCall) -> Result<(), (RuleError, Loc)> {
    let n_stages = n_stages(kernel);
    let n_buffers = n_stages.saturating_sub(1) as usize;
    let (bytes, loc) = buffered_operands(kernel);
    let total = bytes * n_buffers;
    if total <= LIMIT {
        return Ok(());
    }
    let message = format!(
        "operands of products take {bytes} bytes of shared memory on a GPU, {total} in the \
         {n_buffers} buffers of {n_stages} stages, and a program has at most {LIMIT}"
    );
    let help = "choose smaller blocks, for GPUs alone with `Kernel::on_gpu`, or set \
                `KernelOptions::num_stages` to fewer stages";
    Err((RuleError::shape(message).help(help), loc))
}

/// Returns the bytes of the operands of products that the compiler loads ahead, and the location of
/// the last product of them.
fn buffered_operands(kernel: &KernelCall) -> (usize, Loc) {
    let axes = kernel.grid.iter().zip(&kernel.semantics).enumerate();
    let sequential: Vec<usize> = axes
        .filter(|(_, (size, of))| **of != DimensionSemantics::Parallel && **size > 1)
        .map(|(axis, _)| axis)
        .collect();
    let Some(&innermost) = sequential.last() else { return (0, Loc::UNKNOWN) };
    let body = &*kernel.body;
    let is_loop =
        |primitive: &dyn std::any::Any| primitive.is::<Scan>() || primitive.is::<WhileLoop>();
    if body.eqns().iter().any(|eqn| is_loop(eqn.primitive.as_any())) {
        return (0, Loc::UNKNOWN);
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

/// Returns the bytes of operands that are loaded from the marked states and multiplied on tensor
/// cores, and the location of the last product of them.
fn operand_bytes(body: &Program, is_buffered: impl Fn(&Var) -> bool) -> (usize, Loc) {
    let (mut loads, mut counted): (Vec<Var>, Vec<Var>) = (Vec::new(), Vec::new());
    let (mut bytes, mut loc) = (0, Loc::UNKNOWN);
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
                bytes += n_elements * aval.dtype.bits() / 8;
                loc = eqn.loc.or(loc);
            }
        }
    }
    (bytes, loc)
}

/// Returns true if an operand is a matrix that is multiplied on tensor cores.
fn is_tile(operand: &Aval, summed: &[usize]) -> bool {
    let is_long = |&size: &usize| size >= 2 * TILE;
    operand.rank() == 2 && summed.len() == 1 && operand.shape.iter().all(is_long)
}
