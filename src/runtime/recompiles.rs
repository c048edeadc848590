//! Warnings about eager programs that are compiled again for every number.

use crate::core::{Aval, Loc, Program};
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};
use std::sync::{Mutex, PoisonError};

/// Number of lines and types of programs that are remembered.
const LINES: usize = 4096;

/// The eager programs compiled so far, by line, operations and operand types, each with a flag that
/// is true once the user was warned.
#[derive(Default)]
pub(super) struct Recompiles(Mutex<FxHashMap<u64, bool>>);

impl Recompiles {
    /// Notes that `program`, written at `loc`, is being compiled. Warns once per line if a program
    /// of the same operations on the same types was compiled before: they differ in a number that
    /// is part of the program.
    pub(super) fn note(&self, program: &Program, loc: Loc) {
        let mut hasher = FxHasher::default();
        loc.hash(&mut hasher);
        hash_operations(program, &mut hasher);
        let mut compiled = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if compiled.len() >= LINES {
            compiled.clear();
        }
        let Some(warned) = compiled.get_mut(&hasher.finish()) else {
            compiled.insert(hasher.finish(), false);
            return;
        };
        if !std::mem::replace(warned, true) {
            tracing::warn!(
                target: "oxidax::jit",
                at = %loc,
                operations = program.eqns().len(),
                "compiled again, because a number that is part of the program has changed, and \
                 every new number compiles again; pass it as an array: `scalar(x)`"
            );
        }
    }
}

/// Hashes the types of the inputs and the names of the operations, without their parameters.
fn hash_operations(program: &Program, hasher: &mut FxHasher) {
    let inputs: Vec<Aval> = program.avals_in();
    inputs.hash(hasher);
    for eqn in program.eqns() {
        eqn.primitive.name().hash(hasher);
        eqn.operands.hash(hasher);
        let holder = eqn.primitive.as_higher_order();
        for (_, inner) in holder.map(|holder| holder.programs()).unwrap_or_default() {
            hash_operations(inner, hasher);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{DType, Error};
    use crate::prelude::*;

    fn program(f: impl Fn(Array) -> Array, shape: usize) -> Result<Program, Error> {
        make_program(f, Aval::new(DType::F32, [shape]))
    }

    #[test]
    fn programs_that_differ_in_a_number_are_noted_once() -> Result<(), Error> {
        let (recompiles, line, other) = (Recompiles::default(), Loc::caller(), Loc::UNKNOWN);
        let warned = || {
            let compiled = recompiles.0.lock().unwrap_or_else(PoisonError::into_inner);
            compiled.values().filter(|&&warned| warned).count()
        };
        recompiles.note(&program(|x| x.powi(3), 2)?, line);
        // Another line, type, or operation.
        recompiles.note(&program(|x| x.powi(3), 2)?, other);
        recompiles.note(&program(|x| x.powi(3), 4)?, line);
        recompiles.note(&program(|x| sin(&x), 2)?, line);
        assert_eq!(warned(), 0);
        recompiles.note(&program(|x| x.powi(5), 2)?, line);
        assert_eq!(warned(), 1);
        recompiles.note(&program(|x| x.powi(7), 2)?, line);
        assert_eq!(warned(), 1);
        Ok(())
    }
}
