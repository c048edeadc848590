//! The form of kernels on NVIDIA GPUs: Triton IR, which XLA compiles with the program.
//!
//! Parallel axes of the grid become the grid of the GPU. Sequential axes become loops inside of a
//! program (`grid`), which carry scratch memory and the blocks of outputs as tensors. Inputs stay
//! in memory, and reads of them are loads (`windows`). An output or scratch memory that a kernel
//! writes in parts stays in memory as well; each parallel program has its own scratch memory there.
//!
//! Triton's tensors have powers of two as sizes. Other sizes are padded: loads and stores have
//! masks, and reductions replace the padding by their neutral element.
//!
//! Every operation is found by its type, in one table per family: `elementwise`, `math`, `arrays`,
//! `reductions`, `products` and `control`. A compiler of another language cannot use the rules that
//! write StableHLO, so the emitter has to know the operations. It refuses others.

mod arrays;
pub(super) mod check;
mod control;
mod custom_call;
mod elementwise;
mod emitter;
mod grid;
mod ir;
mod math;
mod products;
mod reductions;
pub(super) mod shared_memory;
mod windows;

use super::kernel_call::KernelCall;
use crate::core::{Aval, LowerCtx, RuleError, RuleResult};
use crate::stablehlo::Value;
pub(super) use custom_call::{GpuCall, escaped};
use emitter::Emitter;
pub(super) use ir::check_dtype;

/// The most elements of one of Triton's tensors.
const MAX_ELEMENTS: usize = 1 << 20;

/// Writes a call of the kernel.
///
/// # Errors
/// The first operation that kernels for GPUs do not have, or a limit that the kernel exceeds.
pub(super) fn lower(
    kernel: &KernelCall,
    ctx: &mut LowerCtx<'_>,
    operands: &[Value],
) -> RuleResult<Vec<Value>> {
    let gpu = ctx.target().gpu();
    let mut refused = |(error, loc)| {
        ctx.set_refused_at(loc);
        error
    };
    shared_memory::check_for(kernel, gpu).map_err(&mut refused)?;
    let emitted = emit(kernel).map_err(refused)?;
    let config = format!(
        "name = \"{}\", ir = \"{}\", num_warps = {} : i32, num_stages = {} : i32, grid_x = {} : \
         i32, grid_y = 1 : i32, grid_z = 1 : i32, debug = false",
        emitted.name,
        escaped(&emitted.text),
        emitted.num_warps,
        kernel.num_stages(),
        emitted.n_programs
    );
    let workspaces = &emitted.workspaces;
    let call = GpuCall { target: "__gpu$xla.gpu.triton", config, workspaces };
    Ok(call.write(kernel, ctx, operands))
}

/// A kernel as Triton IR.
pub(super) struct Emitted {
    /// The name of its function.
    pub(super) name: String,
    pub(super) text: String,
    pub(super) num_warps: u32,
    /// The number of programs that run in parallel.
    pub(super) n_programs: usize,
    /// The types of further results, in which the programs keep scratch memory.
    pub(super) workspaces: Vec<Aval>,
}

/// Writes the kernel as Triton IR.
fn emit(kernel: &KernelCall) -> Result<Emitted, (RuleError, crate::core::Loc)> {
    let mut in_memory = vec![false; kernel.outputs.len() + kernel.scratch.len()];
    loop {
        let mut emitter = Emitter::new(kernel, &in_memory);
        match emitter.run() {
            Ok(emitted) => return Ok(emitted),
            Err(error) => match emitter.move_to_memory {
                Some(output) if !in_memory[output] => in_memory[output] = true,
                _ => return Err((error, emitter.refused_at)),
            },
        }
    }
}

/// Refuses an operation.
pub(super) fn unsupported(name: &str, operands: &[Aval]) -> RuleError {
    let operands: Vec<String> = operands.iter().map(Aval::to_string).collect();
    RuleError::unsupported(format!(
        "kernels for GPUs do not have the operation `{name}` on {}",
        operands.join(", ")
    ))
    .help("compute it outside of the kernel, or run the kernel as a loop with `Kernel::interpret`")
}
