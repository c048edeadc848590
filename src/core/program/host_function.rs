//! [`HostFunction`]: user-defined closures that compiled programs call.
//!
//! A program's text names a host function by an id. A table maps ids to closures. The primitive in
//! a program, and the executable compiled from it, hold the [`HostFunction`] and keep it alive.

use crate::core::array::host_array::HostArray;
use crate::core::error::{Error, Loc};
use crate::core::scoped::scoped;
use crate::core::spans::{EventKind, Span};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::any::TypeId;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The error type of closures on the host.
pub type HostError = Box<dyn std::error::Error + Send + Sync>;

type Run = dyn Fn(&[HostArray]) -> Result<Vec<HostArray>, Error> + Send + Sync;

/// The text of a host function that another process can construct again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum HostFunctionText {
    /// A check of its first operand, with the message and the names of the other operands.
    Check {
        /// The message, with placeholders.
        message: String,
        /// The name of each operand after the first; empty for one without a name.
        names: Vec<String>,
        /// The operation that the error names; `check` if there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        operation: Option<String>,
    },
    /// A function over a batch.
    Batched {
        /// The function of one example.
        function: Box<HostFunctionText>,
        /// Marks operands with a leading batch axis.
        mapped: Vec<bool>,
        /// The number of examples.
        size: usize,
    },
}

