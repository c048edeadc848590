//! [`verify`]: checks that a program is well-formed.

use crate::core::trace::result_avals;
use crate::core::{Aval, Error, Loc, OpError, OpErrorKind, Program};

/// Checks that every variable is defined once, before its uses, and that the results of each
/// equation have the types that its primitive infers.
///
/// Runs after every transform in debug builds.
///
/// # Errors
/// [`Error::Op`] of kind `Bug` with the equation. Programs made by oxidax always pass.
pub fn verify(program: &Program) -> Result<(), Error> {
    let mut defined = vec![false; program.avals().len()];
    let mut define = |var: u32, context: &str, loc: Loc| match defined.get_mut(var as usize) {
        Some(seen) if !*seen => {
            *seen = true;
            Ok(())
        }
        Some(_) => Err(bug(context, format!("variable {var} is defined twice"), loc)),
        None => Err(bug(context, format!("variable {var} has no type"), loc)),
    };
    for &var in program.inputs() {
        define(var, "inputs", Loc::UNKNOWN)?;
    }
    for eqn in program.eqns() {
        let name = eqn.primitive.name();
        let mut avals: Vec<Aval> = Vec::with_capacity(eqn.operands.len());
        for &var in &eqn.operands {
            match program.avals().get(var as usize) {
                Some(aval) => avals.push(aval.clone()),
                None => return Err(bug(name, format!("operand {var} has no type"), eqn.loc)),
            }
        }
        let expected = result_avals(&*eqn.primitive, &avals)
            .map_err(|error| bug(name, error.message, eqn.loc))?;
        if expected.len() != eqn.results.len() {
            let message =
                format!("returns {} results, bound to {}", expected.len(), eqn.results.len());
            return Err(bug(name, message, eqn.loc));
        }
        for (&var, expected) in eqn.results.iter().zip(&expected) {
            define(var, name, eqn.loc)?;
            let actual = program.aval(var);
            if actual != expected {
                return Err(bug(name, format!("expected {expected}, got {actual}"), eqn.loc));
            }
        }
        for (_, inner) in eqn.primitive.as_higher_order().iter().flat_map(|h| h.programs()) {
            verify(inner)?;
        }
    }
    // Variables are numbered in order of definition, so a use before the definition has a larger
    // number.
    let mut first_result = program.inputs().len() as u32;
    for eqn in program.eqns() {
        if let Some(var) = eqn.operands.iter().find(|&&var| var >= first_result) {
            let message = format!("operand {var} is used before it is defined");
            return Err(bug(eqn.primitive.name(), message, eqn.loc));
        }
        first_result += eqn.results.len() as u32;
    }
    match program.outputs().iter().find(|&&var| var >= first_result) {
        Some(var) => Err(bug("outputs", format!("variable {var} is not defined"), Loc::UNKNOWN)),
        None => Ok(()),
    }
}

fn bug(context: &str, message: String, loc: Loc) -> Error {
    Error::Op(Box::new(OpError {
        kind: OpErrorKind::Bug,
        primitive: context.to_string(),
        message: format!("this is a bug in oxidax, a program does not verify: {message}"),
        operands: Vec::new(),
        note: None,
        loc,
        path: Vec::new(),
        help: None,
    }))
}
