//! The verifier: a program is what it says it is.

use crate::core::trace::result_avals;
use crate::core::{Aval, Error, Loc, OpError, OpErrorKind, Program};

/// Checks that every variable is defined once and before its uses, and that each equation's results
/// have the types that its primitive gives.
///
/// Runs after every transform in debug builds.
///
/// # Errors
/// [`Error::Op`] of kind `Bug`, naming the equation: programs that oxidax makes always pass.
pub fn verify(program: &Program) -> Result<(), Error> {
    let mut defined = vec![false; program.avals().len()];
    let mut define = |var: u32, place: &str, location: Loc| match defined.get_mut(var as usize) {
        Some(seen) if !*seen => {
            *seen = true;
            Ok(())
        }
        Some(_) => Err(bug(place, format!("variable {var} is defined twice"), location)),
        None => Err(bug(place, format!("variable {var} has no type"), location)),
    };
    for &var in program.inputs() {
        define(var, "inputs", None)?;
    }
    for eqn in program.eqns() {
        let name = eqn.primitive.name();
        let mut avals: Vec<Aval> = Vec::with_capacity(eqn.operands.len());
        for &var in &eqn.operands {
            match program.avals().get(var as usize) {
                Some(aval) => avals.push(aval.clone()),
                None => return Err(bug(name, format!("operand {var} has no type"), eqn.location)),
            }
        }
        let expected = result_avals(&*eqn.primitive, &avals)
            .map_err(|error| bug(name, error.message, eqn.location))?;
        if expected.len() != eqn.results.len() {
            let message =
                format!("gives {} results, bound to {}", expected.len(), eqn.results.len());
            return Err(bug(name, message, eqn.location));
        }
        for (&var, expected) in eqn.results.iter().zip(&expected) {
            define(var, name, eqn.location)?;
            let found = program.aval(var);
            if found != expected {
                return Err(bug(name, format!("expected {expected}, found {found}"), eqn.location));
            }
        }
        for (_, inner) in eqn.primitive.as_higher_order().iter().flat_map(|h| h.programs()) {
            verify(inner)?;
        }
    }
    // Operands are renumbered by definition order, so a use before its definition has a larger number.
    let mut first_result = program.inputs().len() as u32;
    for eqn in program.eqns() {
        if let Some(var) = eqn.operands.iter().find(|&&var| var >= first_result) {
            let message = format!("operand {var} is used before it is defined");
            return Err(bug(eqn.primitive.name(), message, eqn.location));
        }
        first_result += eqn.results.len() as u32;
    }
    match program.outputs().iter().find(|&&var| var >= first_result) {
        Some(var) => Err(bug("outputs", format!("variable {var} is not defined"), None)),
        None => Ok(()),
    }
}

fn bug(place: &str, message: String, location: Loc) -> Error {
    Error::Op(Box::new(OpError {
        kind: OpErrorKind::Bug,
        primitive: place.to_string(),
        message: format!("this is a bug in oxidax, a program does not verify: {message}"),
        operands: Vec::new(),
        note: None,
        location,
        path: Vec::new(),
        help: None,
    }))
}
