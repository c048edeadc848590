//! [`Backend`]: evaluation of operations outside of any trace.

use crate::core::array::array::Array;
use crate::core::error::{Error, Loc};
use crate::core::program::primitive::Primitive;
use crate::core::program::program::Program;
use crate::core::types::aval::Aval;
use std::sync::{Arc, OnceLock};

/// Evaluates operations and programs on concrete arrays. Implemented by `runtime`.
pub trait Backend: Send + Sync {
    /// Copies elements to the default device.
    ///
    /// # Errors
    /// `Plugin` or `Runtime`.
    fn put(&self, bytes: &[u8], aval: &Aval) -> Result<Array, Error>;
    /// Returns a number as an array of this scalar type on the default device. Later calls may
    /// return the same array.
    ///
    /// # Errors
    /// `Plugin` or `Runtime`.
    fn number(&self, bytes: &[u8], aval: &Aval) -> Result<Array, Error>;
    /// Applies one operation.
    ///
    /// # Errors
    /// `Plugin`, `Compile` or `Runtime`.
    fn apply(
        &self,
        primitive: &Arc<dyn Primitive>,
        operands: &[&Array],
        results: Vec<Aval>,
        loc: Loc,
    ) -> Result<Vec<Array>, Error>;
    /// Runs a program, compiled once per structure.
    ///
    /// # Errors
    /// `Plugin`, `Compile` or `Runtime`.
    fn run(&self, program: &Program, arguments: &[Array]) -> Result<Vec<Array>, Error>;
}

/// Returns the backend of this process. The first call installs the one that the crate root names.
pub(crate) fn backend() -> &'static dyn Backend {
    static BACKEND: OnceLock<&'static dyn Backend> = OnceLock::new();
    *BACKEND.get_or_init(crate::default_backend)
}
