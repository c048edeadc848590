//! Source locations of operations, and the names of the transforms that are tracing.

use crate::core::scoped::scoped;
use std::panic::Location;

/// A position in the user's source; `None` for equations that were parsed from text.
pub type Loc = Option<&'static Location<'static>>;

scoped!(
    /// Overrides the caller's location while a transform interprets an equation.
    static LOC: Loc = None
);

scoped!(
    /// The transforms that are tracing, outermost first: `jit(train_step)`, `grad(loss)`.
    static PATH: Vec<String> = Vec::new()
);

/// Runs `f` with every operation it binds attributed to `location`, if there is one.
pub(crate) fn at_location<R>(location: Loc, f: impl FnOnce() -> R) -> R {
    match location {
        None => f(),
        location => LOC.scope(location, f),
    }
}

/// Runs `f` with every operation it binds attributed to the caller of the function that calls this,
/// which must be `#[track_caller]`: closures do not pass the caller on.
///
/// ```
/// use oxidax::core::from_caller;
/// use oxidax::prelude::*;
///
/// #[track_caller]
/// fn squares<T: Tree>(tree: &T) -> T {
///     from_caller(|| tree::map(tree, |leaf| leaf * leaf))
/// }
/// let program = make_program(|x: Array| squares(&x), Aval::new(DType::F32, [])).unwrap();
/// assert!(program.eqns()[0].location.is_some_and(|place| place.line() > 5));
/// ```
#[track_caller]
pub fn from_caller<R>(f: impl FnOnce() -> R) -> R {
    at_location(caller_place(), f)
}

/// The location in force if a transform or a composite set one, else the caller's.
#[track_caller]
pub(crate) fn caller_place() -> Loc {
    LOC.get().or(Some(Location::caller()))
}

/// Returns the location in force, if a transform or a composite set one.
pub(in crate::core) fn current() -> Loc {
    LOC.get()
}

/// Replaces the location in force without restoring it later.
pub(in crate::core) fn replace(loc: Loc) {
    LOC.replace(loc);
}

/// Returns the transforms that are tracing, outermost first.
pub(crate) fn path() -> Vec<String> {
    PATH.get()
}

/// Returns the number of transforms that are tracing.
pub(in crate::core) fn path_len() -> usize {
    PATH.with(Vec::len)
}

/// Adds a transform to the scope path.
pub(in crate::core) fn push_path(scope: String) {
    PATH.modify(|path| path.push(scope));
}

/// Removes all but the first `len` transforms from the scope path.
pub(in crate::core) fn truncate_path(len: usize) {
    PATH.modify(|path| path.truncate(len));
}
