//! Functions for the body of a kernel: the index of a program, conditions and loops.

use super::refs::Ref;
use crate::control_flow;
use crate::core::{Array, Loc, OpErrorKind, trace};
use crate::primitives::ArrayLike;
use crate::tree::{Arg, Tree};
use std::cell::RefCell;

/// A kernel that is being traced.
struct KernelScope {
    /// The index of the program along each axis of the grid.
    ids: Vec<Array>,
    sizes: Vec<usize>,
    /// The references that the kernel may write.
    writable: Vec<Ref>,
}

thread_local! {
    static SCOPES: RefCell<Vec<KernelScope>> = const { RefCell::new(Vec::new()) };
}

/// Removes the scope when dropped.
struct Leave;

impl Drop for Leave {
    fn drop(&mut self) {
        SCOPES.with_borrow_mut(|scopes| scopes.pop());
    }
}

/// Runs the body of a kernel.
pub(super) fn with_kernel<R>(
    ids: &[Array],
    sizes: &[usize],
    refs: &[Ref],
    body: impl FnOnce() -> R,
) -> R {
    let writable = refs.iter().filter(|of| of.is_writable()).cloned().collect();
    let scope = KernelScope { ids: ids.to_vec(), sizes: sizes.to_vec(), writable };
    SCOPES.with_borrow_mut(|scopes| scopes.push(scope));
    let _leave = Leave;
    body()
}

/// Reads the innermost scope.
#[track_caller]
fn with_scope<R>(name: &str, read: impl FnOnce(&KernelScope) -> R) -> R {
    let value = SCOPES.with_borrow(|scopes| scopes.last().map(read));
    value.unwrap_or_else(|| {
        let message = "called outside of a kernel".to_string();
        let error = trace::op_error(OpErrorKind::Value, name, message, Loc::caller());
        trace::throw(error.with_help("call it in the function given to `kernel::call`"))
    })
}

#[track_caller]
fn of_axis<T: Clone>(name: &str, axis: usize, read: impl FnOnce(&KernelScope) -> &[T]) -> T {
    let (value, rank) = with_scope(name, |scope| {
        let all = read(scope);
        (all.get(axis).cloned(), all.len())
    });
    value.unwrap_or_else(|| {
        let message = format!("axis {axis} of a grid with {rank} axes");
        trace::throw_op(OpErrorKind::Value, name, message, Loc::caller())
    })
}

/// Returns the index of the program along an axis of the grid, an `i32[]`.
///
/// Throws `Op` (value) outside of a kernel, and for an axis that the grid does not have.
#[track_caller]
pub fn program_id(axis: usize) -> Array {
    of_axis("program_id", axis, |scope| &scope.ids)
}

/// Returns the number of programs along an axis of the grid.
///
/// Throws `Op` (value) outside of a kernel, and for an axis that the grid does not have.
#[track_caller]
pub fn num_programs(axis: usize) -> usize {
    of_axis("num_programs", axis, |scope| &scope.sizes)
}

/// Returns the states of references.
fn states(refs: &[Ref]) -> Vec<Array> {
    refs.iter().map(Ref::state).collect()
}

fn replace_states(refs: &[Ref], states: Vec<Array>) {
    for (of, state) in refs.iter().zip(states) {
        of.replace_state(state);
    }
}

/// Runs `body` if `pred` is true, a `bool[]` or a number that is not 0. It may write to references.
///
/// Throws `Op` (value) outside of a kernel, `Op` (shape) if `pred` is not a scalar, and whatever
/// `body` throws.
#[track_caller]
pub fn when(pred: impl ArrayLike, body: impl Fn()) {
    let loc = Loc::caller();
    let refs = with_scope("when", |scope| scope.writable.clone());
    let before = states(&refs);
    let run = |states: Vec<Array>| {
        replace_states(&refs, states);
        body();
        self::states(&refs)
    };
    let skip = |states: Vec<Array>| states;
    let after: Vec<Array> = loc.scope(|| control_flow::cond(pred, run, skip, before.clone()));
    replace_states(&refs, after);
}

/// Runs `for i in lower..upper { value = body(i, value) }`, and returns the last value. The body
/// may write to references.
///
/// Bounds are numbers or integer scalars that the kernel computes.
///
/// Throws `Op` (value) outside of a kernel, and as
/// [`fori_loop`](crate::control_flow::fori_loop) does.
#[track_caller]
pub fn fori_loop<C: Tree>(
    lower: impl ArrayLike,
    upper: impl ArrayLike,
    body: impl Fn(Array, C) -> C,
    init: impl Arg<C>,
) -> C {
    let loc = Loc::caller();
    let refs = with_scope("fori_loop", |scope| scope.writable.clone());
    let before = states(&refs);
    let step = |index: Array, (value, states): (C, Vec<Array>)| {
        replace_states(&refs, states);
        let value = body(index, value);
        (value, self::states(&refs))
    };
    let init = crate::tree::share(&*init.hold());
    let (value, after): (C, Vec<Array>) =
        loc.scope(|| control_flow::fori_loop(lower, upper, step, (init, before)));
    replace_states(&refs, after);
    value
}

/// Runs `while cond(value) { value = body(value) }`, and returns the last value. The body may write
/// to references; the condition may only read them.
///
/// Throws `Op` (value) outside of a kernel, and as
/// [`while_loop`](crate::control_flow::while_loop()) does.
#[track_caller]
pub fn while_loop<C: Tree>(
    cond: impl Fn(C) -> Array,
    body: impl Fn(C) -> C,
    init: impl Arg<C>,
) -> C {
    let loc = Loc::caller();
    let refs = with_scope("while_loop", |scope| scope.writable.clone());
    let before = states(&refs);
    let condition = |(value, states): (C, Vec<Array>)| {
        replace_states(&refs, states);
        cond(value)
    };
    let step = |(value, states): (C, Vec<Array>)| {
        replace_states(&refs, states);
        let value = body(value);
        (value, self::states(&refs))
    };
    let init = crate::tree::share(&*init.hold());
    let (value, after): (C, Vec<Array>) =
        loc.scope(|| control_flow::while_loop(condition, step, (init, before)));
    replace_states(&refs, after);
    value
}
