//! Tracing a function to inspect its program or the types of its result, without running it.

use super::staging::{Traced, template_of, trace_with_refs};
use crate::core::trace::RefAccess;
use crate::core::{Error, Loc, Program, catch, trace};
use crate::tree::{Args, Arguments, Examples, Function, leaves_of};

/// Returns the program that `f` traces to on arguments of the given types. Captured arrays are
/// inputs after the declared ones.
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
#[track_caller]
pub fn make_program<A: Args, M, F: Function<A, M>>(
    f: F,
    arguments: impl Examples<A>,
) -> Result<Program, Error> {
    let (arguments, loc) = (arguments.examples(), Loc::caller());
    let trace = || trace_arguments(RefAccess::ReadOnly, &f, &arguments);
    let traced = catch(|| loc.scope(|| trace().program));
    traced.map_err(|error| error.at(loc))
}

/// Traces `f`. What it writes to references from outside is dropped.
fn trace_arguments<A: Args, M, F: Function<A, M>>(
    access: RefAccess,
    f: &F,
    arguments: &A,
) -> Traced<F::Output> {
    let leaves = leaves_of(&Arguments::<A>(arguments.refs()));
    let avals = leaves.iter().map(|leaf| leaf.aval().clone());
    trace::with_numbers_as_operands(false, || {
        let traced = trace_with_refs(access, Loc::scoped(), f.name(), avals, |leaves| {
            f.apply(A::unflatten(arguments.refs(), &mut leaves.into_iter()))
        });
        if access == RefAccess::ReadOnly {
            traced.refs.expect_no_arguments("make_program");
        }
        traced
    })
}

/// Returns the result of `f` on arguments of the given types, with leaves that have a type and no
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
#[track_caller]
pub fn eval_shape<A: Args, M, F: Function<A, M>>(
    f: F,
    arguments: impl Examples<A>,
) -> Result<F::Output, Error> {
    let (arguments, loc) = (arguments.examples(), Loc::caller());
    let trace = || trace_arguments(RefAccess::Captures, &f, &arguments);
    let traced = catch(|| loc.scope(|| template_of(&trace().template)));
    traced.map_err(|error| error.at(loc))
}
