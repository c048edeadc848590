//! Programs without closures, which another process can read.

use crate::control_flow::registries;
use crate::core::{Eqn, Error, Loc, OpErrorKind, Primitive, Program, TextForm, trace};
use std::sync::Arc;

/// The treatment of checks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Checks {
    /// They stay.
    Kept,
    /// They are left out, because only oxidax can run them.
    Removed,
}

/// Returns the program with operations that another process can run.
///
/// # Errors
/// `Op` (unsupported) with the operation and the line that needs a closure of this process.
pub(super) fn text_form(program: &Program, checks: Checks) -> Result<Program, Error> {
    Ok(rewritten(program, checks)?.unwrap_or_else(|| program.clone()))
}

/// Returns the rewritten program; `None` if it needs no change.
fn rewritten(program: &Program, checks: Checks) -> Result<Option<Program>, Error> {
    let mut eqns = Vec::with_capacity(program.eqns().len());
    let mut changed = false;
    for eqn in program.eqns() {
        let is_check = eqn.primitive.is_opaque() && eqn.results.is_empty();
        let mut eqn = eqn.clone();
        match eqn.primitive.text_form() {
            TextForm::Same if is_check && checks == Checks::Removed => {
                changed = true;
                continue;
            }
            TextForm::Same => {}
            TextForm::Other { primitive, n_operands } => {
                eqn.operands.truncate(n_operands);
                eqn.primitive = primitive;
                changed = true;
            }
            TextForm::Omitted => {
                changed = true;
                continue;
            }
            TextForm::None => return Err(refuse(&eqn, "its results come from a closure")),
        }
        if let Some(primitive) = with_rewritten_programs(&eqn, checks)? {
            eqn.primitive = primitive;
            changed = true;
        }
        eqns.push(eqn);
    }
    let program = || Program::new(program.avals(), program.inputs(), eqns, program.outputs());
    Ok(changed.then(program))
}

/// Returns the equation's primitive around rewritten programs; `None` if none of them changes.
fn with_rewritten_programs(eqn: &Eqn, checks: Checks) -> Result<Option<Arc<dyn Primitive>>, Error> {
    let Some(holder) = eqn.primitive.as_higher_order() else { return Ok(None) };
    let held = holder.programs();
    let forms: Vec<Option<Program>> =
        held.iter().map(|(_, program)| rewritten(program, checks)).collect::<Result<_, _>>()?;
    if forms.iter().all(Option::is_none) {
        return Ok(None);
    }
    let mut entries = registries().into_iter().flatten();
    let Some(entry) = entries.find(|entry| entry.name == eqn.primitive.name()) else {
        return Err(refuse(eqn, "it holds a closure, and is not an operation of oxidax"));
    };
    let programs = forms.into_iter().zip(held);
    let programs = programs.map(|(form, (_, program))| form.unwrap_or_else(|| program.clone()));
    let primitive = (entry.read)(eqn.primitive.params(), programs.collect());
    primitive.map(Some).map_err(|error| refuse(eqn, &error.message))
}

fn refuse(eqn: &Eqn, reason: &str) -> Error {
    // The name of a callback is a parameter.
    let parameters = eqn.primitive.params();
    let name = parameters.get("name").and_then(serde_json::Value::as_str);
    let name = name.unwrap_or(eqn.primitive.name());
    let message = format!("{reason}, so another process cannot run it");
    let loc = Loc::UNKNOWN.or(eqn.loc);
    loc.scope(|| trace::op_error(OpErrorKind::Unsupported, name, message, loc))
}
