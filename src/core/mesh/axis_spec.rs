//! [`AxisSpec`]: the sharding of one axis of an array.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// The sharding of one axis of an array: over no mesh axis, over one, over several combined, or
/// left to the compiler.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AxisSpec {
    /// The mesh axes, of which the first varies slowest. Empty if the axis is not sharded.
    Axes(Vec<String>),
    /// The compiler chooses; see
    /// [`PartitionSpec::UNCONSTRAINED`](crate::core::PartitionSpec::UNCONSTRAINED).
    Unconstrained,
}

/// The text of an unconstrained axis.
const UNCONSTRAINED: &str = "UNCONSTRAINED";

impl AxisSpec {
    /// Returns the mesh axes, the first of which varies slowest. Empty for an unconstrained axis.
    ///
    /// ```
    /// use oxidax::core::AxisSpec;
    /// assert_eq!(AxisSpec::from(["data", "model"]).names(), ["data", "model"]);
    /// assert!(AxisSpec::Unconstrained.names().is_empty());
    /// ```
    pub fn names(&self) -> &[String] {
        match self {
            AxisSpec::Axes(names) => names,
            AxisSpec::Unconstrained => &[],
        }
    }
}

impl Default for AxisSpec {
    /// Returns the spec of an axis that is not sharded.
    fn default() -> AxisSpec {
        AxisSpec::Axes(Vec::new())
    }
}

impl Serialize for AxisSpec {
    /// Serializes the list of mesh axes, or the text `UNCONSTRAINED`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            AxisSpec::Axes(names) => names.serialize(serializer),
            AxisSpec::Unconstrained => serializer.serialize_str(UNCONSTRAINED),
        }
    }
}

impl<'de> Deserialize<'de> for AxisSpec {
    /// Deserializes what [`AxisSpec::serialize`] writes.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<AxisSpec, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Axes(Vec<String>),
            Text(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Axes(names) => Ok(AxisSpec::Axes(names)),
            Written::Text(text) if text == UNCONSTRAINED => Ok(AxisSpec::Unconstrained),
            Written::Text(text) => Err(serde::de::Error::custom(format!(
                "`{text}` is not the spec of an axis: a list of names, or {UNCONSTRAINED}"
            ))),
        }
    }
}

impl From<&str> for AxisSpec {
    fn from(name: &str) -> AxisSpec {
        AxisSpec::Axes(vec![name.into()])
    }
}

impl From<String> for AxisSpec {
    fn from(name: String) -> AxisSpec {
        AxisSpec::Axes(vec![name])
    }
}

impl From<&String> for AxisSpec {
    fn from(name: &String) -> AxisSpec {
        AxisSpec::Axes(vec![name.clone()])
    }
}

impl<T: Into<AxisSpec>> From<Option<T>> for AxisSpec {
    fn from(name: Option<T>) -> AxisSpec {
        name.map(Into::into).unwrap_or_default()
    }
}

impl<const N: usize> From<[&str; N]> for AxisSpec {
    fn from(names: [&str; N]) -> AxisSpec {
        AxisSpec::Axes(names.iter().map(ToString::to_string).collect())
    }
}

impl From<(&str, &str)> for AxisSpec {
    fn from((outer, inner): (&str, &str)) -> AxisSpec {
        AxisSpec::from([outer, inner])
    }
}

impl From<Vec<String>> for AxisSpec {
    fn from(names: Vec<String>) -> AxisSpec {
        AxisSpec::Axes(names)
    }
}

impl fmt::Display for AxisSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AxisSpec::Unconstrained => f.write_str(UNCONSTRAINED),
            AxisSpec::Axes(names) => match names.as_slice() {
                [] => f.write_str("None"),
                [one] => write!(f, "{one:?}"),
                many => write!(f, "{many:?}"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_deserialize_as_serialized() {
        for spec in [AxisSpec::default(), ["a", "b"].into(), AxisSpec::Unconstrained] {
            let text = serde_json::to_string(&spec).unwrap_or_default();
            assert_eq!(serde_json::from_str::<AxisSpec>(&text).ok(), Some(spec), "{text}");
        }
        assert!(serde_json::from_str::<AxisSpec>("\"a\"").is_err());
    }
}
