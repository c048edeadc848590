//! Source locations of operations, and the names of the transforms that are tracing.

use crate::core::scoped::scoped;
use std::fmt;
use std::panic::Location;

/// A position in the user's source. Equations that were parsed from text have none.
///
/// Errors, profiles and lowered text show it. A function built from operations attributes them to
/// its own caller with [`Loc::caller`] and [`Loc::scope`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Loc(Option<&'static Location<'static>>);

scoped!(
    /// Overrides the caller's location, for example while a transform interprets an equation.
    static LOC: Loc = Loc::UNKNOWN
);

scoped!(
    /// The transforms that are tracing, outermost first: `jit(train_step)`, `grad(loss)`.
    static PATH: Vec<String> = Vec::new()
);

impl Loc {
    /// No location.
    pub const UNKNOWN: Loc = Loc(None);

    /// Returns the location that a [scope](Loc::scope) has set, or else the position at which the
    /// current function was called. That function must be `#[track_caller]`.
    #[track_caller]
    pub fn caller() -> Loc {
        Loc::scoped().or(Loc(Some(Location::caller())))
    }

    /// Runs `f` with every operation in it attributed to this location. Does nothing more than call
    /// `f` if the location is unknown.
    ///
    /// Closures do not pass the caller on, so operations inside a closure need this:
    ///
    /// ```
    /// use oxidax::core::Loc;
    /// use oxidax::prelude::*;
    ///
    /// #[track_caller]
    /// fn squares<T: Tree>(tree: &T) -> T {
    ///     Loc::caller().scope(|| tree::map(tree, |leaf| leaf * leaf))
    /// }
    /// let program = make_program(|x: Array| squares(&x), Aval::new(DType::F32, [])).unwrap();
    /// assert!(program.eqns()[0].loc.get().is_some_and(|location| location.line() > 5));
    /// ```
    pub fn scope<R>(self, f: impl FnOnce() -> R) -> R {
        match self {
            Loc::UNKNOWN => f(),
            loc => LOC.scope(loc, f),
        }
    }

    /// Returns the location that a scope has set on this thread.
    pub(crate) fn scoped() -> Loc {
        LOC.get()
    }

    /// Replaces the location of the current scope without restoring it later.
    pub(in crate::core) fn replace_scoped(self) -> Loc {
        LOC.replace(self)
    }

    /// Returns this location, or `other` if it is unknown.
    #[must_use]
    pub fn or(self, other: Loc) -> Loc {
        Loc(self.0.or(other.0))
    }

    /// Returns file, line and column.
    pub fn get(self) -> Option<&'static Location<'static>> {
        self.0
    }
}

impl fmt::Display for Loc {
    /// Writes `file:line:column`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(location) => location.fmt(f),
            None => f.write_str("unknown location"),
        }
    }
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
