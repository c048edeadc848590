//! [`WeightMetadata`]: values beside the tensors of a file.

use std::fmt;

/// A value of a file's metadata.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum WeightMetadata {
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
    List(Vec<WeightMetadata>),
}

impl WeightMetadata {
    /// Returns an integer that is not negative.
    pub fn as_usize(&self) -> Option<usize> {
        match *self {
            WeightMetadata::Int(value) => usize::try_from(value).ok(),
            WeightMetadata::Unsigned(value) => usize::try_from(value).ok(),
            _ => None,
        }
    }

    /// Returns a number.
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            WeightMetadata::Float(value) => Some(value),
            WeightMetadata::Int(value) => Some(value as f64),
            WeightMetadata::Unsigned(value) => Some(value as f64),
            _ => None,
        }
    }

    /// Returns text.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            WeightMetadata::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl fmt::Display for WeightMetadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WeightMetadata::Bool(value) => value.fmt(f),
            WeightMetadata::Int(value) => value.fmt(f),
            WeightMetadata::Unsigned(value) => value.fmt(f),
            WeightMetadata::Float(value) => value.fmt(f),
            WeightMetadata::Text(text) => write!(f, "{text:?}"),
            WeightMetadata::List(values) => {
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

impl From<&str> for WeightMetadata {
    fn from(text: &str) -> WeightMetadata {
        WeightMetadata::Text(text.to_owned())
    }
}

impl From<i64> for WeightMetadata {
    fn from(value: i64) -> WeightMetadata {
        WeightMetadata::Int(value)
    }
}

impl From<f64> for WeightMetadata {
    fn from(value: f64) -> WeightMetadata {
        WeightMetadata::Float(value)
    }
}
