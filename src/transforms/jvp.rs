//! Forward mode: Jacobian-vector products.

use super::staging::{short_name, staged, trace_function};
use crate::core::{Array, Error, OpErrorKind, Program, RuleError, Tangent, TreeError, trace};
use crate::primitives::rules;
use crate::tree::{Tree, leaves_of, paths, rebuild, rooted};
use std::panic::Location;

/// Interprets a program with the `jvp` rules: outputs and their tangents.
pub(crate) fn jvp_program(
    program: &Program,
    primals: &[Array],
    tangents: &[Tangent],
) -> (Vec<Array>, Vec<Tangent>) {
    let inputs = primals.iter().cloned().zip(tangents.iter().cloned());
    let outputs = program.interpret(inputs, |eqn, operands| {
        let (primals, tangents): (Vec<Array>, Vec<Tangent>) =
            operands.iter().map(|&operand| operand.clone()).unzip();
        let (outputs, tangents) = trace::at_location(eqn.location, || {
            if tangents.iter().all(Tangent::is_zero) {
                let operands: Vec<&Array> = primals.iter().collect();
                let outputs = trace::bind_at(&eqn.primitive, &operands, eqn.location);
                let tangents = outputs.iter().map(Tangent::zero_like).collect();
                return (outputs, tangents);
            }
            match eqn.primitive.jvp(&primals, &tangents) {
                Ok(results) => results,
                Err(error) => throw_rule_of(eqn.primitive.name(), error, &primals, eqn.location),
            }
        });
        let results = outputs.into_iter().zip(tangents).zip(&eqn.results);
        results
            .map(|((primal, tangent), &var)| {
                let tangent = rules::level(tangent, primal.aval());
                debug_assert!(
                    primal.aval().same_type(program.aval(var))
                        && tangent.aval().same_type(primal.aval()),
                    "`{}`, rule `jvp`: expected {}, found {} with a tangent of {}",
                    eqn.primitive.name(),
                    program.aval(var),
                    primal.aval(),
                    tangent.aval()
                );
                (primal, tangent)
            })
            .collect()
    });
    outputs.into_iter().unzip()
}

pub(super) fn throw_rule_of(
    name: &str,
    error: RuleError,
    operands: &[Array],
    location: crate::core::Loc,
) -> ! {
    let avals: Vec<_> = operands.iter().map(|array| array.aval().clone()).collect();
    trace::throw_rule(name, error, &avals, location)
}

/// A tangent given by a user for the leaf `primal` at `path`, checked.
pub(super) fn checked_tangent(
    name: &str,
    path: &str,
    primal: &Array,
    tangent: &Array,
    location: &'static Location<'static>,
) -> Tangent {
    if tangent.shape() != primal.shape() || tangent.dtype() != primal.dtype() {
        trace::throw(Error::Tree(Box::new(TreeError {
            path: rooted(path),
            message: format!("{name}: expected {}, got {}", primal.aval(), tangent.aval()),
            location: Some(location),
            help: Some("it must have the shape and dtype of the value it belongs to".into()),
        })));
    }
    match primal.dtype().is_inexact() {
        true => rules::level(Tangent::Dense(tangent.clone()), primal.aval()),
        false => Tangent::zero_like(primal),
    }
}

/// The value of `f` at `primals` and its derivative along `tangents`, in one pass.
///
/// `tangents` has the structure, shapes and dtypes of `primals`. Leaves of integer or boolean dtype
/// do not vary; their part of the derivative is zero.
///
/// Throws `Tree` if `tangents` does not fit `primals`, and whatever `f` throws.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let x = Array::from_slice(&[0.0f32], [])?;
/// let (y, dy) = jvp(|x: &Array| sin(x), &x, &ones_like(&x));
/// assert_eq!(dy.item::<f32>()?, 1.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn jvp<P: Tree, O: Tree>(f: impl Fn(&P) -> O, primals: &P, tangents: &P) -> (O, O) {
    let location = Location::caller();
    crate::tree::expect_alike(primals, tangents, location);
    let scope = format!("jvp({})", name_of(&f));
    staged(|| {
        let primal_leaves = leaves_of(primals);
        let mut inputs: Vec<Tangent> = paths(primals)
            .iter()
            .zip(primal_leaves.iter().zip(leaves_of(tangents)))
            .map(|(path, (primal, tangent))| {
                checked_tangent("jvp", path, primal, &tangent, location)
            })
            .collect();
        let avals = primal_leaves.iter().map(|leaf| leaf.aval().clone());
        let traced = trace_function(scope, avals, |leaves| f(&rebuild(primals, leaves)));
        let mut arguments = primal_leaves;
        inputs.extend(traced.captures.iter().map(Tangent::zero_like));
        arguments.extend(traced.captures);
        let (outputs, tangents) = jvp_program(&traced.program, &arguments, &inputs);
        let tangents = tangents.iter().map(rules::dense).collect();
        (rebuild(&traced.template, outputs), rebuild(&traced.template, tangents))
    })
}

pub(super) fn name_of<F>(_: &F) -> String {
    short_name::<F>()
}

/// The one output of a function that is to be differentiated: a scalar of float dtype.
pub(super) fn expect_scalar_output(
    name: &str,
    output: &Array,
    location: &'static Location<'static>,
) {
    if output.rank() != 0 {
        let message = format!("needs a function with a scalar output, got {}", output.aval());
        trace::throw_op(OpErrorKind::Shape, name, message, Some(location));
    }
    if !output.dtype().is_float() {
        let message = format!("needs a function with a real float output, got {}", output.aval());
        trace::throw_op(OpErrorKind::DType, name, message, Some(location));
    }
}
