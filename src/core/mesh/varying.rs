//! Over which axes of a mesh a value differs from device to device.
//!
//! Inside [`shard_map`](crate::parallel::shard_map) every device computes on its own shards, and a value is either
//! the same for all devices along an axis of the mesh or *varies* over it. That is part of its type
//! ([`Aval::varying`]), because derivatives depend on it: where a value that is the same everywhere meets one that
//! varies, what flows back to it is the sum over all devices. `docs/decisions/0022-types-track-varying-axes.md` has
//! the reasons; JAX has called it `vma` since 0.7.

use crate::core::types::aval::Aval;
use std::fmt;
use std::sync::Arc;

/// The names of the axes that a value varies over, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Varying(Option<Arc<[String]>>);

impl Varying {
    /// The same on all devices.
    pub const NONE: Varying = Varying(None);

    /// Over these axes.
    pub fn over<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Varying {
        let mut names: Vec<String> = names.into_iter().map(|name| name.as_ref().into()).collect();
        names.sort_unstable();
        names.dedup();
        Varying((!names.is_empty()).then(|| names.into()))
    }

    /// Whether it is the same on all devices.
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// The axes' names, sorted.
    pub fn names(&self) -> &[String] {
        self.0.as_deref().unwrap_or_default()
    }

    /// Whether this axis is among them.
    pub fn contains(&self, name: &str) -> bool {
        self.names().iter().any(|known| known == name)
    }

    /// Whether all of the other's axes are among them.
    pub fn covers(&self, other: &Varying) -> bool {
        other.names().iter().all(|name| self.contains(name))
    }

    /// The axes of either.
    #[must_use]
    pub fn and(&self, other: &Varying) -> Varying {
        match (self.covers(other), other.covers(self)) {
            (true, _) => self.clone(),
            (_, true) => other.clone(),
            _ => Varying::over(self.names().iter().chain(other.names())),
        }
    }

    /// The axes but for these.
    #[must_use]
    pub fn without(&self, names: &[String]) -> Varying {
        match self.names().iter().any(|name| names.contains(name)) {
            false => self.clone(),
            true => Varying::over(self.names().iter().filter(|name| !names.contains(name))),
        }
    }
}

impl fmt::Display for Varying {
    /// `{data,model}`; nothing for a value that is the same everywhere.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => Ok(()),
            Some(names) => write!(f, "{{{}}}", names.join(",")),
        }
    }
}

/// The axes that some of these vary over.
pub(crate) fn joint<'a>(avals: impl IntoIterator<Item = &'a Aval>) -> Varying {
    avals.into_iter().fold(Varying::NONE, |all, aval| all.and(&aval.varying))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_a_set() {
        let (i, j) = (Varying::over(["i"]), Varying::over(["j", "j"]));
        assert_eq!(i.and(&j), Varying::over(["j", "i"]));
        assert_eq!(i.and(&j).to_string(), "{i,j}");
        assert!(i.and(&j).covers(&i) && !i.covers(&j));
        assert_eq!(i.and(&j).without(&["i".into(), "k".into()]), j);
        assert_eq!(i.without(&["i".into()]), Varying::NONE);
        assert_eq!(Varying::NONE.to_string(), "");
    }
}
