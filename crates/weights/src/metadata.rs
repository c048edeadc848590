//! [`MetadataValue`]: values beside the tensors of a file.

use std::fmt;

/// A value of a file's metadata.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum MetadataValue {
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An integer beyond the range of `i64`.
    Unsigned(u64),
    /// A number.
    Float(f64),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<MetadataValue>),
}

impl MetadataValue {
    /// Returns an integer that is not negative.
    pub fn as_usize(&self) -> Option<usize> {
        match *self {
            MetadataValue::Int(value) => usize::try_from(value).ok(),
            MetadataValue::Unsigned(value) => usize::try_from(value).ok(),
            _ => None,
        }
    }

    /// Returns a number.
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            MetadataValue::Float(value) => Some(value),
            MetadataValue::Int(value) => Some(value as f64),
            MetadataValue::Unsigned(value) => Some(value as f64),
            _ => None,
        }
    }

    /// Returns text.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            MetadataValue::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl fmt::Display for MetadataValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MetadataValue::Bool(value) => value.fmt(f),
            MetadataValue::Int(value) => value.fmt(f),
            MetadataValue::Unsigned(value) => value.fmt(f),
            MetadataValue::Float(value) => value.fmt(f),
            MetadataValue::Text(text) => write!(f, "{text:?}"),
            MetadataValue::List(values) => {
                const SHOWN: usize = 4;
                f.write_str("[")?;
                for (index, value) in values.iter().take(SHOWN).enumerate() {
                    let separator = if index == 0 { "" } else { ", " };
                    write!(f, "{separator}{value}")?;
                }
                let left = values.len().saturating_sub(SHOWN);
                if left > 0 {
                    write!(f, ", … {left} more")?;
                }
                f.write_str("]")
            }
        }
    }
}

impl From<&str> for MetadataValue {
    fn from(text: &str) -> MetadataValue {
        MetadataValue::Text(text.to_owned())
    }
}

impl From<i64> for MetadataValue {
    fn from(value: i64) -> MetadataValue {
        MetadataValue::Int(value)
    }
}

impl From<f64> for MetadataValue {
    fn from(value: f64) -> MetadataValue {
        MetadataValue::Float(value)
    }
}
