//! The allocator of the CPU client's large memory blocks.

use crate::core::Error;
use oxidax_pjrt::{Plugin, host_pool};
use std::sync::{Mutex, PoisonError};

/// The allocator of large blocks of CPU memory: temporary memory of programs, results, and arrays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CpuMalloc {
    /// A pool that keeps freed blocks of 1 MiB or more for the next call and requests huge pages,
    /// so that a step causes no page faults. The process's memory stays at its peak, but the kernel
    /// may reclaim large idle ranges. Needs Linux with glibc; elsewhere the default has no effect.
    #[default]
    Pool,
    /// The C library's `malloc`, which returns large blocks to the system after each call.
    System,
}

impl CpuMalloc {
    /// Parses the value of `OXIDAX_CPU_MALLOC`.
    ///
    /// # Errors
    /// `Plugin` if it is not `pool` or `system`.
    pub(super) fn from_variable(text: Option<&str>) -> Result<Option<CpuMalloc>, Error> {
        match text.map(str::trim) {
            None | Some("") => Ok(None),
            Some("pool") => Ok(Some(CpuMalloc::Pool)),
            Some("system") => Ok(Some(CpuMalloc::System)),
            Some(text) => Err(Error::Plugin(format!(
                "OXIDAX_CPU_MALLOC is `{text}`; it must be `pool` or `system`"
            ))),
        }
    }
}

/// The allocator that the program chose.
static CHOSEN: Mutex<Option<CpuMalloc>> = Mutex::new(None);

/// Returns the allocator that the program chose, else that of the environment.
pub(super) fn choice(environment: Option<CpuMalloc>) -> Option<CpuMalloc> {
    CHOSEN.lock().unwrap_or_else(PoisonError::into_inner).or(environment)
}

/// Stores the program's choice, and applies it to the CPU plugin if it is loaded.
///
/// # Errors
/// `Plugin` if the plugin cannot use a pool. The choice is then not stored.
pub(super) fn choose(malloc: CpuMalloc, plugin: Option<Plugin>) -> Result<(), Error> {
    if let Some(plugin) = plugin {
        apply(plugin, Some(malloc))?;
    }
    *CHOSEN.lock().unwrap_or_else(PoisonError::into_inner) = Some(malloc);
    Ok(())
}

/// Makes the plugin use the allocator for blocks that it allocates from now on.
///
/// # Errors
/// `Plugin` if a pool was chosen and the plugin cannot use it. Without a choice it then uses the
/// system's allocator.
pub(super) fn apply(plugin: Plugin, choice: Option<CpuMalloc>) -> Result<(), Error> {
    if choice == Some(CpuMalloc::System) {
        host_pool::set_enabled(false);
        return Ok(());
    }
    match (plugin.use_host_pool(), choice) {
        (Ok(()), _) => host_pool::set_enabled(true),
        (Err(error), None) => tracing::debug!(%error, "the CPU plugin allocates from the system"),
        (Err(error), Some(_)) => {
            return Err(Error::Plugin(format!(
                "{error}\n  help: OXIDAX_CPU_MALLOC=system or `CpuMalloc::System` uses the C \
                 library's allocator"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_name_of_an_allocator_is_an_error() {
        let parse = |text| CpuMalloc::from_variable(text).map_err(|error| error.to_string());
        assert_eq!(parse(None), Ok(None));
        assert_eq!(parse(Some(" ")), Ok(None));
        assert_eq!(parse(Some("pool")), Ok(Some(CpuMalloc::Pool)));
        assert_eq!(parse(Some("system")), Ok(Some(CpuMalloc::System)));
        let error = parse(Some("jemalloc")).expect_err("not an allocator of ours");
        assert!(error.contains("`jemalloc`; it must be `pool` or `system`"), "{error}");
    }
}