struct Inner {
    id: u64,
    /// The line of the call that the function is an argument of.
    loc: Loc,
    identity: Identity,
    text: Option<HostFunctionText>,
    run: Box<Run>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Identity {
    /// The type of a closure without captures, and the key it was created with.
    Type(TypeId, String),
    /// A closure with captures equals only itself.
    Own(u64),
    Batched(Box<Identity>, Vec<bool>, usize),
}

/// A closure from host arrays to host arrays. Two are equal if they are known to do the same.
#[derive(Clone)]
pub struct HostFunction(Arc<Inner>);

static TABLE: Mutex<Option<FxHashMap<u64, Weak<Inner>>>> = Mutex::new(None);

fn with_table<R>(f: impl FnOnce(&mut FxHashMap<u64, Weak<Inner>>) -> R) -> R {
    f(TABLE.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

impl HostFunction {
    /// Wraps `run`. `key` distinguishes closures of one type, for example by a format string.
    #[track_caller]
    pub fn new<F>(key: impl Into<String>, run: F) -> HostFunction
    where
        F: Fn(&[HostArray]) -> Result<Vec<HostArray>, Error> + Send + Sync + 'static,
    {
        HostFunction::of_type::<F>(key, run)
    }

    /// Wraps `run`, which itself wraps a user-defined closure of type `U`. Equality depends on the
    /// captures of `U`.
    #[track_caller]
    pub fn of_type<U: 'static>(
        key: impl Into<String>,
        run: impl Fn(&[HostArray]) -> Result<Vec<HostArray>, Error> + Send + Sync + 'static,
    ) -> HostFunction {
        HostFunction::with_identity(
            Loc::caller(),
            |id| match size_of::<U>() {
                0 => Identity::Type(TypeId::of::<U>(), key.into()),
                _ => Identity::Own(id),
            },
            None,
            run,
        )
    }

    /// Wraps `run` of the call at `loc`, as [`of_type`](Self::of_type), which `text` describes
    /// completely.
    pub(crate) fn with_text<U: 'static>(
        loc: Loc,
        key: impl Into<String>,
        text: HostFunctionText,
        run: impl Fn(&[HostArray]) -> Result<Vec<HostArray>, Error> + Send + Sync + 'static,
    ) -> HostFunction {
        debug_assert_eq!(size_of::<U>(), 0, "a closure with captures is not its text alone");
        HostFunction::with_identity(
            loc,
            |_| Identity::Type(TypeId::of::<U>(), key.into()),
            Some(text),
            run,
        )
    }

    /// Returns the text from which another process can construct the function.
    pub(crate) fn text(&self) -> Option<&HostFunctionText> {
        self.0.text.as_ref()
    }

    fn with_identity(
        loc: Loc,
        identity: impl FnOnce(u64) -> Identity,
        text: Option<HostFunctionText>,
        run: impl Fn(&[HostArray]) -> Result<Vec<HostArray>, Error> + Send + Sync + 'static,
    ) -> HostFunction {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let inner = Arc::new(Inner { id, loc, identity: identity(id), text, run: Box::new(run) });
        with_table(|table| table.insert(id, Arc::downgrade(&inner)));
        HostFunction(inner)
    }

    /// Returns the function over a batch of `size`, which calls this one for each example in order.
    /// `mapped` marks operands with a leading batch axis. All results have one.
    pub(crate) fn batched(&self, mapped: &[bool], size: usize) -> HostFunction {
        let identity = Identity::Batched(Box::new(self.0.identity.clone()), mapped.to_vec(), size);
        let text = self.text().map(|text| HostFunctionText::Batched {
            function: Box::new(text.clone()),
            mapped: mapped.to_vec(),
            size,
        });
        let (inner, mapped) = (self.clone(), mapped.to_vec());
        HostFunction::with_identity(
            self.0.loc,
            |_| identity,
            text,
            move |operands| {
                let mut columns: Vec<Vec<HostArray>> = Vec::new();
                for index in 0..size {
                    let example: Vec<HostArray> = operands
                        .iter()
                        .zip(&mapped)
                        .map(|(x, &mapped)| if mapped { x.row(index) } else { x.clone() })
                        .collect();
                    let results = (inner.0.run)(&example)?;
                    columns.resize_with(results.len().max(columns.len()), Vec::new);
                    for (column, result) in columns.iter_mut().zip(results) {
                        column.push(result);
                    }
                }
                Ok(columns.iter().filter_map(|column| HostArray::stack(column)).collect())
            },
        )
    }

    /// Returns the id that programs name it by.
    pub(crate) fn id(&self) -> u64 {
        self.0.id
    }

    /// Calls the closure.
    ///
    /// # Errors
    /// Errors of the closure.
    pub(crate) fn run(&self, operands: &[HostArray]) -> Result<Vec<HostArray>, Error> {
        let _span = Span::at(EventKind::Callback, self.0.loc, || "");
        (self.0.run)(operands)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let id = self.id;
        with_table(|table| table.remove(&id));
    }
}

impl PartialEq for HostFunction {
    fn eq(&self, other: &HostFunction) -> bool {
        self.0.identity == other.0.identity
    }
}

impl Eq for HostFunction {}

impl Hash for HostFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.identity.hash(state);
    }
}

impl fmt::Debug for HostFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<closure>")
    }
}

impl Serialize for HostFunction {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.text() {
            Some(text) => text.serialize(serializer),
            None => serializer.serialize_str("<closure>"),
        }
    }
}

/// Returns the host function with this id, if it is alive.
pub(crate) fn find(id: u64) -> Option<HostFunction> {
    with_table(|table| table.get(&id).and_then(Weak::upgrade)).map(HostFunction)
}

scoped!(
    /// True while a callback runs on this thread.
    static IN_CALLBACK: bool = false
);

/// Runs `f` as the body of a callback, in which [`refuse_inside`] fails.
pub(crate) fn as_callback<R>(f: impl FnOnce() -> R) -> R {
    IN_CALLBACK.scope(true, f)
}

/// Returns an error if a callback is running on this thread. The program that called it is waiting
/// and holds resources that another program needs.
pub(crate) fn refuse_inside(doing: &str) -> Result<(), Error> {
    if !IN_CALLBACK.get() {
        return Ok(());
    }
    Err(Error::Runtime {
        doing: doing.to_string(),
        code: None,
        loc: Loc::UNKNOWN,
        message:
            "a host callback may not run array operations: the program that called it is waiting"
                .into(),
        help: Some("compute on the host values, or return them and go on outside".into()),
    })
}

