//! [`PlatformId`]: the name of a platform as a number.

use std::fmt;
use std::sync::{PoisonError, RwLock};

/// A platform of this process: `cpu`, `cuda`, `tpu`, or the name of a registered plugin.
///
/// Names are stored once per process, so that ids are compared like numbers on every call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PlatformId(u32);

/// Names by id. The first one is [`PlatformId::UNSPECIFIED`].
static NAMES: RwLock<Vec<&'static str>> = RwLock::new(Vec::new());

/// The name of [`PlatformId::UNSPECIFIED`].
const UNSPECIFIED: &str = "device";

impl PlatformId {
    /// The platform of a device that is described by a number alone: the process's default
    /// platform.
    pub(crate) const UNSPECIFIED: PlatformId = PlatformId(0);

    /// Returns the id of a name.
    pub(crate) fn of(name: &str) -> PlatformId {
        if name == UNSPECIFIED {
            return PlatformId::UNSPECIFIED;
        }
        if let Some(id) = position(&NAMES.read().unwrap_or_else(PoisonError::into_inner), name) {
            return id;
        }
        let mut names = NAMES.write().unwrap_or_else(PoisonError::into_inner);
        if names.is_empty() {
            names.push(UNSPECIFIED);
        }
        position(&names, name).unwrap_or_else(|| {
            names.push(Box::leak(name.into()));
            PlatformId((names.len() - 1) as u32)
        })
    }

    /// Returns the name.
    pub(crate) fn name(self) -> &'static str {
        let names = NAMES.read().unwrap_or_else(PoisonError::into_inner);
        names.get(self.0 as usize).copied().unwrap_or(UNSPECIFIED)
    }

    /// Returns the id as a number, for [`PlatformId::from_number`].
    pub(crate) fn number(self) -> u32 {
        self.0
    }

    /// Returns the id with this number.
    pub(crate) fn from_number(number: u32) -> PlatformId {
        PlatformId(number)
    }
}

fn position(names: &[&'static str], name: &str) -> Option<PlatformId> {
    names.iter().position(|known| *known == name).map(|index| PlatformId(index as u32))
}

impl fmt::Display for PlatformId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for PlatformId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_have_equal_ids() {
        let (first, second) = (PlatformId::of("one"), PlatformId::of("two"));
        assert_ne!(first, second);
        assert_eq!(PlatformId::of("one"), first);
        assert_eq!((first.name(), second.name()), ("one", "two"));
        assert_eq!(PlatformId::of("device"), PlatformId::UNSPECIFIED);
        assert_eq!(PlatformId::from_number(second.number()), second);
    }
}
