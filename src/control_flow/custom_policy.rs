//! [`CustomPolicy`]: a policy of `remat` that a function decides.

use super::policy::Residual;
use crate::core::{Aval, Primitive};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::any::TypeId;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

type Choose = dyn Fn(&dyn Primitive, &[Aval]) -> Residual + Send + Sync;

/// A function that decides which values `remat` stores. Created by
/// [`Policy::custom`](super::Policy::custom).
#[derive(Clone)]
pub struct CustomPolicy {
    choose: Arc<Choose>,
    identity: Identity,
}

/// The identity of a function, by which programs that hold it are compared.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Identity {
    /// The type of a function without captures.
    Type(TypeId),
    /// The address of a function with captures.
    Address(usize),
}

impl CustomPolicy {
    pub(super) fn new<F>(choose: F) -> CustomPolicy
    where
        F: Fn(&dyn Primitive, &[Aval]) -> Residual + Send + Sync + 'static,
    {
        // A function without captures may share its address with others.
        let is_plain = size_of::<F>() == 0;
        let choose: Arc<Choose> = Arc::new(choose);
        let identity = if is_plain {
            Identity::Type(TypeId::of::<F>())
        } else {
            Identity::Address(Arc::as_ptr(&choose).cast::<()>() as usize)
        };
        CustomPolicy { choose, identity }
    }

    /// Returns the treatment of an operation's results.
    pub fn residual(&self, primitive: &dyn Primitive, operands: &[Aval]) -> Residual {
        (self.choose)(primitive, operands)
    }
}

impl PartialEq for CustomPolicy {
    fn eq(&self, other: &CustomPolicy) -> bool {
        self.identity == other.identity
    }
}

impl Eq for CustomPolicy {}

impl Hash for CustomPolicy {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity.hash(state);
    }
}

impl fmt::Debug for CustomPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<closure>")
    }
}

impl Serialize for CustomPolicy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("<closure>")
    }
}

impl<'de> Deserialize<'de> for CustomPolicy {
    /// Fails: a function cannot be read from text.
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<CustomPolicy, D::Error> {
        Err(D::Error::custom("a policy that is a closure cannot be read from text"))
    }
}