/// Errors of callbacks. The plugin passes them on as an id within an error message.
static FAILURES: Mutex<Vec<(u64, Error)>> = Mutex::new(Vec::new());
const FAILURE: &str = "oxidax callback failure #";
/// The maximum number of stored failures. Older ones are dropped.
const MAX_FAILURES: usize = 64;

/// Stores a failure and returns the text that identifies it in the plugin's error.
pub(crate) fn store_failure(error: Error) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    let text = format!("{FAILURE}{id}; {error}");
    let mut failures = FAILURES.lock().unwrap_or_else(PoisonError::into_inner);
    if failures.len() == MAX_FAILURES {
        failures.remove(0);
    }
    failures.push((id, error));
    text
}

/// Failures of host functions whose programs continued, by the function's id.
static CONTAINED: Mutex<Vec<(u64, Error)>> = Mutex::new(Vec::new());

/// Stores the failure of a function in a program that continues after it. A program over several
/// devices must not stop on one of them, because the others would wait for it.
pub(crate) fn contain_failure(id: u64, error: Error) {
    let mut contained = CONTAINED.lock().unwrap_or_else(PoisonError::into_inner);
    if contained.len() == MAX_FAILURES {
        contained.remove(0);
    }
    contained.push((id, error));
}

/// Removes the stored failures of functions with these ids. Returns the first one.
pub(crate) fn take_contained_failure(ids: &[u64]) -> Option<Error> {
    let mut contained = CONTAINED.lock().unwrap_or_else(PoisonError::into_inner);
    let first = contained.iter().position(|(id, _)| ids.contains(id))?;
    let (_, error) = contained.remove(first);
    contained.retain(|(id, _)| !ids.contains(id));
    Some(error)
}

/// Removes and returns the failure that an error message identifies.
pub(crate) fn take_failure(text: &str) -> Option<Error> {
    let (_, rest) = text.split_once(FAILURE)?;
    let id: u64 = rest.split(';').next()?.parse().ok()?;
    let mut failures = FAILURES.lock().unwrap_or_else(PoisonError::into_inner);
    let index = failures.iter().position(|(stored, _)| *stored == id)?;
    Some(failures.remove(index).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_without_captures_are_equal_by_type() {
        let make = |key: &str| HostFunction::new(key, |_| Ok(Vec::new()));
        assert_eq!(make("a"), make("a"));
        assert_ne!(make("a"), make("b"));
        let n = 3;
        let own = move |_: &[HostArray]| Ok(vec![HostArray::from_slice(&[n], [])?]);
        assert_ne!(HostFunction::new("a", own), HostFunction::new("a", own));
    }

    #[test]
    fn dropping_a_function_removes_it_from_the_table() {
        let function = HostFunction::new("x", |_| Ok(Vec::new()));
        let id = function.id();
        assert!(find(id).is_some());
        drop(function);
        assert!(find(id).is_none());
    }

    #[test]
    fn batched_function_runs_each_example() {
        let add = HostFunction::new("add", |operands| {
            let sum = operands[0].item::<i32>()? + operands[1].item::<i32>()?;
            Ok(vec![HostArray::from_slice(&[sum], [])?])
        });
        let x = HostArray::from_slice(&[1i32, 2, 3], [3]).unwrap();
        let y = HostArray::from_slice(&[10i32], []).unwrap();
        let sums = add.batched(&[true, false], 3).run(&[x, y]).unwrap();
        assert_eq!(sums[0].to_vec::<i32>().unwrap(), [11, 12, 13]);
    }

    #[test]
    fn a_failure_is_found_by_its_text_once() {
        let text = store_failure(Error::Plugin("mine".into()));
        let wrapped = format!("INTERNAL: {text} at thunk 3");
        assert!(
            matches!(take_failure(&wrapped), Some(Error::Plugin(message)) if message == "mine")
        );
        assert!(take_failure(&wrapped).is_none());
    }
}
