//! Linearization: the jvp at a point as a program that is linear in the tangents.

use super::checks::checked_tangents;
use super::jvp::jvp_program;
use super::staging::{TracedCall, debug_verify, staged, template_of, trace_call_with_refs};
use super::transpose::transpose_live_program;
use crate::core::trace::{Mode, RefAccess, RefUses, Tracing};
use crate::core::{Array, Aval, Dense, Known, Loc, Marks, Program, Tangent};
use crate::passes;
use crate::primitives::zeros_of;
use crate::tree::{
    Function, PrimalArgs, Primals, Transformed, Tree, expect_alike, leaves_of, paths, rebuild,
};
use std::ops::Deref;

/// The derivative of a program at a point, as a linear program.
#[derive(Clone)]
pub(crate) struct LinearMap {
    /// Maps the tangents of the varying inputs, followed by the residuals, to the dense tangents of
    /// the outputs. Contains no dead code.
    pub(crate) program: Program,
    /// Values of the primal computation that the linear program uses.
    pub(crate) residuals: Vec<Array>,
    /// The outputs of the original program that have a dense tangent.
    pub(crate) outputs: Marks<Dense>,
}

impl LinearMap {
    /// Maps tangents of the varying inputs to tangents of the outputs, which have the given types.
    fn apply(&self, tangents: &[Tangent], avals: &[Aval]) -> Vec<Array> {
        let mut operands: Vec<Array> = tangents.iter().map(Tangent::to_dense).collect();
        operands.extend(self.residuals.iter().cloned());
        let mut dense = passes::eval(&self.program, &operands).into_iter();
        let mut outputs = Vec::with_capacity(avals.len());
        for (aval, is_dense) in avals.iter().zip(self.outputs.iter()) {
            outputs.push(if is_dense {
                dense.next().expect("one array per dense output")
            } else {
                zeros_of(aval)
            });
        }
        outputs
    }

    /// Maps cotangents of the outputs to cotangents of the varying inputs.
    pub(crate) fn pull_back(&self, cts: &[Tangent]) -> Vec<Tangent> {
        let n_varying = self.program.inputs().len() - self.residuals.len();
        let known: Marks<Known> = Marks::none(n_varying).concat(&Marks::all(self.residuals.len()));
        let cts = self.outputs.select(cts);
        transpose_live_program(&self.program, &known, &self.residuals, &cts)
    }

    /// Maps cotangents of the outputs to one cotangent per leaf of `primals`. Leaves of integer or
    /// boolean dtype get zeros.
    pub(super) fn pull_back_to(&self, cts: &[Tangent], primals: &[Array]) -> Vec<Array> {
        let cts = self.pull_back(cts);
        let mut cts = cts.iter().map(Tangent::to_dense);
        let mut pulled = Vec::with_capacity(primals.len());
        for primal in primals {
            pulled.push(if primal.dtype().is_inexact() {
                cts.next().expect("one cotangent per inexact leaf")
            } else {
                zeros_of(primal.aval())
            });
        }
        pulled
    }
}

/// Linearizes a program in the inputs marked by `varying`, which must be inexact. Returns its
/// outputs, and the derivative of the first `n_differentiated` of them.
///
/// This is the jvp under a lazy trace. Primal work is recorded below, in the current trace.
/// Equations that use a tangent are recorded in the linear program, and the primal values that they
/// use become residuals.
pub(crate) fn linearize_program(
    program: &Program,
    arguments: &[Array],
    varying: &Marks<Dense>,
    n_differentiated: usize,
) -> (Vec<Array>, LinearMap) {
    linearize_with_refs(program, arguments, varying, n_differentiated, &RefUses::default())
}

/// As [`linearize_program`], for a program whose last outputs are the final values of references,
/// which must not vary.
fn linearize_with_refs(
    program: &Program,
    arguments: &[Array],
    varying: &Marks<Dense>,
    n_differentiated: usize,
    refs: &RefUses,
) -> (Vec<Array>, LinearMap) {
    let tracing = Tracing::begin(Mode::Lazy, None);
    let mut tangents = Vec::with_capacity(arguments.len());
    for (argument, is_varying) in arguments.iter().zip(varying.iter()) {
        tangents.push(if is_varying {
            Tangent::Dense(tracing.input(argument.aval().clone()))
        } else {
            Tangent::zero_like(argument)
        });
    }
    let (outputs, mut tangents) = jvp_program(program, arguments, &tangents);
    assert!(
        !outputs.iter().any(|output| tracing.owns(output)),
        "this is a bug in oxidax: a primal output depends on a tangent"
    );
    refs.expect_constant(&tangents[tangents.len() - refs.n_written()..]);
    tangents.truncate(n_differentiated);
    let dense: Vec<Array> = tangents.iter().filter_map(Tangent::array).cloned().collect();
    let (linear, residuals) = tracing.finish(&dense);
    let linear = passes::dce(&linear);
    debug_verify(&linear);
    (outputs, LinearMap { program: linear, residuals, outputs: Marks::of_tangents(&tangents) })
}

/// Traces `f` and linearizes it at `primals`, in the current trace. The second part of its result
/// is not differentiated.
pub(super) fn linearize_call<P: Tree, O: Tree, X: Tree>(
    scope: String,
    f: impl FnOnce(P) -> (O, X),
    primals: &P,
) -> (O, X, LinearMap) {
    let call = trace_call_with_refs(RefAccess::Captures, scope.clone(), f, primals);
    call.refs.expect_no_arguments(&scope);
    let n_differentiated = leaves_of(&call.template.0).len();
    let varying = Marks::of(&call.operands[..call.n_arguments], |leaf| leaf.dtype().is_inexact())
        .padded(call.n_captures());
    let TracedCall { program, operands, refs, .. } = &call;
    let (mut outputs, map) =
        linearize_with_refs(program, operands, &varying, n_differentiated, refs);
    refs.write_back(&mut outputs);
    let (outputs, aux) = rebuild(&call.template, outputs);
    (outputs, aux, map)
}

