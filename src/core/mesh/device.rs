//! [`Device`]: the description of a device.

use super::placement::DeviceId;
use super::platform_id::PlatformId;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A device of this process, or of another process of the same program.
///
/// Two are equal if their platforms and numbers are. Prints as `cpu:3`.
/// [`devices`](crate::parallel::devices()) lists them.
#[derive(Clone, Debug)]
pub struct Device(Arc<Facts>);

#[derive(Clone, Debug)]
struct Facts {
    id: DeviceId,
    process_index: i32,
    slice_index: i64,
    coordinates: Vec<i64>,
    core_on_chip: i64,
    kind: String,
    local: bool,
    absent: bool,
}

impl Facts {
    /// Returns what is known of a device from its id alone.
    fn of(id: DeviceId) -> Facts {
        Facts {
            id,
            process_index: 0,
            slice_index: 0,
            coordinates: Vec::new(),
            core_on_chip: 0,
            kind: String::new(),
            local: false,
            absent: false,
        }
    }
}

impl Device {
    /// Platform of the devices of a mesh made without devices.
    pub(crate) const ABSENT: &str = "absent";

    /// Creates a description. `local` devices belong to this process.
    pub(crate) fn new(
        id: i32,
        process_index: i32,
        platform: &str,
        kind: &str,
        local: bool,
    ) -> Device {
        Device(Arc::new(Facts {
            process_index,
            kind: kind.to_string(),
            local,
            ..Facts::of(DeviceId(id, PlatformId::of(platform)))
        }))
    }

    /// Returns this device with its chip's coordinates in the slice and its index on the chip.
    pub(crate) fn at(self, coordinates: Vec<i64>, core_on_chip: i64) -> Device {
        Device(Arc::new(Facts { coordinates, core_on_chip, ..Arc::unwrap_or_clone(self.0) }))
    }

    /// Returns this device in another slice.
    pub(crate) fn in_slice(self, slice_index: i64) -> Device {
        Device(Arc::new(Facts { slice_index, ..Arc::unwrap_or_clone(self.0) }))
    }

    /// Marks the device as absent: programs can be compiled for it, but it stores no arrays.
    pub(crate) fn absent(self) -> Device {
        Device(Arc::new(Facts { absent: true, ..Arc::unwrap_or_clone(self.0) }))
    }

    /// Returns true if the device is absent, so that programs can only be compiled for it.
    pub(crate) fn is_absent(&self) -> bool {
        self.0.absent
    }

    /// Returns the id: a number that is unique among the platform's devices in all processes, and
    /// the platform.
    pub fn id(&self) -> DeviceId {
        self.0.id
    }

    /// Returns the index of the process that the device belongs to.
    pub fn process_index(&self) -> i32 {
        self.0.process_index
    }

    /// Returns the index of the TPU slice, or of the group of GPU hosts with a fast network, that
    /// the device belongs to; 0 if there is only one.
    /// Devices of one slice have fast links to each other.
    pub fn slice_index(&self) -> i64 {
        self.0.slice_index
    }

    /// Returns the coordinates of the device's chip in its TPU slice: x, y and z. Empty on other
    /// platforms.
    #[doc(alias = "coords")]
    pub fn coordinates(&self) -> &[i64] {
        &self.0.coordinates
    }

    /// Returns the index of the device on its chip, 0 if the chip is one device.
    pub fn core_on_chip(&self) -> i64 {
        self.0.core_on_chip
    }

    /// Returns the platform: `cpu`, `cuda`, `tpu`, or the name of a registered plugin.
    pub fn platform(&self) -> &str {
        self.0.id.platform()
    }

    /// Returns the plugin's name for the device type, such as `TPU v5 lite`.
    #[doc(alias = "device_kind")]
    pub fn kind(&self) -> &str {
        &self.0.kind
    }

    /// Returns true if the device belongs to this process, which can then read arrays on it.
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
        self.id().fmt(f)
    }
}

impl Serialize for Device {
    /// Serializes the id.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.id().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Device {
    /// Returns a device with only an id, as programs print it.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Device, D::Error> {
        let id = DeviceId::deserialize(deserializer)?;
        let absent = id.platform() == Device::ABSENT;
        Ok(Device(Arc::new(Facts { absent, ..Facts::of(id) })))
    }
}
