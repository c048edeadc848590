//! Another form of kernels on NVIDIA GPUs: Mosaic GPU, as text that XLA compiles with the program.
//!
//! The text is of the stable form, version 9: generic MLIR whose operations begin with
//! `stable_mosaic_gpu.`. It is an argument of the custom call `mosaic_gpu_v2`, which is among the
//! targets that JAX keeps stable.
//!
//! The text describes one thread. A value of the body is a rule that computes its elements where
//! they are used (`value`, `element`), so that a chain of operations is one loop, and operations
//! that move elements only change indices. Sizes need not be powers of two. Results of reductions
//! are in shared memory (`reductions`). The threads of a program share the elements of a new state
//! of an output, and write them at the end of a program (`writes`). Sequential axes of the grid are
//! loops (`grid`), over which scratch memory stays in shared memory.
//!
//! Elementwise operations, reductions, operations that move elements, and conditions have a form
//! here. Matrix products, loops in the body, cumulative operations and sorts do not, and are
//! refused when the kernel is traced.
//!
//! The plugin ends the process or compiles a wrong program for some mistakes: `check` refuses them,
//! and the runtime makes the hash of the call depend on the GPU. The kernels compile for A100,
//! H100 and B200. They have not run on a GPU.

mod arithmetic;
pub(super) mod check;
mod element;
mod emitter;
mod grid;
mod indices;
mod program;
mod reductions;
mod text;
mod types;
mod value;
mod writes;

use super::kernel_call::KernelCall;
use super::triton::{GpuCall, escaped};
use crate::core::{Aval, Loc, LowerCtx, RuleError, RuleResult};
use crate::stablehlo::Value;
use emitter::Emitter;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// The bytes of shared memory of a program on an A100, less than on later GPUs, without 1,024 that
/// the compiler may need.
const SHARED_LIMIT: usize = 165_888;

/// Writes the text of a kernel.
///
/// # Errors
/// The first operation that has no form here, or a limit that the kernel exceeds, with its line.
pub(super) fn emit(kernel: &KernelCall) -> Result<String, (RuleError, Loc)> {
    Emitter::new(kernel).run()
}

/// Writes a call of the kernel.
///
/// # Errors
/// As [`emit`].
pub(super) fn lower(
    kernel: &KernelCall,
    ctx: &mut LowerCtx<'_>,
    operands: &[Value],
) -> RuleResult<Vec<Value>> {
    let text = emit(kernel).map_err(|(error, loc)| {
        ctx.set_refused_at(loc);
        error
    })?;
    let config = format!(
        "kernel_hash = \"{}\", module = \"{}\", use_custom_barrier = false",
        hash(&text),
        escaped(&text)
    );
    let call = GpuCall { target: "mosaic_gpu_v2", config, workspaces: &[] };
    Ok(call.write(kernel, ctx, operands))
}

/// Returns 32 bytes that identify a text in the process, as a string of MLIR.
fn hash(text: &str) -> String {
    let mut bytes = String::new();
    for part in 0..4u8 {
        let mut hasher = DefaultHasher::new();
        (part, text).hash(&mut hasher);
        for byte in hasher.finish().to_le_bytes() {
            write!(bytes, "\\{byte:02X}").expect("strings take any text");
        }
    }
    bytes
}

/// Returns a name that the text accepts.
fn function_name(name: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let plain = name.chars().map(|of| if is_plain(of) { of } else { '_' });
    format!("kernel_{}", plain.collect::<String>())
}

/// Refuses an operation.
fn unsupported(name: &str, operands: &[Aval]) -> RuleError {
    let operands: Vec<String> = operands.iter().map(Aval::to_string).collect();
    RuleError::unsupported(format!(
        "kernels of Mosaic GPU do not have the operation `{name}` on {}",
        operands.join(", ")
    ))
    .help(
        "compile the kernel with Triton, by `GpuBackend::Triton`, or compute it outside of the \
         kernel",
    )
}
