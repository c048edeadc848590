//! Names of nested values, joined with dots, within bounds.

use crate::error::{Error, Result};

/// Longest name, in bytes.
const MAX_NAME: usize = 4096;

/// Most levels of nesting.
pub(crate) const MAX_DEPTH: usize = 128;

/// Bounds the total work and the total length of names, which short files could make huge by
/// sharing parts.
pub(crate) struct Budget {
    values: u64,
    bytes: u64,
}

impl Budget {
    /// Returns the budget of a file of this size that has this number of values.
    pub(crate) fn new(size: u64, values: u64) -> Budget {
        Budget {
            values: values.saturating_mul(4).saturating_add(1024),
            bytes: size.saturating_mul(64).saturating_add(1 << 20),
        }
    }

    /// Counts a value.
    pub(crate) fn visit(&mut self) -> Result<()> {
        self.visit_many(1)
    }

    /// Counts values that are searched.
    pub(crate) fn visit_many(&mut self, count: usize) -> Result<()> {
        let left = self.values.checked_sub(count as u64);
        self.values = left.ok_or_else(|| Error::new("its parts are shared too often"))?;
        Ok(())
    }

    /// Returns the name of a value in a container.
    pub(crate) fn join(&mut self, prefix: &str, name: &str) -> Result<String> {
        let length = prefix.len() + name.len() + 1;
        let left = self.bytes.checked_sub(length as u64).filter(|_| length <= MAX_NAME);
        self.bytes = left.ok_or_else(|| Error::new("its names are too long"))?;
        Ok(if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") })
    }
}
