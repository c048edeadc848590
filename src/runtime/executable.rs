//! Compiling programs and executing them.

use super::buffer::{device_buffer, wrap};
use super::client::{client, runtime_error};
use crate::core::{Array, Aval, Error, Program};
use crate::passes;
use oxidax_pjrt::LoadedExecutable;

/// A compiled program.
pub(crate) struct Executable {
    loaded: LoadedExecutable,
    results: Vec<Aval>,
}

impl Executable {
    /// Lowers and compiles a program; `donatable` if its calls may donate arguments.
    ///
    /// # Errors
    /// `Plugin`, `Op` if a primitive refuses the platform, `Compile`.
    pub(crate) fn compile(
        program: &Program,
        name: &str,
        donatable: bool,
    ) -> Result<Executable, Error> {
        let client = client()?;
        let text = passes::lower(program, name, "cpu", donatable)?;
        let results = program.avals_out();
        let loaded = client
            .compile(&text, results.len())
            .map_err(|error| Error::Compile { message: error.to_string(), dump: None })?;
        Ok(Executable { loaded, results })
    }

    /// Runs it. `donated` marks the arguments that may be consumed; empty for none.
    ///
    /// # Errors
    /// `Runtime`.
    pub(crate) fn execute(
        &self,
        arguments: &[Array],
        donated: &[bool],
    ) -> Result<Vec<Array>, Error> {
        let buffers: Vec<&oxidax_pjrt::Buffer> = arguments
            .iter()
            .map(|array| &device_buffer(array).expect("arguments are concrete").0)
            .collect();
        let kept: Vec<i64> = (0..buffers.len())
            .filter(|&at| !donated.get(at).copied().unwrap_or(false))
            .map(|at| at as i64)
            .collect();
        let outputs = self
            .loaded
            .execute(&buffers, &kept)
            .map_err(|error| runtime_error("executing", error))?;
        Ok(self
            .results
            .iter()
            .zip(outputs)
            .map(|(aval, buffer)| wrap(aval.clone(), buffer))
            .collect())
    }
}
