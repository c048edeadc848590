//! Looking at what a function does without running it.

use super::staging::{short_name, trace_function};
use crate::core::{Array, Error, Program, catch};
use crate::tree::{Args, Arguments, Examples, Function, leaves_of, rebuild};

/// The program that `f` traces to on arguments of these types. Captured arrays are inputs behind
/// the declared ones.
///
/// # Errors
/// Whatever `f` throws.
///
/// ```
/// use oxidax::prelude::*;
/// let program = make_program(
///     |x: Array, y: Array| sin(&x) * &y,
///     (Aval::new(DType::F32, [3]), Aval::new(DType::F32, [3])),
/// )?;
/// assert_eq!(program.to_string(), "\
/// { lambda ; a:f32[3] b:f32[3]. let
///     c:f32[3] = sin a
///     d:f32[3] = mul c b
///   in (d) }");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "make_jaxpr")]
#[doc(alias = "make_graph")]
pub fn make_program<A: Args, F: Function<A>>(
    f: F,
    arguments: impl Examples<A>,
) -> Result<Program, Error> {
    let arguments = arguments.examples();
    catch(|| trace_arguments(short_name::<F>(), &f, &arguments).program)
}

fn trace_arguments<A: Args, F: Function<A>>(
    scope: String,
    f: &F,
    arguments: &A,
) -> super::staging::Traced<F::Output> {
    let avals =
        leaves_of(&Arguments::<A>(arguments.refs())).into_iter().map(|leaf| leaf.aval().clone());
    trace_function(scope, avals, |leaves| {
        f.apply(A::unflatten(arguments.refs(), &mut leaves.into_iter()))
    })
}

/// What `f` would give on arguments of these types: its result with leaves that have a type and no
/// elements. Runs nothing and needs no plugin.
///
/// # Errors
/// Whatever `f` throws.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| x.reshape([3, 2]), Aval::new(DType::BF16, [2, 3]))?;
/// assert_eq!(y.aval().to_string(), "bf16[3,2]");
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn eval_shape<A: Args, F: Function<A>>(
    f: F,
    arguments: impl Examples<A>,
) -> Result<F::Output, Error> {
    let arguments = arguments.examples();
    let traced = catch(|| trace_arguments(short_name::<F>(), &f, &arguments))?;
    let avals = traced.program.avals_out();
    Ok(rebuild(&traced.template, avals.into_iter().map(Array::of_type).collect()))
}
