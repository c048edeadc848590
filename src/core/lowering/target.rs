//! [`LoweringTarget`]: the platform that a module is lowered for.

use crate::core::error::RuleResult;
use crate::core::types::aval::Aval;

/// Rejects operations that the target's compiler does not support, by name and by the avals of
/// operands and results.
pub(crate) type OperationCheck = fn(&str, &[&Aval]) -> RuleResult<()>;

/// The platform that a module is lowered for, with what is known of its processor and its compiler.
///
/// Lowering depends on the target only, never on the machine that lowers. A platform's name is a
/// target without known features: `LoweringTarget::from("cpu")`.
#[derive(Clone, Copy, Debug)]
pub struct LoweringTarget<'a> {
    platform: &'a str,
    has_bf16_products: bool,
    rewrites: bool,
    outlines: bool,
    /// The reason why no loop is lowered as a kernel, if none is.
    loop_kernels: Result<(), &'static str>,
    program_kernels: bool,
    check: Option<OperationCheck>,
    gpu: Option<GpuLimits<'a>>,
}

/// Limits of the GPU that a module is lowered for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GpuLimits<'a> {
    /// The kind of the GPU: `NVIDIA A100-SXM4-80GB`.
    pub(crate) kind: &'a str,
    /// The most bytes of shared memory of a program, which are those of a block of threads.
    pub(crate) shared_memory: usize,
}

impl<'a> LoweringTarget<'a> {
    /// Sets whether a CPU has instructions for products in `bf16`. By default it has none.
    #[must_use]
    pub fn with_bf16_products(mut self, has_instructions: bool) -> LoweringTarget<'a> {
        self.has_bf16_products = has_instructions;
        self
    }

    /// Sets whether programs are rewritten for the target's compiler. By default they are for CPUs.
    #[must_use]
    pub(crate) fn with_rewrites(mut self, rewrites: bool) -> LoweringTarget<'a> {
        self.rewrites = rewrites;
        self
    }

    /// Sets whether repeated parts of a program become functions that the compiler does not inline.
    #[must_use]
    pub(crate) fn with_outlining(mut self, outlines: bool) -> LoweringTarget<'a> {
        self.outlines = outlines;
        self
    }

    /// Lowers small loops as one kernel each, which XLA's CPU compiler supports.
    #[must_use]
    pub fn with_loop_kernels(mut self) -> LoweringTarget<'a> {
        self.loop_kernels = Ok(());
        self
    }

    /// Lowers all loops operation by operation, for this reason.
    #[must_use]
    pub(crate) fn without_loop_kernels(mut self, reason: &'static str) -> LoweringTarget<'a> {
        self.loop_kernels = Err(reason);
        self
    }

    /// Lowers a small program without loops as one kernel, if small loops are.
    #[must_use]
    pub(crate) fn with_program_kernels(mut self) -> LoweringTarget<'a> {
        self.program_kernels = true;
        self
    }

    /// Sets the limits of the GPU, if its kind is known.
    #[must_use]
    pub(crate) fn with_gpu(mut self, gpu: Option<GpuLimits<'a>>) -> LoweringTarget<'a> {
        self.gpu = gpu;
        self
    }

    /// Sets a check of every operation before it is lowered.
    #[must_use]
    pub(crate) fn with_check(mut self, check: OperationCheck) -> LoweringTarget<'a> {
        self.check = Some(check);
        self
    }

    /// Returns the platform: `cpu`, `cuda` or `tpu`.
    pub fn platform(&self) -> &'a str {
        self.platform
    }

    /// Returns true if the target is known to have instructions for products in `bf16`. Unknown for
    /// platforms other than `cpu`, which choose them on their own.
    pub fn has_bf16_products(&self) -> bool {
        self.has_bf16_products
    }

    /// Returns `Ok` if small loops are lowered as one kernel each.
    ///
    /// # Errors
    /// The reason why none is.
    pub(crate) fn loop_kernels(&self) -> Result<(), &'static str> {
        self.loop_kernels
    }

    /// Returns true if a small program without loops is lowered as one kernel.
    pub(crate) fn program_kernels(&self) -> bool {
        self.program_kernels
    }

    /// Returns true if the compiler has the exchange of slices of different sizes. XLA's CPU
    /// compiler (C API 0.115) does not.
    pub fn has_ragged_all_to_all(&self) -> bool {
        matches!(self.platform, "cuda" | "tpu")
    }

    /// Returns true if programs are rewritten for XLA's CPU compiler.
    pub(crate) fn rewrites(&self) -> bool {
        self.rewrites
    }

    /// Returns true if repeated parts of a program become functions.
    pub(crate) fn outlines(&self) -> bool {
        self.outlines
    }

    /// Returns the limits of the GPU, if its kind is known.
    pub(crate) fn gpu(&self) -> Option<GpuLimits<'a>> {
        self.gpu
    }

    /// Returns the check of operations.
    pub(crate) fn check(&self) -> Option<OperationCheck> {
        self.check
    }
}

impl<'a> From<&'a str> for LoweringTarget<'a> {
    fn from(platform: &'a str) -> LoweringTarget<'a> {
        LoweringTarget {
            platform,
            has_bf16_products: false,
            rewrites: platform == "cpu",
            outlines: false,
            loop_kernels: Err("the target has no kernels of loops"),
            program_kernels: false,
            check: None,
            gpu: None,
        }
    }
}
