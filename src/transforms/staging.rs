//! Tracing a user's function, and running a transform at the top level as one program.

use crate::core::trace::{self, Mode, Tracing};
use crate::core::{Array, Aval, Program, backend};
use crate::passes;
use crate::tree::{Tree, leaves_of, rebuild};

/// A traced function: its program, what it captured, and its result with traced leaves.
pub(crate) struct Traced<O> {
    pub(crate) program: Program,
    pub(crate) captures: Vec<Array>,
    pub(crate) template: O,
}

/// Traces `f` on inputs of the given types. The program's inputs are those, then the captures.
pub(crate) fn trace_function<O: Tree>(
    scope: String,
    avals: impl IntoIterator<Item = Aval>,
    f: impl FnOnce(Vec<Array>) -> O,
) -> Traced<O> {
    let tracing = Tracing::begin(Mode::All, Some(scope));
    let inputs = avals.into_iter().map(|aval| tracing.input(aval)).collect();
    let template = f(inputs);
    let (program, captures) = tracing.finish(&leaves_of(&template));
    debug_verify(&program);
    Traced { program, captures, template }
}

/// Records rules into a closed program: every array they use is an input.
pub(crate) fn trace_rules(
    avals: impl IntoIterator<Item = Aval>,
    f: impl FnOnce(&[Array]) -> Vec<Array>,
) -> Program {
    let tracing = Tracing::begin(Mode::All, None);
    let inputs: Vec<Array> = avals.into_iter().map(|aval| tracing.input(aval)).collect();
    let outputs = f(&inputs);
    let (program, captures) = tracing.finish(&outputs);
    assert!(captures.is_empty(), "rules on a closed program use its inputs alone");
    debug_verify(&program);
    program
}

/// In debug builds, checks a program that a transform made.
pub(crate) fn debug_verify(program: &Program) {
    if cfg!(debug_assertions)
        && let Err(error) = passes::verify(program)
    {
        trace::throw(error);
    }
}

/// Runs `f` with every program, those of `jit`, of the transforms and of control flow included,
/// evaluated equation by equation, one executable per operation. For debugging; slow.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let x = Array::from_slice(&[1.0f32], [1])?;
/// let y = disable_jit(|| grad(|x: &Array| sin(x).sum())(&x));
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "jax_disable_jit")]
pub fn disable_jit<R>(f: impl FnOnce() -> R) -> R {
    trace::with_jit_disabled(f)
}

/// Runs a transform's work. Inside a trace it is recorded there; at the top level it is recorded
/// into a program of its own, which runs as one executable, found again by its structure.
#[track_caller]
pub(crate) fn staged<O: Tree>(work: impl FnOnce() -> O) -> O {
    if trace::is_tracing() {
        return work();
    }
    let tracing = Tracing::begin(Mode::All, None);
    let template = work();
    let (program, captures) = tracing.finish(&leaves_of(&template));
    let program = passes::dce(&program);
    debug_verify(&program);
    let outputs = if trace::jit_disabled() {
        passes::eval(&program, &captures)
    } else {
        match backend().run(&program, &captures) {
            Ok(outputs) => outputs,
            Err(error) => trace::throw(error),
        }
    };
    rebuild(&template, outputs)
}

/// A short name for a function or closure, for paths in errors: `loss`, or `main::{closure}`.
pub(crate) fn short_name<F>() -> String {
    shortened(std::any::type_name::<F>())
}

fn shortened(full: &str) -> String {
    if full.starts_with("fn(") {
        return "fn".to_string();
    }
    // Generic arguments would make it unreadable, and so would the type that a method is of.
    let mut depth = 0;
    let mut outside = |c: char| {
        depth += usize::from(c == '<');
        let outside = depth == 0;
        depth -= usize::from(c == '>' && depth > 0);
        outside
    };
    let plain: String = full.replace("->", "").chars().filter(|&c| outside(c)).collect();
    let parts: Vec<&str> = plain.split("::").filter(|part| !part.is_empty()).collect();
    match parts.iter().rposition(|part| *part != "{{closure}}") {
        Some(last) if last + 1 == parts.len() => parts[last].to_string(),
        Some(last) => format!("{}::{{closure}}", parts[last]),
        None => "closure".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_never_empty() {
        assert_eq!(shortened("app::train::loss"), "loss");
        assert_eq!(shortened("app::main::{{closure}}::{{closure}}"), "main::{closure}");
        assert_eq!(shortened("app::loss<alloc::vec::Vec<f32>>"), "loss");
        assert_eq!(shortened("<app::Model>::step::{{closure}}"), "step::{closure}");
        assert_eq!(shortened("<app::Model<f32> as app::Layer>::apply"), "apply");
        assert_eq!(shortened("app::apply<fn(f32) -> f32>"), "apply");
        assert_eq!(shortened("fn(app::Array) -> app::Array"), "fn");
        assert_eq!(shortened("<app::Model>::{{closure}}"), "closure");
    }
}
