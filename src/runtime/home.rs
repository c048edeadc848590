//! Where arrays lie: on one device, or in shards on the devices of a mesh.

use super::buffer::OnDevice;
use super::client::runtime;
use super::shards::Shards;
use crate::core::{Array, Buffer, Device, Error, Kind, NamedSharding};
use std::cell::Cell;
use std::sync::Arc;

thread_local! {
    /// The device that a scope chose for arrays of which nothing is said.
    static DEFAULT: Cell<Option<i32>> = const { Cell::new(None) };
}

/// Where an array is to lie.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Home {
    /// On the device of this number.
    Device(i32),
    /// Spread over a mesh.
    Mesh(NamedSharding),
}

/// Where an array lies, as the key of a compiled program has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Lies {
    /// Where nobody put it: it may be moved to where the others are.
    Anywhere,
    /// Where somebody put it.
    At(Home),
}

impl Lies {
    /// Where a buffer lies.
    pub(crate) fn of(buffer: &Arc<dyn Buffer>) -> Lies {
        match place(buffer) {
            Place::Device(OnDevice { committed: false, .. }) => Lies::Anywhere,
            Place::Device(OnDevice { device, .. }) => Lies::At(Home::Device(*device)),
            Place::Mesh(shards) => Lies::At(Home::Mesh(shards.sharding().clone())),
        }
    }

    /// Whether a buffer lies so.
    pub(crate) fn is_of(&self, buffer: &Arc<dyn Buffer>) -> bool {
        match (self, place(buffer)) {
            (Lies::Anywhere, Place::Device(on)) => !on.committed,
            (Lies::At(Home::Device(id)), Place::Device(on)) => on.committed && on.device == *id,
            (Lies::At(Home::Mesh(sharding)), Place::Mesh(shards)) => shards.sharding() == sharding,
            _ => false,
        }
    }
}

impl Home {
    /// Whether a buffer lies here.
    #[inline]
    pub(crate) fn is_of(&self, buffer: &Arc<dyn Buffer>) -> bool {
        match (self, place(buffer)) {
            (Home::Device(id), Place::Device(on)) => on.device == *id,
            (Home::Mesh(sharding), Place::Mesh(shards)) => shards.sharding() == sharding,
            _ => false,
        }
    }
}

impl std::fmt::Display for Home {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Home::Device(id) => write!(f, "device {id}"),
            Home::Mesh(sharding) => sharding.fmt(f),
        }
    }
}

/// A buffer as what it is.
pub(super) enum Place<'a> {
    Device(&'a OnDevice),
    Mesh(&'a Shards),
}

#[inline]
pub(super) fn place(buffer: &Arc<dyn Buffer>) -> Place<'_> {
    let any = (**buffer).as_any();
    match any.downcast_ref::<OnDevice>() {
        Some(on) => Place::Device(on),
        None => Place::Mesh(any.downcast_ref().expect("the runtime made every buffer")),
    }
}

/// Where a concrete array lies; `None` for a traced one.
pub(crate) fn home_of(array: &Array) -> Option<Home> {
    let Kind::Concrete(buffer) = &array.kind else { return None };
    Some(match place(buffer) {
        Place::Device(on) => Home::Device(on.device),
        Place::Mesh(shards) => Home::Mesh(shards.sharding().clone()),
    })
}

/// The number of the device that arrays go to where nothing is said.
///
/// # Errors
/// `Plugin` if there is no usable plugin.
pub(crate) fn default_device() -> Result<i32, Error> {
    match DEFAULT.get() {
        Some(id) => Ok(id),
        None => Ok(runtime()?.local[0].id()),
    }
}

/// Runs `f` with arrays of which nothing is said on this device.
///
/// # Errors
/// `Plugin` if it is not one of this process's.
pub(crate) fn with_default_device<R>(id: i32, f: impl FnOnce() -> R) -> Result<R, Error> {
    struct Restore(Option<i32>);
    impl Drop for Restore {
        fn drop(&mut self) {
            DEFAULT.set(self.0);
        }
    }
    runtime()?.device(id)?;
    let _restore = Restore(DEFAULT.replace(Some(id)));
    Ok(f())
}

/// All devices of all processes, or those of this one.
///
/// # Errors
/// `Plugin` if there is no usable plugin.
pub(crate) fn devices() -> Result<&'static [Device], Error> {
    Ok(&runtime()?.devices)
}

/// The platform that arrays go to: `cpu`, `cuda`, `tpu`.
///
/// # Errors
/// `Plugin` if there is no usable plugin.
pub(crate) fn platform() -> Result<&'static str, Error> {
    Ok(&runtime()?.platform)
}

/// The device of this number.
///
/// # Errors
/// `Plugin` if there is none.
pub(crate) fn device_of(id: i32) -> Result<Device, Error> {
    let runtime = runtime()?;
    let known = || Error::Plugin(format!("there is no device {id}"));
    runtime.facts(id).cloned().ok_or_else(known)
}
