//! A traced function, looked at before it is compiled.

use crate::core::{Cost, Error, Program};
use crate::passes;

/// A function traced on arguments of given types. Made by [`Jit::lower`](super::Jit::lower).
#[derive(Clone, Debug)]
pub struct Lowered {
    pub(super) name: String,
    pub(super) program: Program,
}

impl Lowered {
    /// The traced program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The text of its StableHLO module for `platform`: `cpu`, `cuda` or `tpu`. Operations carry
    /// the user's file and line.
    ///
    /// # Errors
    /// [`Error::Op`] if a primitive refuses the platform.
    pub fn as_text(&self, platform: &str) -> Result<String, Error> {
        passes::lower(&self.program, &self.name, platform, true)
    }

    /// Arithmetic and memory traffic, counted on the program.
    pub fn cost(&self) -> Cost {
        passes::cost(&self.program)
    }
}
