//! Targets of lowering, with the workarounds that plugins need.

use super::compile_scope::{has_loop_kernels, outlines, rewrites};
use super::memory_report::REMEDIES;
use super::refused_kernels;
use crate::core::{Aval, LoweringTarget, Program, RuleError, RuleResult, units};

/// Arrays of CPU programs have fewer bytes than this. XLA's CPU compiler (C API 0.115) divides an
/// elementwise loop into tasks by its cost, and with 2^37 bytes of an expensive operation ends the
/// process on a division by zero.
const MAX_CPU_BYTES: u64 = 1 << 36;

/// Returns the target of modules for `platform`. Modules for CPUs run on this host's processor.
pub(crate) fn lowering_target(platform: &str) -> LoweringTarget<'_> {
    let target = LoweringTarget::from(platform);
    match platform {
        "cpu" => target
            .with_bf16_products(host_multiplies_bf16())
            .with_check(refuse_huge_on_cpu)
            .with_rewrites(rewrites())
            .with_outlining(outlines()),
        "tpu" => target.with_check(refuse_two_bits),
        _ => target,
    }
}

/// Returns the target of the module of a program that runs in this process.
pub(crate) fn target_of<'a>(program: &Program, platform: &'a str) -> LoweringTarget<'a> {
    let target = lowering_target(platform);
    match platform {
        "cpu" if !has_loop_kernels() => target.without_loop_kernels("`disable_loop_kernels`"),
        "cpu" if refused_kernels::contains(program) => {
            target.without_loop_kernels("the compiler refused a kernel of the program")
        }
        "cpu" => target.with_loop_kernels(),
        _ => target,
    }
}

/// Returns true if this host's processor has instructions for products in `bf16`. Processors with
/// AMX also have those of AVX-512.
fn host_multiplies_bf16() -> bool {
    #[cfg(target_arch = "x86_64")]
    let has_instructions = std::arch::is_x86_feature_detected!("avx512bf16");
    #[cfg(not(target_arch = "x86_64"))]
    let has_instructions = true;
    has_instructions
}

/// Refuses operations on arrays for which XLA's CPU compiler ends the process.
fn refuse_huge_on_cpu(operation: &str, avals: &[&Aval]) -> RuleResult<()> {
    // Elements narrower than a byte take a whole one on CPUs.
    let bytes = |aval: &Aval| (aval.size() as u64).saturating_mul(aval.dtype.host_bytes() as u64);
    match avals.iter().find(|aval| bytes(aval) >= MAX_CPU_BYTES) {
        Some(aval) => {
            let (size, limit) = (units::size(bytes(aval)), units::size(MAX_CPU_BYTES));
            let message = format!(
                "{operation}: out of memory: {aval} takes {size}, and XLA's CPU compiler takes \
                 arrays below {limit}"
            );
            Err(RuleError::shape(message).help(REMEDIES))
        }
        None => Ok(()),
    }
}

/// Refuses operations on two-bit elements, on some of which libtpu (0.0.51) aborts the process.
fn refuse_two_bits(operation: &str, avals: &[&Aval]) -> RuleResult<()> {
    match avals.iter().find(|aval| aval.dtype.bits() == 2) {
        Some(aval) => {
            let message = format!("{operation} of {aval}: no two-bit integers on a TPU");
            Err(RuleError::unsupported(message).help("pass it as i4 or u4"))
        }
        None => Ok(()),
    }
}
