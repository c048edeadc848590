//! [`ShardingObserver`]: a user's function that receives the sharding of a value.

use crate::core::mesh::partition::NamedSharding;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

type Observe = dyn Fn(Option<&NamedSharding>) + Send + Sync;

/// A function that receives the sharding of a value; `None` for a value on one device. Equal only
/// to its clones.
#[derive(Clone)]
pub struct ShardingObserver(Arc<Observe>);

impl ShardingObserver {
    /// Wraps a function.
    pub fn new(observe: impl Fn(Option<&NamedSharding>) + Send + Sync + 'static) -> Self {
        ShardingObserver(Arc::new(observe))
    }

    /// Calls the function.
    pub fn observe(&self, sharding: Option<&NamedSharding>) {
        (self.0)(sharding);
    }

    fn address(&self) -> usize {
        Arc::as_ptr(&self.0).cast::<()>() as usize
    }
}

impl PartialEq for ShardingObserver {
    fn eq(&self, other: &ShardingObserver) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ShardingObserver {}

impl Hash for ShardingObserver {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.address().hash(state);
    }
}

impl fmt::Debug for ShardingObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ShardingObserver(0x{:x})", self.address())
    }
}
