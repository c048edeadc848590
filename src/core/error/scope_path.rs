//! [`ScopePath`]: the names of nested scopes.

use rustc_hash::FxHashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Mutex, PoisonError};

/// A path of names of nested scopes, which is kept until the process ends.
#[derive(Clone, Copy, Default)]
pub(super) struct ScopePath(Option<&'static String>);

/// The transform that derived an equation from another one.
#[derive(Clone, Copy)]
pub(crate) enum Derivation {
    Jvp,
    Transpose,
}

/// Number of paths that a process keeps.
const MAX_PATHS: usize = 1 << 16;

impl PartialEq for ScopePath {
    fn eq(&self, other: &ScopePath) -> bool {
        // Equal paths are stored once.
        self.address() == other.address()
    }
}

impl Eq for ScopePath {}

impl Hash for ScopePath {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.address().hash(state);
    }
}

impl fmt::Debug for ScopePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.path(), f)
    }
}

impl ScopePath {
    /// No scope.
    pub(super) const NONE: ScopePath = ScopePath(None);

    fn address(self) -> usize {
        self.0.map_or(0, |path| std::ptr::from_ref(path).addr())
    }

    /// Returns the names, joined by `/`, and an empty text without a scope.
    pub(super) fn path(self) -> &'static str {
        self.0.map_or("", String::as_str)
    }

    /// Returns the scope with this path, or `fallback` if too many paths are kept already.
    fn interned(text: String, fallback: ScopePath) -> ScopePath {
        static PATHS: Mutex<Option<FxHashMap<&'static str, ScopePath>>> = Mutex::new(None);
        if text.is_empty() {
            return ScopePath::NONE;
        }
        // Each change is one insertion, which a panic cannot interrupt halfway.
        let mut paths = PATHS.lock().unwrap_or_else(PoisonError::into_inner);
        let paths = paths.get_or_insert_default();
        if let Some(&scope) = paths.get(text.as_str()) {
            return scope;
        }
        if paths.len() >= MAX_PATHS {
            return fallback;
        }
        let text: &'static String = Box::leak(Box::new(text));
        let scope = ScopePath(Some(text));
        paths.insert(text, scope);
        scope
    }

    /// Returns the scope with this name inside this one.
    pub(super) fn child(self, name: &str) -> ScopePath {
        match (self.path(), name) {
            (_, "") => self,
            ("", name) => ScopePath::interned(name.to_owned(), self),
            (path, name) => ScopePath::interned(format!("{path}/{name}"), self),
        }
    }

    /// Returns the scope of an equation that a transform derives from one in this scope.
    pub(super) fn derived(self, derivation: Derivation) -> ScopePath {
        let path = self.path();
        if path.is_empty() {
            return self;
        }
        let function = match derivation {
            Derivation::Jvp => "jvp",
            Derivation::Transpose => "transpose",
        };
        let (first, rest) = path.split_at(path.find('/').unwrap_or(path.len()));
        ScopePath::interned(format!("{function}({first}){rest}"), self)
    }

    /// Returns the scope of what operations in two scopes share: `*` where names differ, and only
    /// the equal names if the depths differ too.
    pub(super) fn common(self, other: ScopePath) -> ScopePath {
        if self == other {
            return self;
        }
        if self.0.is_none() || other.0.is_none() {
            return ScopePath::NONE;
        }
        let names = self.path().split('/').zip(other.path().split('/'));
        let depth = |scope: ScopePath| scope.path().split('/').count();
        let names: Vec<String> = if depth(self) == depth(other) {
            names.map(|(a, b)| common_name(a, b)).collect()
        } else {
            names.take_while(|(a, b)| a == b).map(|(a, _)| a.to_owned()).collect()
        };
        ScopePath::interned(names.join("/"), ScopePath::NONE)
    }
}

/// Returns the name if both are equal, or else what they begin with, `*`, and the parentheses that
/// both end with: `jvp(layer_*)`.
fn common_name(a: &str, b: &str) -> String {
    if a == b {
        return a.to_owned();
    }
    let inner = |name: &str| name.trim_end_matches(')').len();
    let (inner_a, inner_b) = (inner(a), inner(b));
    let equal = a[..inner_a].chars().zip(b[..inner_b].chars()).take_while(|(a, b)| a == b);
    let closed = (a.len() - inner_a).min(b.len() - inner_b);
    equal.map(|(a, _)| a).chain(['*']).chain(std::iter::repeat_n(')', closed)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_scopes_have_a_star_where_names_differ() {
        let scope = |path: &str| {
            let names = path.split('/').filter(|name| !name.is_empty());
            names.fold(ScopePath::NONE, |scope, name| scope.child(name))
        };
        let common = |a, b| scope(a).common(scope(b)).path();
        assert_eq!(common("layer_0/mlp", "layer_1/mlp"), "layer_*/mlp");
        assert_eq!(common("a/x", "b/x"), "*/x");
        assert_eq!(common("jvp(layer_*)/x", "jvp(layer_11)/x"), "jvp(layer_*)/x");
        assert_eq!(common("a/x", "a/x"), "a/x");
        assert_eq!(common("a/x/y", "a/z"), "a");
        assert_eq!(common("a", ""), "");
        assert_eq!(common("schicht_ä/x", "schicht_ö/x"), "schicht_*/x");
    }

    #[test]
    fn derivatives_wrap_the_first_name() {
        let scope = ScopePath::NONE.child("a").child("b");
        let jvp = scope.derived(Derivation::Jvp);
        assert_eq!(jvp.path(), "jvp(a)/b");
        assert_eq!(jvp.derived(Derivation::Transpose).path(), "transpose(jvp(a))/b");
        assert_eq!(ScopePath::NONE.derived(Derivation::Jvp), ScopePath::NONE);
    }
}
