//! The handlers of this process by name, and the source positions of their calls.

use super::attributes::FfiAttributes;
use super::frame::FfiFrame;
use crate::core::error::Loc;
use crate::core::program::host_function::HostError;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Names of attributes that only handlers of this crate get: the position of the call, the id under
/// which its failures are stored, and the id of a closure.
pub(crate) const SITE: &str = "oxidax.site";
pub(crate) const CONTAINED: &str = "oxidax.contained";
pub(crate) const CLOSURE: &str = "oxidax.closure";
/// The target of calls of closures.
pub(crate) const CLOSURE_TARGET: &str = "oxidax.buffer_callback";

/// A handler with a state that it makes once for each set of attributes.
///
/// A closure without state is registered by
/// [`register_ffi_target`](crate::ffi::register_ffi_target).
///
/// ```
/// use oxidax::ffi::{self, FfiAttributes, FfiCallOptions, FfiFrame, FfiHandler, HostError};
/// use oxidax::prelude::*;
///
/// /// Multiplies by a power of 2, which is computed once.
/// struct Scale;
/// impl FfiHandler for Scale {
///     type State = f32;
///     fn instantiate(&self, attributes: &FfiAttributes) -> Result<f32, HostError> {
///         Ok(attributes.get::<f32>("power")?.exp2())
///     }
///     fn execute(&self, factor: &f32, frame: &mut FfiFrame) -> Result<(), HostError> {
///         let ([x], [y]) = frame.slices::<f32, 1, 1>()?;
///         y.iter_mut().zip(x).for_each(|(y, x)| *y = factor * x);
///         Ok(())
///     }
/// }
/// ffi::register_ffi_handler("docs.scale", Scale)?;
/// let x = Array::from([1.0, 2.0]);
/// let options = FfiCallOptions {
///     attributes: FfiAttributes::new().with("power", 3f32),
///     ..FfiCallOptions::default()
/// };
/// let y = ffi::ffi_call_with("docs.scale", x.aval(), [&x], options);
/// assert_eq!(y.to_vec::<f32>()?, [8.0, 16.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
pub trait FfiHandler: Send + Sync + 'static {
    /// The state.
    type State: Send + Sync + 'static;

    /// Makes the state for calls with these attributes, before the first one. It is kept until the
    /// process ends.
    ///
    /// # Errors
    /// Any error, which fails the execution. The next one tries again.
    fn instantiate(&self, attributes: &FfiAttributes) -> Result<Self::State, HostError>;

    /// Runs one call: reads the inputs and writes every output.
    ///
    /// # Errors
    /// Any error, which fails the execution.
    fn execute(&self, state: &Self::State, frame: &mut FfiFrame<'_>) -> Result<(), HostError>;
}

/// Runs one call of a target.
pub(crate) type Serve = dyn Fn(&mut FfiFrame<'_>) -> Result<(), HostError> + Send + Sync;

/// The names that this process has handlers for.
struct Handlers {
    rust: BTreeMap<String, Arc<Serve>>,
    /// Functions of other languages: name and platform.
    foreign: Vec<(String, String)>,
}

static HANDLERS: RwLock<Handlers> =
    RwLock::new(Handlers { rust: BTreeMap::new(), foreign: Vec::new() });

/// Adds a handler in Rust.
///
/// # Errors
/// A message if the name is taken.
pub(crate) fn insert(name: &str, serve: Arc<Serve>) -> Result<(), String> {
    let mut handlers = HANDLERS.write().unwrap_or_else(PoisonError::into_inner);
    if handlers.rust.contains_key(name) || handlers.foreign.iter().any(|(other, _)| other == name) {
        return Err(format!("`{name}` is registered already"));
    }
    handlers.rust.insert(name.to_owned(), serve);
    Ok(())
}

/// Adds the name of a function of another language.
///
/// # Errors
/// A message if the name is taken on this platform.
pub(crate) fn insert_foreign(name: &str, platform: &str) -> Result<(), String> {
    let mut handlers = HANDLERS.write().unwrap_or_else(PoisonError::into_inner);
    let is_it = |(other, on): &(String, String)| other == name && on == platform;
    if handlers.rust.contains_key(name) || handlers.foreign.iter().any(is_it) {
        return Err(format!("`{name}` is registered for {platform} already"));
    }
    handlers.foreign.push((name.to_owned(), platform.to_owned()));
    Ok(())
}

/// Removes a name whose registration failed.
pub(crate) fn remove(name: &str) {
    let mut handlers = HANDLERS.write().unwrap_or_else(PoisonError::into_inner);
    handlers.rust.remove(name);
    handlers.foreign.retain(|(other, _)| other != name);
}

/// Returns true if this process has a handler of this name for the platform.
pub(crate) fn is_registered(name: &str, platform: &str) -> bool {
    let handlers = HANDLERS.read().unwrap_or_else(PoisonError::into_inner);
    handlers.rust.contains_key(name)
        || handlers.foreign.iter().any(|(other, on)| other == name && on == platform)
}

/// Returns true if this process has a handler in Rust of this name.
pub(crate) fn is_rust(name: &str) -> bool {
    HANDLERS.read().unwrap_or_else(PoisonError::into_inner).rust.contains_key(name)
}

/// Marks the ids of closures among those of host functions. Ids fit an `i64`.
pub(crate) const CLOSURES: u64 = 1 << 61;

/// Returns the id of a call whose failures are stored for the program that makes it.
pub(crate) fn next_contained() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1 << 62);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Returns the function that runs the calls of a handler with state.
pub(crate) fn with_state<H: FfiHandler>(handler: H) -> Arc<Serve> {
    let states: Mutex<FxHashMap<FfiAttributes, Arc<H::State>>> = Mutex::default();
    Arc::new(move |frame| {
        let lock = || states.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().get(frame.attributes()).cloned();
        let state = match known {
            Some(state) => state,
            None => {
                let state = Arc::new(handler.instantiate(frame.attributes())?);
                lock().entry(frame.attributes().clone()).or_insert(state).clone()
            }
        };
        handler.execute(&state, frame)
    })
}

/// The source positions of calls by their text.
static SITES: Mutex<BTreeMap<String, Loc>> = Mutex::new(BTreeMap::new());

/// Records the position of a call. Returns its text; `None` for an unknown position.
pub(crate) fn record_site(loc: Loc) -> Option<String> {
    let at = loc.get()?;
    let text = format!("{}:{}:{}", at.file(), at.line(), at.column());
    SITES.lock().unwrap_or_else(PoisonError::into_inner).insert(text.clone(), loc);
    Some(text)
}

/// Returns the position with this text; unknown if no call of this process has it.
pub(crate) fn site(text: &str) -> Loc {
    SITES.lock().unwrap_or_else(PoisonError::into_inner).get(text).copied().unwrap_or(Loc::UNKNOWN)
}
