//! Parts of a program that a file cannot have.

use crate::core::{Aval, Error, Loc, OpErrorKind, Program, trace};
use crate::passes::StableHloModule;

/// The functions outside of StableHLO that JAX keeps compatible, of those that oxidax calls, from
/// the list in `jax/_src/export/_export.py`.
const STABLE_TARGETS: [&str; 5] = [
    "LuDecomposition",
    "ProductOfElementaryHouseholderReflectors",
    "Qr",
    "Sharding",
    "annotate_device_placement",
];

/// Creates an error of exporting a function.
pub(super) fn refused(name: &str, loc: Loc, message: impl Into<String>, help: &str) -> Error {
    let name = format!("export({name})");
    let error = trace::op_error(OpErrorKind::Unsupported, &name, message, loc);
    if help.is_empty() { error } else { error.with_help(help) }
}

/// Refuses a program that calls closures of this process.
///
/// # Errors
/// `Op` (unsupported) with the line of the first call.
pub(super) fn check_host(
    name: &str,
    program: &Program,
    module: &StableHloModule,
) -> Result<(), Error> {
    if !module.calls_host && !module.transfers_to_host {
        return Ok(());
    }
    let (operation, loc) = first_closure(program).unwrap_or(("a callback", Loc::UNKNOWN));
    let message = format!(
        "`{operation}` calls a function of this process, which an exported file does not contain"
    );
    Err(refused(name, loc, message, "remove prints, checks and callbacks from the function"))
}

/// Returns the name and the line of the first operation that holds a closure, and no program.
fn first_closure(program: &Program) -> Option<(&'static str, Loc)> {
    program.eqns().iter().find_map(|eqn| match eqn.primitive.as_higher_order() {
        Some(holder) => holder.programs().iter().find_map(|(_, inner)| first_closure(inner)),
        None => eqn.primitive.is_opaque().then(|| (eqn.primitive.name(), eqn.loc)),
    })
}

/// Refuses calls of functions outside of StableHLO that JAX does not keep compatible.
///
/// # Errors
/// `Op` (unsupported) with the name of the first such function.
pub(super) fn check_targets<'a>(
    name: &str,
    targets: impl IntoIterator<Item = &'a str>,
    allowed: &[String],
) -> Result<(), Error> {
    let is_unstable =
        |target: &&str| !STABLE_TARGETS.contains(target) && allowed.iter().all(|a| a != target);
    match targets.into_iter().find(is_unstable) {
        None => Ok(()),
        Some(target) => {
            let message = format!(
                "it calls `{target}`, which is not among the functions that JAX keeps compatible"
            );
            let help = "allow it with `allow_custom_call` if the reader's XLA has it";
            Err(refused(name, Loc::UNKNOWN, message, help))
        }
    }
}

/// Refuses arrays in the host's memory.
///
/// # Errors
/// `Op` (unsupported) with the type.
pub(super) fn check_memory(name: &str, avals: &[Aval]) -> Result<(), Error> {
    match avals.iter().find(|aval| aval.memory.is_host()) {
        None => Ok(()),
        Some(aval) => {
            let message = format!("{aval} is in the host's memory, which is not exported yet");
            Err(refused(name, Loc::UNKNOWN, message, "pass arrays in the devices' memory"))
        }
    }
}
