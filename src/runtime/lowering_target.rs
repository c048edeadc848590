//! Targets of lowering, with the workarounds that plugins need.

use crate::core::{Aval, LoweringTarget, RuleError, RuleResult};

/// Returns the target of modules for `platform`. Modules for CPUs run on this host's processor.
pub(crate) fn lowering_target(platform: &str) -> LoweringTarget<'_> {
    let target = LoweringTarget::from(platform);
    match platform {
        "cpu" => target.with_bf16_products(host_multiplies_bf16()),
        "tpu" => target.with_check(refuse_two_bits),
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
