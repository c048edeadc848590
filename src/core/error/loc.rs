//! Source locations of operations, and the names of the transforms that are tracing.

use super::scope_path::{Derivation, ScopePath};
use crate::core::scoped::scoped;
use std::fmt;
use std::panic::Location;

/// A position in the user's source, and the [named scope](crate::core::named_scope) around it.
/// Equations that were parsed from text have neither.
///
/// Errors, profiles and lowered text show it. A function built from operations attributes them to
/// its own caller with [`Loc::caller`] and [`Loc::scope`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Loc {
    position: Option<&'static Location<'static>>,
    scope: ScopePath,
}

scoped!(
    /// The current named scope, and a position that overrides the caller's, for example while a
    /// transform interprets an equation.
    static LOC: Loc = Loc::UNKNOWN
);

/// The name of the scope of [`no_collectives`](crate::core::no_collectives), unlike those of users.
const NO_COLLECTIVES: &str = "no_collectives!";

/// A transform that is tracing, or a named scope.
enum PathEntry {
    Transform(String),
    Scope(String),
}

scoped!(
    /// The transforms that are tracing and the named scopes, outermost first: `jit(train_step)`,
    /// `grad(loss)`, `encoder`.
    static PATH: Vec<PathEntry> = Vec::new()
);

impl Loc {
    /// No location.
    pub const UNKNOWN: Loc = Loc { position: None, scope: ScopePath::NONE };

    /// Returns the location that a [scope](Loc::scope) has set, or else the position at which the
    /// current function was called. That function must be `#[track_caller]`.
    #[track_caller]
    pub fn caller() -> Loc {
        Loc::scoped().or(Loc { position: Some(Location::caller()), scope: ScopePath::NONE })
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
        if self == Loc::UNKNOWN { f() } else { LOC.scope(self.or(Loc::scoped()), f) }
    }

    /// Runs `f` in a named scope, with its name in the path that errors show.
    pub(super) fn in_named_scope<R>(name: &str, f: impl FnOnce() -> R) -> R {
        Loc::in_scope(name, name, f)
    }

    /// Runs `f` in a scope whose operations must not move data between devices.
    pub(super) fn in_refusing_scope<R>(f: impl FnOnce() -> R) -> R {
        Loc::in_scope(NO_COLLECTIVES, NO_COLLECTIVES.trim_end_matches('!'), f)
    }

    /// Runs `f` in a scope, with `shown` in the path that errors show.
    fn in_scope<R>(name: &str, shown: &str, f: impl FnOnce() -> R) -> R {
        /// Removes the name from the path when dropped.
        struct Entered(usize);
        impl Drop for Entered {
            fn drop(&mut self) {
                truncate_path(self.0);
            }
        }
        if name.is_empty() {
            return f();
        }
        let _entered = Entered(path_len());
        PATH.modify(|path| path.push(PathEntry::Scope(shown.to_owned())));
        let outer = Loc::scoped();
        LOC.scope(Loc { scope: outer.scope.child(name), ..outer }, f)
    }

    /// Returns the location of an equation that a transform derives from one at this location.
    pub(crate) fn derived(self, derivation: Derivation) -> Loc {
        Loc { scope: self.scope.derived(derivation), ..self }
    }

    /// Returns this location without its scope.
    pub(crate) fn without_scope(self) -> Loc {
        Loc { scope: ScopePath::NONE, ..self }
    }

    /// Returns this location in the scope that it shares with another one.
    pub(crate) fn in_common_scope(self, other: Loc) -> Loc {
        Loc { scope: self.scope.common(other.scope), ..self }
    }

    /// Returns the names of the [scopes](crate::core::named_scope) around this location, joined by
    /// `/`. Empty if there are none.
    pub fn scope_path(self) -> &'static str {
        self.scope.path()
    }

    /// Returns true inside [`no_collectives`](crate::core::no_collectives).
    pub(crate) fn refuses_collectives(self) -> bool {
        Loc::is_refusing_path(self.scope_path())
    }

    /// Returns true if the names of scopes, joined by `/`, contain that of
    /// [`no_collectives`](crate::core::no_collectives). The first name may be in `jvp(…)` and
    /// `transpose(…)`.
    pub(crate) fn is_refusing_path(path: &str) -> bool {
        path.split('/').any(|name| {
            let name = name.trim_end_matches(')');
            name.rsplit('(').next() == Some(NO_COLLECTIVES)
        })
    }

    /// Returns true if both are inside [`no_collectives`](crate::core::no_collectives), or neither.
    pub(crate) fn refuses_as(self, other: Loc) -> bool {
        self.scope == other.scope || self.refuses_collectives() == other.refuses_collectives()
    }

    /// Returns the location that a scope has set on this thread.
    pub(crate) fn scoped() -> Loc {
        LOC.get()
    }

    /// Replaces the location of the current scope without restoring it later.
    pub(in crate::core) fn replace_scoped(self) -> Loc {
        LOC.replace(self)
    }

    /// Returns this location with what is unknown, the position or the scope, taken from `other`.
    #[must_use]
    pub fn or(self, other: Loc) -> Loc {
        let scope = if self.scope == ScopePath::NONE { other.scope } else { self.scope };
        Loc { position: self.position.or(other.position), scope }
    }

    /// Returns this scope without the position.
    pub(in crate::core) fn without_position(self) -> Loc {
        Loc { position: None, ..self }
    }

    /// Returns file, line and column.
    pub fn get(self) -> Option<&'static Location<'static>> {
        self.position
    }
}

impl fmt::Display for Loc {
    /// Writes `file:line:column`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.position {
            Some(location) => location.fmt(f),
            None => f.write_str("unknown location"),
        }
    }
}

/// Returns the transforms that are tracing and the named scopes, outermost first.
pub(crate) fn path() -> Vec<String> {
    PATH.with(|path| {
        let texts = path.iter().map(|entry| match entry {
            PathEntry::Transform(text) | PathEntry::Scope(text) => text.clone(),
        });
        texts.collect()
    })
}

/// Returns the number of transforms and named scopes.
pub(in crate::core) fn path_len() -> usize {
    PATH.with(Vec::len)
}

/// Returns the number of transforms that are tracing.
pub(in crate::core) fn transforms_len() -> usize {
    PATH.with(|path| path.iter().filter(|entry| matches!(entry, PathEntry::Transform(_))).count())
}

/// Adds a transform to the scope path.
pub(in crate::core) fn push_path(transform: String) {
    PATH.modify(|path| path.push(PathEntry::Transform(transform)));
}

/// Removes all but the first `len` entries from the scope path.
pub(in crate::core) fn truncate_path(len: usize) {
    PATH.modify(|path| path.truncate(len));
}
