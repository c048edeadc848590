//! [`Device`]: the name and the facts of a device, without the device.

use super::placement::DeviceId;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A device of the process's client, or one that belongs to another process of the same program.
///
/// Two are equal if their numbers are. Prints as `cpu:3`. [`devices`](crate::parallel::devices()) lists them.
#[derive(Clone, Debug)]
pub struct Device(Arc<Facts>);

#[derive(Clone, Debug)]
struct Facts {
    id: i32,
    process_index: i32,
    slice_index: i64,
    platform: String,
    kind: String,
    local: bool,
    absent: bool,
}

impl Device {
    /// A device by its facts; `local` says whether it is this process's own.
    pub(crate) fn new(
        id: i32,
        process_index: i32,
        platform: &str,
        kind: &str,
        local: bool,
    ) -> Device {
        let (platform, kind) = (platform.to_string(), kind.to_string());
        let (slice_index, absent) = (0, false);
        Device(Arc::new(Facts { id, process_index, slice_index, platform, kind, local, absent }))
    }

    /// The same in another slice.
    pub(crate) fn in_slice(self, slice_index: i64) -> Device {
        Device(Arc::new(Facts { slice_index, ..Arc::unwrap_or_clone(self.0) }))
    }

    /// The same, but described only: programs can be compiled for it, nothing can be put on it.
    pub(crate) fn absent(self) -> Device {
        Device(Arc::new(Facts { absent: true, ..Arc::unwrap_or_clone(self.0) }))
    }

    /// Whether it is described only.
    pub(crate) fn is_absent(&self) -> bool {
        self.0.absent
    }

    /// Its number, unique among all devices of all processes.
    pub fn id(&self) -> DeviceId {
        DeviceId(self.0.id)
    }

    /// The process that it belongs to, from 0.
    pub fn process_index(&self) -> i32 {
        self.0.process_index
    }

    /// The slice of TPUs that it belongs to, from 0: devices of one slice have fast links to each other. 0 where there is but
    /// one.
    pub fn slice_index(&self) -> i64 {
        self.0.slice_index
    }

    /// `cpu`, `cuda` or `tpu`.
    pub fn platform(&self) -> &str {
        &self.0.platform
    }

    /// What the plugin calls it: `TPU v5 lite`, say.
    #[doc(alias = "device_kind")]
    pub fn kind(&self) -> &str {
        &self.0.kind
    }

    /// Whether it is this process's own, so that arrays on it can be read.
    #[doc(alias = "is_addressable")]
    pub fn is_local(&self) -> bool {
        self.0.local
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Device) -> bool {
        self.id() == other.id()
    }
}

impl Eq for Device {}

impl Hash for Device {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id().hash(state);
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.platform(), self.id())
    }
}

impl Serialize for Device {
    /// Its number.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.id().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Device {
    /// A device of which only the number is known, as programs print it.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Device, D::Error> {
        let id = i32::deserialize(deserializer)?;
        Ok(Device::new(id, 0, "device", "", false))
    }
}
