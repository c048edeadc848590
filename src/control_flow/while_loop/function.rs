//! The function `while_loop`.

use super::WhileLoop;
use crate::control_flow::closure::{
    Caller, avals_of, close, expect_no_collectives, promoted_carry,
};
use crate::core::{Array, Error, Loc, OpErrorKind, Primitive, trace};
use crate::primitives::vary;
use crate::tree::{Arg, Tree, leaves_of, rebuild};
use std::sync::Arc;

/// Applies `body_fun` to a carry as long as `cond_fun` of the carry is true; gives the last carry.
///
/// Both take the carry as an owned tree and are traced once. `cond_fun` gives a `bool[]`; the carry
/// keeps structure, shapes and dtypes from step to step; leaves that start weakly typed take the dtype
/// that `body_fun` gives them. What either captures is the same in every step.
///
/// Forward derivatives go through, and under `vmap` the loop runs until all examples are done. Reverse
/// mode is refused, because it would have to keep values of an unknown number of steps: use
/// [`scan`](super::super::scan()) or [`fori_loop`](super::super::fori_loop()).
///
/// Throws `Tree`, naming the leaf, if the carry changes its type, `Op` (dtype) if the condition is no
/// `bool[]`, and whatever the functions throw.
///
/// ```
/// use oxidax::prelude::*;
/// // The square root of `a` by Newton's method, to the last digit but one.
/// let root = |a: Array| {
///     let square = a.clone();
///     let far = move |x: Array| gt(abs(&(&x * &x - &square)), &square * 1e-6);
///     while_loop(far, |x: Array| (&x + &a / &x) * 0.5, ones_like(&a))
/// };
/// assert_eq!(eval_shape(root, Aval::new(DType::F32, []))?.rank(), 0);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn while_loop<C: Tree, P: Fn(C) -> Array, F: Fn(C) -> C>(
    cond_fun: P,
    body_fun: F,
    init: impl Arg<C>,
) -> C {
    let caller = Caller::of::<F>("while_loop", Loc::caller());
    run(&caller, &cond_fun, &body_fun, init.tree())
}

/// A loop on behalf of `caller`.
pub(in crate::control_flow) fn run<C: Tree, P: Fn(C) -> Array, F: Fn(C) -> C>(
    caller: &Caller,
    cond_fun: &P,
    body_fun: &F,
    init: &C,
) -> C {
    if trace::jit_disabled() && !trace::is_tracing() {
        return step_by_step(caller, cond_fun, body_fun, init)
            .unwrap_or_else(|error| trace::throw(error));
    }
    let mut carry = leaves_of(init);
    let (body, cond) = loop {
        let body =
            close(caller.scope.clone(), avals_of(&carry), |leaves| body_fun(rebuild(init, leaves)));
        if let Some(promoted) = promoted_carry(caller, init, &carry, &body.template) {
            carry = promoted;
            continue;
        }
        let cond =
            close(caller.scope.clone(), avals_of(&carry), |leaves| cond_fun(rebuild(init, leaves)));
        // Devices that end at different steps end with different values.
        let ends = &cond.template.aval().varying;
        if carry.iter().all(|leaf| leaf.aval().varying.covers(ends)) {
            break (body.levelled(&carry), cond);
        }
        expect_no_collectives(caller.name, [&body.program, &cond.program], ends, caller.loc);
        carry = carry.iter().map(|leaf| vary(leaf, ends)).collect();
    };
    let go_on = cond.template.aval();
    if !go_on.dtype.is_bool() || go_on.rank() != 0 {
        trace::throw(not_a_condition(caller, &cond.template));
    }
    let primitive: Arc<dyn Primitive> = Arc::new(WhileLoop {
        n_cond_consts: cond.captures.len(),
        n_body_consts: body.captures.len(),
        cond: Arc::new(cond.program),
        body: Arc::new(body.program),
    });
    let operands: Vec<&Array> = cond.captures.iter().chain(&body.captures).chain(&carry).collect();
    let found = match carry.is_empty() {
        true => Vec::new(),
        false => trace::bind_at(&primitive, &operands, caller.loc),
    };
    rebuild(&body.template, found)
}

fn not_a_condition(caller: &Caller, found: &Array) -> Error {
    let message = format!("the condition must give bool[], it gives {}", found.aval());
    let error = trace::op_error(OpErrorKind::DType, caller.name, message, caller.loc);
    match found.rank() {
        0 => error.with_help("compare: `ne(&x, 0)`"),
        _ => error.with_help("reduce it: `x.all()` or `x.any()`"),
    }
}

/// Runs the closures themselves, on concrete arrays, for `disable_jit`.
fn step_by_step<C: Tree, P: Fn(C) -> Array, F: Fn(C) -> C>(
    caller: &Caller,
    cond_fun: &P,
    body_fun: &F,
    init: &C,
) -> Result<C, Error> {
    let mut carry = rebuild(init, leaves_of(init));
    loop {
        let leaves = leaves_of(&carry);
        let go_on = cond_fun(rebuild(init, leaves.clone()));
        if !go_on.dtype().is_bool() || go_on.rank() != 0 {
            return Err(not_a_condition(caller, &go_on));
        }
        if !go_on.item::<bool>()? {
            return Ok(carry);
        }
        let next = body_fun(rebuild(init, leaves.clone()));
        promoted_carry(caller, init, &leaves, &next);
        carry = next;
    }
}
