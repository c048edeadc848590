//! [`FfiAttributes`]: the attributes of a call by name.

use super::attribute::{FfiAttribute, FromFfiAttribute};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The attributes of a call of a foreign function by name, sorted.
///
/// ```
/// use oxidax::ffi::FfiAttributes;
/// let attributes = FfiAttributes::new().with("eps", 1e-5f32).with("axes", vec![0i64, 1]);
/// assert_eq!(attributes.get::<f32>("eps"), Ok(1e-5));
/// assert_eq!(attributes.get::<Vec<i64>>("axes"), Ok(vec![0, 1]));
/// assert!(attributes.get::<f32>("scale").is_err());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FfiAttributes(BTreeMap<String, FfiAttribute>);

impl FfiAttributes {
    /// Returns no attributes.
    pub fn new() -> FfiAttributes {
        FfiAttributes::default()
    }

    /// Adds an attribute, or replaces the one of this name.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<FfiAttribute>) -> Self {
        self.insert(name, value);
        self
    }

    /// Adds an attribute, or replaces the one of this name.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<FfiAttribute>) {
        self.0.insert(name.into(), value.into());
    }

    /// Returns the attribute of this name as a Rust value.
    ///
    /// # Errors
    /// A message if there is none, or it is of another type.
    pub fn get<T: FromFfiAttribute>(&self, name: &str) -> Result<T, String> {
        let Some(attribute) = self.0.get(name) else {
            let names: Vec<&str> = self.0.keys().map(String::as_str).collect();
            return Err(format!("there is no attribute `{name}`; there are {names:?}"));
        };
        T::from_attribute(attribute).ok_or_else(|| {
            format!("attribute `{name}` is {attribute}, which is not {}", T::EXPECTED)
        })
    }

    /// Returns the attribute of this name.
    pub fn attribute(&self, name: &str) -> Option<&FfiAttribute> {
        self.0.get(name)
    }

    /// Removes and returns the attribute of this name.
    pub(crate) fn remove(&mut self, name: &str) -> Option<FfiAttribute> {
        self.0.remove(name)
    }

    /// Returns the attributes, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &FfiAttribute)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Returns the number of attributes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<N: Into<String>, V: Into<FfiAttribute>> FromIterator<(N, V)> for FfiAttributes {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(attributes: I) -> FfiAttributes {
        attributes
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect::<Vec<_>>()
            .into()
    }
}

impl From<Vec<(String, FfiAttribute)>> for FfiAttributes {
    fn from(attributes: Vec<(String, FfiAttribute)>) -> FfiAttributes {
        FfiAttributes(attributes.into_iter().collect())
    }
}

impl<V: Into<FfiAttribute>, const N: usize> From<[(&str, V); N]> for FfiAttributes {
    fn from(attributes: [(&str, V); N]) -> FfiAttributes {
        attributes.into_iter().collect()
    }
}
