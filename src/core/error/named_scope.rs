//! [`named_scope`]: names for parts of a traced function.

use super::loc::Loc;

/// Runs `f`, with every operation in it under a name.
///
/// Scopes nest: their names are joined by `/`. Errors show the name among the transforms, StableHLO
/// and profiles of devices show it in the name of each operation, and
/// [`Loc::scope_path`] returns it for an equation. Derivatives of an operation have its scope in
/// `jvp(…)` or `transpose(…)`, as in JAX. The results do not depend on names, and neither does the
/// cache of compiled programs.
///
/// A `jit` function that is not called inside another traced function has only the scopes inside
/// it, because later calls use the same program. Layers with different names still share one
/// compiled function; it has `*` where their names differ.
///
/// ```
/// use oxidax::core::named_scope;
/// use oxidax::prelude::*;
/// let model = |x: &Array| {
///     let x = named_scope("encoder", || named_scope("attention", || tanh(x)));
///     named_scope("head", || x.sum())
/// };
/// let program = make_program(|x: Array| model(&x), Aval::new(DType::F32, [3]))?;
/// let scopes: Vec<&str> = program.eqns().iter().map(|eqn| eqn.loc.scope_path()).collect();
/// assert_eq!(scopes, ["encoder/attention", "head"]);
///
/// let gradient = make_program(grad(model), Aval::new(DType::F32, [3]))?;
/// let scopes: Vec<&str> = gradient.eqns().iter().map(|eqn| eqn.loc.scope_path()).collect();
/// assert!(scopes.contains(&"transpose(jvp(encoder))/attention"), "{scopes:?}");
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// A process keeps at most 65,536 different paths of names. Operations under further ones have the
/// scope around them.
#[doc(alias = "jax.named_scope")]
#[doc(alias = "jax.named_call")]
pub fn named_scope<R>(name: &str, f: impl FnOnce() -> R) -> R {
    Loc::in_named_scope(name, f)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::error::loc::path;
    use std::panic::catch_unwind;

    fn current() -> &'static str {
        Loc::caller().scope_path()
    }

    #[test]
    fn scopes_nest_and_end_when_the_closure_unwinds() {
        named_scope("a", || {
            named_scope("b", || assert_eq!(current(), "a/b"));
            let panicked = catch_unwind(|| named_scope("c", || panic!("{}", path().join(" > "))));
            assert_eq!(
                panicked.unwrap_err().downcast_ref::<String>().map(String::as_str),
                Some("a > c")
            );
            assert_eq!((current(), path().as_slice()), ("a", ["a".to_owned()].as_slice()));
        });
        assert_eq!((current(), path().len()), ("", 0));
    }

    #[test]
    fn an_empty_name_adds_nothing() {
        named_scope("", || assert_eq!((current(), path().len()), ("", 0)));
    }

    #[test]
    fn a_location_replaces_the_scope_only_if_it_has_one() {
        let (inside, outside) = (named_scope("a", Loc::caller), Loc::caller());
        named_scope("b", || {
            inside.scope(|| assert_eq!(current(), "a"));
            outside.scope(|| assert_eq!(current(), "b"));
            inside.scope(|| named_scope("c", || assert_eq!(current(), "a/c")));
        });
    }
}
