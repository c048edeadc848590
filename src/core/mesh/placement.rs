//! [`Placement`]: the device or the sharding that an array is stored with.

use super::mesh::Mesh;
use super::partition::NamedSharding;
use super::platform_id::PlatformId;
use serde::de::{Error as _, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// The id of a device: its number, unique among the devices of its platform in all processes, and
/// the platform. Prints as `cpu:3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(
    /// The number.
    pub i32,
    pub(crate) PlatformId,
);

impl DeviceId {
    /// Returns the platform: `cpu`, `cuda`, `tpu`, or the name of a registered plugin.
    pub fn platform(self) -> &'static str {
        self.1.name()
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.1, self.0)
    }
}

impl Serialize for DeviceId {
    /// Serializes the text `cpu:3`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DeviceId {
    /// Deserializes the text `cpu:3`, or a number, which is a device of the default platform.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<DeviceId, D::Error> {
        struct Id;
        impl Visitor<'_> for Id {
            type Value = DeviceId;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a device, as `cpu:3`")
            }
            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<DeviceId, E> {
                let invalid = |_| E::invalid_value(Unexpected::Signed(number), &self);
                Ok(DeviceId(i32::try_from(number).map_err(invalid)?, PlatformId::UNSPECIFIED))
            }
            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<DeviceId, E> {
                let invalid = |_| E::invalid_value(Unexpected::Unsigned(number), &self);
                Ok(DeviceId(i32::try_from(number).map_err(invalid)?, PlatformId::UNSPECIFIED))
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<DeviceId, E> {
                let parts = text.rsplit_once(':').filter(|(name, _)| is_platform_name(name));
                let id = parts.and_then(|(name, number)| {
                    Some(DeviceId(number.parse().ok()?, PlatformId::of(name)))
                });
                id.ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(Id).map_err(D::Error::custom)
    }
}

/// Returns true if `name` can be the name of a platform: 1 to 32 lower-case letters, digits, `_`
/// and `-`.
pub(crate) fn is_platform_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c);
    (1..=32).contains(&name.len()) && name.chars().all(is_allowed)
}

/// The devices that an array is stored on: one device, or a mesh with a sharding.
///
/// ```
/// # oxidax::parallel::set_cpu_devices(8)?;
/// use oxidax::parallel::Placement;
/// use oxidax::prelude::*;
/// let mesh = Mesh::new(devices()?, [("data", 8)])?;
/// let rows = mesh.sharding(p!["data"])?;
/// let x = device_put(&ones([16]), &rows)?;
/// assert_eq!(x.placement(), Some(Placement::Mesh(rows)));
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Placement {
    /// The whole array, on one device.
    #[doc(alias = "SingleDeviceSharding")]
    Device(DeviceId),
    /// Shards or copies of the array, on the devices of a mesh.
    Mesh(NamedSharding),
}

impl Placement {
    /// The sharding; `None` on one device.
    pub fn sharding(&self) -> Option<&NamedSharding> {
        match self {
            Placement::Device(_) => None,
            Placement::Mesh(sharding) => Some(sharding),
        }
    }

    /// The mesh; `None` on one device.
    pub fn mesh(&self) -> Option<&Mesh> {
        self.sharding().map(NamedSharding::mesh)
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Placement::Device(id) => id.fmt(f),
            Placement::Mesh(sharding) => sharding.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_ids_parse_as_printed() {
        let id = DeviceId(3, PlatformId::of("cpu"));
        let text = serde_json::to_string(&id).unwrap_or_default();
        assert_eq!(text, "\"cpu:3\"");
        let parse = |text: &str| serde_json::from_str::<DeviceId>(text).ok();
        assert_eq!(parse(&text), Some(id));
        assert_eq!(parse("3"), Some(DeviceId(3, PlatformId::UNSPECIFIED)));
        for wrong in ["\"3\"", "\":3\"", "\"CPU:3\"", "\"cpu:x\"", "4294967296", "null"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
