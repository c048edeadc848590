//! Forward mode: Jacobian-vector products.

use super::checks::{checked_tangents, throw_rule_error};
use super::staging::{staged, trace_call_with_refs};
use crate::core::trace::{RefAccess, RefUses};
use crate::core::{Array, Derivation, Loc, Program, Tangent, trace};
use crate::tree::{Function, PrimalArgs, Primals, Tree, expect_alike, leaves_of, paths, rebuild};

/// Interprets a program with the `jvp` rules. Returns the outputs and their tangents.
pub(crate) fn jvp_program(
    program: &Program,
    primals: &[Array],
    tangents: &[Tangent],
) -> (Vec<Array>, Vec<Tangent>) {
    let inputs = primals.iter().cloned().zip(tangents.iter().cloned());
    let outputs = program.interpret(inputs, |eqn, operands| {
        let (primals, tangents): (Vec<Array>, Vec<Tangent>) =
            operands.iter().map(|&operand| operand.clone()).unzip();
        let loc = eqn.loc.derived(Derivation::Jvp);
        let (outputs, tangents) = loc.scope(|| {
            if tangents.iter().all(Tangent::is_zero) {
                let operands: Vec<&Array> = primals.iter().collect();
                let outputs = trace::bind_at(&eqn.primitive, &operands, loc);
                let tangents = outputs.iter().map(Tangent::zero_like).collect();
                return (outputs, tangents);
            }
            eqn.primitive.jvp(&primals, &tangents).unwrap_or_else(|error| {
                throw_rule_error(eqn.primitive.name(), error, &primals, loc)
            })
        });
        let mut results = Vec::with_capacity(outputs.len());
        for (&var, (primal, tangent)) in eqn.results.iter().zip(outputs.into_iter().zip(tangents)) {
            let tangent = tangent.vary_like(primal.aval());
            debug_assert!(
                primal.aval().same_type(program.aval(var))
                    && tangent.aval().same_type(primal.aval()),
                "`{}`, rule `jvp`: expected {}, found {} with a tangent of {}",
                eqn.primitive.name(),
                program.aval(var),
                primal.aval(),
                tangent.aval()
            );
            results.push((primal, tangent));
        }
        results
    });
    outputs.into_iter().unzip()
}

/// Returns the value of `f` at `primals` and its derivative along `tangents`, in one pass.
///
/// For a function of several arguments, both are tuples: `jvp(f, (&x, &y), (&dx, &dy))`. `tangents`
/// has the structure, shapes and dtypes of `primals`. Leaves of integer or boolean dtype
/// do not contribute to the derivative.
///
/// Throws `Tree` if `tangents` does not match `primals`, and whatever `f` throws.
///
/// ```
/// use oxidax::prelude::*;
/// let x = Array::from_slice(&[0.0f32], [])?;
/// let (y, dy) = jvp(|x: &Array| sin(x), &x, &ones_like(&x));
/// assert_eq!(dy.item::<f32>()?, 1.0);
/// let (_, dz) = jvp(|x: &Array, y: &Array| x * y, (2.0, 3.0), (1.0, 0.0));
/// assert_eq!(dz.item::<f32>()?, 3.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn jvp<A: PrimalArgs, M, F: Function<A, M>>(
    f: F,
    primals: impl Primals<A>,
    tangents: impl Primals<A>,
) -> (F::Output, F::Output) {
    let loc = Loc::caller();
    let scope = format!("jvp({})", f.name());
    let (primals, tangents) = loc.scope(|| (primals.tree(), tangents.tree()));
    let f = |primals| (f.apply(A::from_primals(primals)), ());
    let (outputs, tangents, ()) = jvp_staged(scope, f, &primals, &tangents, loc);
    (outputs, tangents)
}

/// As [`jvp`], for a function that also returns values that are not differentiated. Returns
/// `(value, tangent, aux)`.
///
/// ```
/// use oxidax::prelude::*;
/// let f = |x: &Array| (sin(x), cos(x));
/// let (_, dy, cosine) = jvp_aux(f, &zeros([]), &ones([]));
/// assert_eq!(dy.item::<f32>()?, cosine.item::<f32>()?);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "has_aux")]
#[track_caller]
pub fn jvp_aux<A: PrimalArgs, O: Tree, X: Tree, M, F: Function<A, M, Output = (O, X)>>(
    f: F,
    primals: impl Primals<A>,
    tangents: impl Primals<A>,
) -> (O, O, X) {
    let loc = Loc::caller();
    let scope = format!("jvp({})", f.name());
    let (primals, tangents) = loc.scope(|| (primals.tree(), tangents.tree()));
    let f = |primals| f.apply(A::from_primals(primals));
    jvp_staged(scope, f, &primals, &tangents, loc)
}

/// Returns the outputs, their tangents and the auxiliary values of `f`, in one stage.
#[track_caller]
fn jvp_staged<P: Tree, O: Tree, X: Tree>(
    scope: String,
    f: impl FnOnce(P) -> (O, X),
    primals: &P,
    tangents: &P,
    loc: Loc,
) -> (O, O, X) {
    expect_alike(primals, tangents, loc);
    staged(|| {
        let tangents = checked_tangents(
            "jvp",
            &paths(primals),
            &leaves_of(primals),
            &leaves_of(tangents),
            loc,
        );
        let call = trace_call_with_refs(RefAccess::Captures, scope, f, primals);
        call.refs.expect_no_arguments("jvp");
        let (outputs, mut tangents) = jvp_call(&call.program, &call.operands, tangents, &call.refs);
        tangents.truncate(leaves_of(&call.template.0).len());
        let (outputs, aux) = rebuild(&call.template, outputs);
        (outputs, rebuild(&call.template.0, tangents), aux)
    })
}

/// Returns the outputs and dense tangents of a traced function, whose captures are constant. Writes
/// the final values of references.
fn jvp_call(
    program: &Program,
    operands: &[Array],
    mut tangents: Vec<Tangent>,
    refs: &RefUses,
) -> (Vec<Array>, Vec<Array>) {
    tangents.extend(operands[tangents.len()..].iter().map(Tangent::zero_like));
    let (mut outputs, mut tangents) = jvp_program(program, operands, &tangents);
    refs.expect_constant(&tangents.split_off(tangents.len() - refs.n_written()));
    refs.write_back(&mut outputs);
    (outputs, tangents.iter().map(Tangent::to_dense).collect())
}
