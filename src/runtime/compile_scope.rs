//! [`CompileScope`]: the scoped settings that compiled programs depend on.

use super::default_device::default_device;
use crate::core::scoped::scoped;
use crate::core::{DeviceId, Error};

scoped!(
    /// False inside `disable_most_optimizations`.
    keyed static OPTIMIZES: bool = true
);

/// The values of the `keyed` settings while a program is compiled. A cache of compiled programs has
/// it in its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CompileScope {
    default_device: DeviceId,
    optimizes: bool,
}

impl CompileScope {
    /// Returns the values in force on this thread.
    ///
    /// # Errors
    /// `Plugin` if there is no usable plugin.
    pub(crate) fn current() -> Result<CompileScope, Error> {
        Ok(CompileScope { default_device: default_device()?, optimizes: optimizes() })
    }
}

/// Returns false inside [`disable_most_optimizations`].
pub(super) fn optimizes() -> bool {
    OPTIMIZES.key()
}

/// Compiles the programs that `f` uses with few optimizations on CPUs and GPUs. They compile faster
/// and run slower. On the CPU, the law tests of primitives take about three quarters of the time.
///
/// The setting holds on this thread while `f` runs. Programs that were compiled with other settings
/// are not reused. It has no effect on TPUs.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::jit::disable_most_optimizations;
/// let y = disable_most_optimizations(|| sin(&ones([3])));
/// assert!((y.to_vec::<f32>()?[0] - 1.0f32.sin()).abs() < 1e-6);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "jax_disable_most_optimizations")]
pub fn disable_most_optimizations<R>(f: impl FnOnce() -> R) -> R {
    OPTIMIZES.scope(false, f)
}
