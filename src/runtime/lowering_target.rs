//! Targets of lowering, with the workarounds that plugins need.

use super::compile_scope::{has_loop_kernels, has_program_kernels, outlines, rewrites};
use super::memory_report::REMEDIES;
use super::refused_kernels;
use crate::core::{Aval, GpuLimits, LoweringTarget, Program, RuleError, RuleResult, units};

/// Arrays of CPU programs have fewer bytes than this. XLA's CPU compiler (C API 0.115) divides an
/// elementwise loop into tasks by its cost, and with 2^37 bytes of an expensive operation ends the
/// process on a division by zero.
const MAX_CPU_BYTES: u64 = 1 << 36;

/// Arrays of GPU programs have fewer bytes than this, over all devices. XLA's GPU compiler (C API
/// 0.115) ends the process when it plans memory for 2^59 bytes.
const MAX_GPU_BYTES: u64 = 1 << 46;

/// Returns the target of modules for `platform`. Modules for CPUs run on this host's processor.
pub(crate) fn lowering_target(platform: &str) -> LoweringTarget<'_> {
    let target = LoweringTarget::from(platform);
    match platform {
        "cpu" => target
            .with_bf16_products(host_multiplies_bf16())
            .with_check(refuse_huge_on_cpu)
            .with_rewrites(rewrites())
            .with_outlining(outlines()),
        "cuda" => target.with_check(refuse_huge_on_gpu),
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
        "cpu" if has_program_kernels() => target.with_loop_kernels().with_program_kernels(),
        "cpu" => target.with_loop_kernels(),
        _ => target,
    }
}

/// Parts of the kinds of GPUs, with the most shared memory of a block of threads in KiB.
///
/// Source: CUDA C++ programming guide, table of technical specifications by compute capability: 6.0
/// (P100), 7.0 (V100), 8.0 (A100), 8.6 and 8.9 (A6000, L4, L40, RTX), 9.0 (H100, H200) and 10.x
/// (B200, B300).
const SHARED_MEMORY: [(&str, usize); 11] = [
    ("P100", 48),
    ("V100", 96),
    ("A100", 163),
    ("H100", 227),
    ("H200", 227),
    ("B200", 227),
    ("B300", 227),
    ("A6000", 99),
    ("L40", 99),
    ("L4", 99),
    ("RTX", 99),
];

/// Returns the limits of a kind of GPU, if it is known.
pub(super) fn gpu_limits(kind: &str) -> Option<GpuLimits<'_>> {
    let (_, kib) = SHARED_MEMORY.into_iter().find(|(part, _)| kind.contains(part))?;
    Some(GpuLimits { kind, shared_memory: kib << 10 })
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
    refuse_huge(operation, avals, "CPU", MAX_CPU_BYTES)
}

/// Refuses operations on arrays for which XLA's GPU compiler, or cuSOLVER, ends the process.
fn refuse_huge_on_gpu(operation: &str, avals: &[&Aval]) -> RuleResult<()> {
    refuse_huge(operation, avals, "GPU", MAX_GPU_BYTES)?;
    // XLA throws a C++ exception through the C API for a dimension that cuSOLVER cannot count.
    let is_long = |aval: &Aval| aval.shape.iter().any(|size| i32::try_from(*size).is_err());
    match avals.iter().find(|aval| operation == "qr" && is_long(aval)) {
        Some(aval) => {
            let message = format!("{operation} of {aval}: on GPUs both sizes must be below 2^31");
            Err(RuleError::shape(message).help("factorize blocks of the matrix"))
        }
        None => Ok(()),
    }
}

/// Refuses operations on arrays of `limit` bytes or more.
fn refuse_huge(operation: &str, avals: &[&Aval], platform: &str, limit: u64) -> RuleResult<()> {
    // Elements narrower than a byte take a whole one on CPUs.
    let bytes = |aval: &Aval| (aval.size() as u64).saturating_mul(aval.dtype.host_bytes() as u64);
    match avals.iter().find(|aval| bytes(aval) >= limit) {
        Some(aval) => {
            let (size, limit) = (units::size(bytes(aval)), units::size(limit));
            let message = format!(
                "{operation}: out of memory: {aval} takes {size}, and XLA's {platform} compiler \
                 takes arrays below {limit}"
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::DType;

    #[test]
    fn limits_of_gpus_are_found_by_their_kind() {
        let shared = |kind| gpu_limits(kind).map(|gpu| gpu.shared_memory);
        assert_eq!(shared("NVIDIA A100-SXM4-80GB"), Some(166_912));
        assert_eq!(shared("NVIDIA H100 80GB HBM3"), Some(232_448));
        assert_eq!(shared("NVIDIA GB200"), Some(232_448));
        assert_eq!(shared("NVIDIA RTX A6000"), Some(101_376));
        assert_eq!(shared("a GPU of the future"), None);
    }

    #[test]
    fn gpu_programs_with_huge_arrays_are_refused() {
        let of = |operation: &str, shape: [usize; 2]| {
            refuse_huge_on_gpu(operation, &[&Aval::new(DType::F32, shape)])
        };
        let message = |outcome: RuleResult<()>| format!("{:?}", outcome.expect_err("refused"));
        assert!(of("sin", [1 << 31, 3]).is_ok() && of("sin", [4, 1 << 41]).is_ok());
        let huge = message(of("sin", [4, 1 << 48]));
        assert!(huge.contains("XLA's GPU compiler takes arrays below 65536.00 GiB"), "{huge}");
        assert!(of("qr", [(1 << 31) - 1, 3]).is_ok());
        let long = message(of("qr", [1 << 31, 3]));
        assert!(long.contains("below 2^31"), "{long}");
    }
}
