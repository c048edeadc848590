//! Rules of Triton that are checked when a kernel is traced. The compiler ends the process if a
//! kernel violates some of them.

use super::MAX_ELEMENTS;
use super::ir::{check_dtype, padded};
use crate::core::{Aval, RuleError, RuleResult};
use crate::kernel::kernel_call::{BlockMapping, KernelCall};

/// The most warps of one program.
const MAX_WARPS: u32 = 32;

/// Checks the options and the scratch memory of a kernel.
pub(in crate::kernel) fn kernel(kernel: &KernelCall) -> RuleResult<()> {
    if let Some(count) = kernel.options.num_warps
        && (!count.is_power_of_two() || count > MAX_WARPS)
    {
        return Err(RuleError::value(format!("{count} warps per program on a GPU"))
            .help("set `KernelOptions::num_warps` to a power of two up to 32"));
    }
    if kernel.options.num_stages == Some(0) {
        return Err(RuleError::value("0 stages of pipelining on a GPU")
            .help("set `KernelOptions::num_stages` to 1 or more"));
    }
    kernel.scratch.iter().try_for_each(|scratch| block("scratch memory", scratch.aval()))
}

/// Checks the block of an input or output.
pub(in crate::kernel) fn window(window: &BlockMapping) -> RuleResult<()> {
    block("a block", &window.ref_aval())
}

fn block(role: &str, aval: &Aval) -> RuleResult<()> {
    check_dtype(aval.dtype)?;
    if aval.shape.contains(&0) {
        return Err(RuleError::shape(format!("{role} of {aval} on a GPU has no elements")));
    }
    let sizes = padded(&aval.shape);
    let n_elements: usize = sizes.iter().product();
    if n_elements <= MAX_ELEMENTS {
        return Ok(());
    }
    Err(RuleError::shape(format!(
        "{role} of {aval} takes {n_elements} elements on a GPU, where sizes are powers of two, \
         and the most is {MAX_ELEMENTS}"
    ))
    .help("choose smaller blocks; for other platforms alone, set `Kernel::targets`"))
}
