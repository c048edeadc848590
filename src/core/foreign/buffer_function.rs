//! [`BufferFunction`]: user-defined closures that compiled programs call with their buffers.

use super::frame::FfiFrame;
use crate::core::error::Loc;
use crate::core::program::host_function::HostError;
use rustc_hash::FxHashMap;
use serde::{Serialize, Serializer};
use std::any::TypeId;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

type Run = dyn Fn(&mut FfiFrame<'_>) -> Result<(), HostError> + Send + Sync;

/// A closure that a program calls with its buffers. A program's text names it by an id, and the
/// primitive and the executable keep it alive. Two are equal if they are known to do the same:
/// clones, and closures of one type without captures.
#[derive(Clone)]
pub struct BufferFunction(Arc<Inner>);

struct Inner {
    id: u64,
    loc: Loc,
    /// The type of a closure without captures.
    stateless: Option<TypeId>,
    run: Box<Run>,
}

static TABLE: Mutex<Option<FxHashMap<u64, Weak<Inner>>>> = Mutex::new(None);

fn with_table<R>(f: impl FnOnce(&mut FxHashMap<u64, Weak<Inner>>) -> R) -> R {
    f(TABLE.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

impl BufferFunction {
    /// Wraps a closure. Its errors name the line of the caller.
    #[track_caller]
    pub fn new<F>(run: F) -> BufferFunction
    where
        F: Fn(&mut FfiFrame<'_>) -> Result<(), HostError> + Send + Sync + 'static,
    {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let stateless = (size_of::<F>() == 0).then(TypeId::of::<F>);
        let inner = Arc::new(Inner { id, loc: Loc::caller(), stateless, run: Box::new(run) });
        with_table(|table| table.insert(id, Arc::downgrade(&inner)));
        BufferFunction(inner)
    }

    /// Returns the id that programs name it by.
    pub(crate) fn id(&self) -> u64 {
        self.0.id
    }

    /// Returns the line at which it was made.
    pub(crate) fn loc(&self) -> Loc {
        self.0.loc
    }

    /// Calls the closure.
    ///
    /// # Errors
    /// Errors of the closure.
    pub(crate) fn run(&self, frame: &mut FfiFrame<'_>) -> Result<(), HostError> {
        (self.0.run)(frame)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let id = self.id;
        with_table(|table| table.remove(&id));
    }
}

impl PartialEq for BufferFunction {
    fn eq(&self, other: &BufferFunction) -> bool {
        match (self.0.stateless, other.0.stateless) {
            (Some(one), Some(other)) => one == other,
            (None, None) => self.0.id == other.0.id,
            _ => false,
        }
    }
}

impl Eq for BufferFunction {}

impl Hash for BufferFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self.0.stateless {
            Some(of) => of.hash(state),
            None => self.0.id.hash(state),
        }
    }
}

impl fmt::Debug for BufferFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<closure>")
    }
}

impl Serialize for BufferFunction {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("<closure>")
    }
}

/// Returns the closure with this id, if it is alive.
pub(crate) fn find_buffer_function(id: u64) -> Option<BufferFunction> {
    with_table(|table| table.get(&id).and_then(Weak::upgrade)).map(BufferFunction)
}
