//! [`Varying`]: the mesh axes along which devices hold different values.
//!
//! Inside [`shard_map`](crate::parallel::shard_map) every device computes on its own shards. Along
//! a mesh axis, a value is either the same on all devices or *varies*. That is part of its type
//! ([`Aval::varying`]), because derivatives depend on it. Where a value that does not vary is
//! combined with one that does, its cotangent is the sum over all devices.
//! `docs/decisions/0022-types-track-varying-axes.md` has the reasons; JAX has called it `vma` since
//! 0.7.

use crate::core::types::aval::Aval;
use std::fmt;
use std::sync::Arc;

/// The names of the mesh axes that a value varies over, sorted.
#[doc(alias = "ManualAxisType")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Varying(Option<Arc<[String]>>);

impl Varying {
    /// No axes: the value is the same on all devices.
    pub const NONE: Varying = Varying(None);

    /// Creates a set of axes.
    pub fn over<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Varying {
        let mut names: Vec<String> = names.into_iter().map(|name| name.as_ref().into()).collect();
        names.sort_unstable();
        names.dedup();
        Varying((!names.is_empty()).then(|| names.into()))
    }

    /// Returns true if the value is the same on all devices.
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the names of the axes, sorted.
    pub fn names(&self) -> &[String] {
        self.0.as_deref().unwrap_or_default()
    }

    /// Returns true if this axis is in the set.
    pub fn contains(&self, name: &str) -> bool {
        self.names().iter().any(|axis| axis == name)
    }

    /// Returns true if the set contains all axes of `other`.
    pub fn covers(&self, other: &Varying) -> bool {
        other.names().iter().all(|name| self.contains(name))
    }

    /// Returns the union of two sets.
    #[must_use]
    pub fn and(&self, other: &Varying) -> Varying {
        match (self.covers(other), other.covers(self)) {
            (true, _) => self.clone(),
            (_, true) => other.clone(),
            _ => Varying::over(self.names().iter().chain(other.names())),
        }
    }

    /// Returns the set without these axes.
    #[must_use]
    pub fn without(&self, names: &[String]) -> Varying {
        Varying::over(self.names().iter().filter(|name| !names.contains(name)))
    }
}

impl fmt::Display for Varying {
    /// Writes `{data,model}`, or nothing for the empty set.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => Ok(()),
            Some(names) => write!(f, "{{{}}}", names.join(",")),
        }
    }
}

/// Returns the axes that any of these values varies over.
pub(crate) fn joint<'a>(avals: impl IntoIterator<Item = &'a Aval>) -> Varying {
    avals.into_iter().fold(Varying::NONE, |all, aval| all.and(&aval.varying))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varying_axes_form_a_set() {
        let (i, j) = (Varying::over(["i"]), Varying::over(["j", "j"]));
        assert_eq!(i.and(&j), Varying::over(["j", "i"]));
        assert_eq!(i.and(&j).to_string(), "{i,j}");
        assert!(i.and(&j).covers(&i) && !i.covers(&j));
        assert_eq!(i.and(&j).without(&["i".into(), "k".into()]), j);
        assert_eq!(i.without(&["i".into()]), Varying::NONE);
        assert_eq!(Varying::NONE.to_string(), "");
    }
}