/// Does the work of [`linearize_call`] as one stage.
#[track_caller]
pub(super) fn linearize_staged<P: Tree, O: Tree, X: Tree>(
    scope: String,
    f: impl FnOnce(P) -> (O, X),
    primals: &P,
) -> (O, X, LinearMap) {
    let mut linear_map = None;
    // Residuals leave the stage with the outputs, as concrete arrays if this is the top level.
    let ((outputs, aux), residuals) = staged(|| {
        let (outputs, aux, mut map) = linearize_call(scope, f, primals);
        let residuals = std::mem::take(&mut map.residuals);
        linear_map = Some(map);
        ((outputs, aux), residuals)
    });
    let map = linear_map.expect("staged work has run");
    (outputs, aux, LinearMap { residuals, ..map })
}

/// The derivative of a function at a point: a linear map from tangents of the inputs to tangents of
/// the outputs. Created by [`linearize`].
///
/// It is called, `derivative(&tangents)`, any number of times, and transforms accept it. It holds
/// the residuals of the primal computation.
pub struct Linearized<P, O> {
    program: Program,
    push_forward: Box<dyn Fn(&P) -> O + Send + Sync>,
}

impl<P: Tree, O: Tree> Linearized<P, O> {
    fn new(primals: P, outputs: O, map: LinearMap, created: Loc) -> Linearized<P, O> {
        let program = map.program.clone();
        let push_forward = move |tangents: &P| {
            let loc = Loc::scoped().or(created);
            expect_alike(&primals, tangents, loc);
            staged(|| {
                let leaves = leaves_of(&primals);
                let inexact: Marks<Dense> = Marks::of(&leaves, |leaf| leaf.dtype().is_inexact());
                let tangents = checked_tangents(
                    "linear",
                    &inexact.select(&paths(&primals)),
                    &inexact.select(&leaves),
                    &inexact.select(&leaves_of(tangents)),
                    loc,
                );
                let avals: Vec<Aval> =
                    leaves_of(&outputs).iter().map(|leaf| leaf.aval().clone()).collect();
                rebuild(&outputs, map.apply(&tangents, &avals))
            })
        };
        Linearized { program, push_forward: Box::new(push_forward) }
    }

    /// Returns the tangents of the outputs for tangents of the inputs, as a call does.
    ///
    /// Throws `Tree` if `tangents` does not match the primal inputs. The error names the line of
    /// `apply`; that of a call names the line of [`linearize`].
    #[track_caller]
    pub fn apply(&self, tangents: &P) -> O {
        Loc::caller().scope(|| (self.push_forward)(tangents))
    }

    /// Returns the linear program. Its inputs are the tangents of the inexact leaves, then the
    /// residuals.
    pub fn program(&self) -> &Program {
        &self.program
    }
}

impl<P, O> Deref for Linearized<P, O> {
    type Target = dyn Fn(&P) -> O + Send + Sync;
    fn deref(&self) -> &Self::Target {
        &*self.push_forward
    }
}

#[diagnostic::do_not_recommend]
impl<P: Tree, O: Tree> Function<(P,), Transformed> for Linearized<P, O> {
    type Output = O;
    fn apply(&self, (tangents,): (P,)) -> O {
        (self.push_forward)(&tangents)
    }
    fn name(&self) -> String {
        "linearize".into()
    }
}

/// Returns the value of `f` at `primals`, and its derivative there as a linear map.
///
/// For a function of several arguments, `primals` and the tangents are tuples. Cheaper than several
/// [`jvp`](super::jvp()) at one point, because the primal computation runs once.
///
/// Throws whatever `f` throws.
///
/// ```
/// use oxidax::prelude::*;
/// let x = Array::from_slice(&[0.0f32], [])?;
/// let (y, derivative) = linearize(|x: &Array| sin(x), &x);
/// assert_eq!(derivative(&ones_like(&x)).item::<f32>()?, 1.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn linearize<A: PrimalArgs, M, F: Function<A, M>>(
    f: F,
    primals: impl Primals<A>,
) -> (F::Output, Linearized<A::Primals, F::Output>) {
    let loc = Loc::caller();
    let scope = format!("linearize({})", f.name());
    let primals = loc.scope(|| primals.tree());
    let f = |primals| (f.apply(A::from_primals(primals)), ());
    let (outputs, (), map) = linearize_staged(scope, f, &primals);
    let derivative = Linearized::new(template_of(&primals), template_of(&outputs), map, loc);
    (outputs, derivative)
}

/// As [`linearize`], for a function that also returns values that are not differentiated. Returns
/// `(value, aux, derivative)`.
#[doc(alias = "has_aux")]
#[track_caller]
pub fn linearize_aux<A: PrimalArgs, O: Tree, X: Tree, M, F: Function<A, M, Output = (O, X)>>(
    f: F,
    primals: impl Primals<A>,
) -> (O, X, Linearized<A::Primals, O>) {
    let loc = Loc::caller();
    let scope = format!("linearize({})", f.name());
    let primals = loc.scope(|| primals.tree());
    let f = |primals| f.apply(A::from_primals(primals));
    let (outputs, aux, map) = linearize_staged(scope, f, &primals);
    let derivative = Linearized::new(template_of(&primals), template_of(&outputs), map, loc);
    (outputs, aux, derivative)
}
