//! The function `while_loop`.

use super::WhileLoop;
use crate::control_flow::closure::{CallSite, Closure, expect_no_collectives, promoted_carry};
use crate::control_flow::derive::avals_of;
use crate::control_flow::threaded_refs::CarriedRefs;
use crate::core::trace::RefUse;
use crate::core::{Array, Error, Loc, OpErrorKind, Primitive, Program, trace};
use crate::primitives::vary;
use crate::tree::{Arg, Function, Tree, leaves_of, rebuild, share};
use std::sync::Arc;

/// Applies `body_fun` to a carry as long as `cond_fun` returns true for it. Returns the final
/// carry.
///
/// Both functions take the carry, by value or by reference, and are traced once. `cond_fun` returns
/// a `bool[]`. The carry keeps its structure, shapes and dtypes from step to step; a leaf that
/// starts weakly typed takes the dtype that `body_fun` returns. Captured values are equal in every
/// step, except for those of an [`ArrayRef`](crate::core::ArrayRef), which the body can change.
///
/// Forward-mode derivatives are supported. Under `vmap` the loop runs until all examples have
/// stopped. Reverse mode is not supported, because it would store values of an unknown number of
/// steps; use [`scan`](super::super::scan()) or [`fori_loop`](super::super::fori_loop()).
///
/// Throws `Tree`, naming the leaf, if the carry changes its type, `Op` (dtype) if the condition is
/// not a `bool[]`, and whatever the functions throw.
///
/// ```
/// use oxidax::prelude::*;
/// // The square root of `a` by Newton's method.
/// let root = |a: Array| {
///     let square = a.clone();
///     let far = move |x: Array| gt(abs(&(&x * &x - &square)), &square * 1e-6);
///     while_loop(far, |x: Array| (&x + &a / &x) * 0.5, ones_like(&a))
/// };
/// assert_eq!(eval_shape(root, Aval::new(DType::F32, []))?.rank(), 0);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn while_loop<C: Tree, MP, MF, P, F>(cond_fun: P, body_fun: F, init: impl Arg<C>) -> C
where
    P: Function<(C,), MP, Output = Array>,
    F: Function<(C,), MF, Output = C>,
{
    let site = CallSite::of("while_loop", &body_fun.name(), Loc::caller());
    let (cond_fun, body_fun) = (|c: C| cond_fun.apply((c,)), |c: C| body_fun.apply((c,)));
    run(&site, &cond_fun, &body_fun, &*init.hold())
}

/// Traces and binds a loop for the function called at `site`.
pub(in crate::control_flow) fn run<C: Tree, P: Fn(C) -> Array, F: Fn(C) -> C>(
    site: &CallSite,
    cond_fun: &P,
    body_fun: &F,
    init: &C,
) -> C {
    if trace::jit_disabled() && !trace::is_tracing() {
        return run_steps(site, cond_fun, body_fun, init)
            .unwrap_or_else(|error| trace::throw(error));
    }
    let mut carry = leaves_of(init);
    let n_carry = carry.len();
    let (body, cond, refs) = loop {
        let body = site.close_body(avals_of(&carry), |leaves| body_fun(rebuild(init, leaves)));
        if let Some(promoted) = promoted_carry(site, init, &carry, &body.template) {
            carry = promoted;
            continue;
        }
        let cond = site.close_body(avals_of(&carry), |leaves| cond_fun(rebuild(init, leaves)));
        if let Some(written) = cond.refs.written().next() {
            trace::throw(written_error(site, written));
        }
        let Some(mut refs) = CarriedRefs::of(&body, site) else { continue };
        // Devices that stop at different steps have different carries.
        let stop_axes = &cond.template.aval().varying;
        if carry.iter().all(|leaf| leaf.aval().varying.covers(stop_axes)) {
            refs.vary(stop_axes, site);
            break (body, cond, refs);
        }
        let programs = [&body.program, &cond.program];
        expect_no_collectives(site.name, programs, stop_axes, site.loc);
        carry = carry.iter().map(|leaf| vary(leaf, stop_axes)).collect();
    };
    let (body, cond) = (refs.thread(body, n_carry, site), refs.thread(cond, n_carry, site));
    carry.extend(refs.values.iter().cloned());
    let Closure { program, captures, template, .. } = body.vary_outputs_like(&carry);
    let mut outputs = bind_loop(site, cond, (program, captures), &carry);
    refs.write_back(&mut outputs, n_carry);
    rebuild(&template, outputs)
}

/// Binds a loop of the condition and the body, which is a program with its captures.
fn bind_loop(
    site: &CallSite,
    cond: Closure<Array>,
    (body, body_captures): (Program, Vec<Array>),
    carry: &[Array],
) -> Vec<Array> {
    if !is_condition(&cond.template) {
        trace::throw(condition_error(site, &cond.template));
    }
    if carry.is_empty() {
        return Vec::new();
    }
    let primitive: Arc<dyn Primitive> = Arc::new(WhileLoop {
        n_cond_consts: cond.captures.len(),
        n_body_consts: body_captures.len(),
        cond: Arc::new(cond.program),
        body: Arc::new(body),
    });
    let operands: Vec<&Array> = cond.captures.iter().chain(&body_captures).chain(carry).collect();
    trace::bind_at(&primitive, &operands, site.loc)
}

fn written_error(site: &CallSite, written: &RefUse) -> Error {
    let message = format!("the condition writes the reference to {}", written.target.aval());
    let loc = written.written.unwrap_or(site.loc);
    let error = trace::op_error(OpErrorKind::Unsupported, site.name, message, loc);
    error.with_help("write it in the body")
}

fn is_condition(x: &Array) -> bool {
    x.dtype().is_bool() && x.rank() == 0
}

fn condition_error(site: &CallSite, x: &Array) -> Error {
    let message = format!("the condition must give bool[], it gives {}", x.aval());
    let error = trace::op_error(OpErrorKind::DType, site.name, message, site.loc);
    if x.rank() == 0 {
        error.with_help("compare: `ne(&x, 0)`")
    } else {
        error.with_help("reduce it: `x.all()` or `x.any()`")
    }
}

/// Runs the closures themselves on concrete arrays, for `disable_jit`.
fn run_steps<C: Tree, P: Fn(C) -> Array, F: Fn(C) -> C>(
    site: &CallSite,
    cond_fun: &P,
    body_fun: &F,
    init: &C,
) -> Result<C, Error> {
    let mut carry = share(init);
    loop {
        let leaves = leaves_of(&carry);
        let condition = cond_fun(rebuild(init, leaves.clone()));
        if !is_condition(&condition) {
            return Err(condition_error(site, &condition));
        }
        if !condition.item::<bool>()? {
            return Ok(carry);
        }
        let next = body_fun(rebuild(init, leaves.clone()));
        promoted_carry(site, init, &leaves, &next);
        carry = next;
    }
}
