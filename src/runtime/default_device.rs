//! The default device: of a scope, of the process, or the first one of the default platform.

use super::client::{default_runtime, runtime_of};
use crate::core::scoped::scoped;
use crate::core::{DeviceId, Error, PlatformId};
use std::sync::atomic::{AtomicU64, Ordering};

scoped!(
    /// The device chosen by `with_default_device`.
    keyed static DEFAULT_DEVICE: Option<DeviceId> = None
);

/// The device chosen for the process.
static CONFIGURED: AtomicDeviceId = AtomicDeviceId::none();
/// The first device of the default platform, once its client exists.
static FIRST: AtomicDeviceId = AtomicDeviceId::none();

/// An optional device id that threads share.
struct AtomicDeviceId(AtomicU64);

impl AtomicDeviceId {
    /// No id: platforms are numbered from 0, so none has this number.
    const NONE: u64 = u64::MAX;

    const fn none() -> AtomicDeviceId {
        AtomicDeviceId(AtomicU64::new(Self::NONE))
    }

    fn set(&self, id: Option<DeviceId>) {
        let bits = id.map_or(Self::NONE, |DeviceId(number, platform)| {
            u64::from(platform.number()) << 32 | u64::from(number.cast_unsigned())
        });
        self.0.store(bits, Ordering::Release);
    }

    fn get(&self) -> Option<DeviceId> {
        let bits = self.0.load(Ordering::Acquire);
        let platform = PlatformId::from_number((bits >> 32) as u32);
        (bits != Self::NONE).then_some(DeviceId((bits as u32).cast_signed(), platform))
    }
}

/// Returns the id of the device for new arrays and for programs without committed arguments.
///
/// # Errors
/// `Plugin` if there is no usable plugin.
pub(crate) fn default_device() -> Result<DeviceId, Error> {
    match DEFAULT_DEVICE.key().or_else(|| CONFIGURED.get()).or_else(|| FIRST.get()) {
        Some(id) => Ok(id),
        None => Ok(default_runtime()?.first_device()),
    }
}

/// Runs `f` with this default device.
///
/// # Errors
/// `Plugin` if it is not a device of this process.
pub(crate) fn with_default_device<R>(id: DeviceId, f: impl FnOnce() -> R) -> Result<R, Error> {
    runtime_of(id.1)?.device(id)?;
    Ok(DEFAULT_DEVICE.scope(Some(id), f))
}

/// Runs `f` with a default device that is known to be one of this process.
pub(super) fn in_scope_of_device<R>(id: DeviceId, f: impl FnOnce() -> R) -> R {
    DEFAULT_DEVICE.scope(Some(id), f)
}

/// Sets the default device of the process; with `None`, the first one of the default platform.
///
/// # Errors
/// `Plugin` if it is not a device of this process.
pub(crate) fn set_default_device(id: Option<DeviceId>) -> Result<(), Error> {
    if let Some(id) = id {
        runtime_of(id.1)?.device(id)?;
    }
    CONFIGURED.set(id);
    Ok(())
}

/// Returns the device set with [`set_default_device`].
pub(crate) fn configured_device() -> Option<DeviceId> {
    CONFIGURED.get()
}

/// Returns the first device of the default platform, if its client exists.
pub(super) fn first() -> Option<DeviceId> {
    FIRST.get()
}

/// Records the first device of the default platform.
pub(super) fn set_first(id: DeviceId) {
    FIRST.set(Some(id));
}

/// Forgets the first device, because the default platform changes.
pub(super) fn forget_first() {
    FIRST.set(None);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_survive_the_atomic() {
        let atomic = AtomicDeviceId::none();
        assert_eq!(atomic.get(), None);
        for id in [0, 7, -1, i32::MAX, i32::MIN] {
            let id = DeviceId(id, PlatformId::of("cpu"));
            atomic.set(Some(id));
            assert_eq!(atomic.get(), Some(id));
        }
        atomic.set(None);
        assert_eq!(atomic.get(), None);
    }
}
