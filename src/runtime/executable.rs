//! Compiling programs and executing them.

use super::buffer::{array_type, device_buffer, wrap};
use super::client::{Runtime, runtime, runtime_error};
use crate::core::callback::refuse_inside;
use crate::core::{Array, Aval, Effects, Error, Program};
use crate::passes;
use oxidax_pjrt::{Buffer, CompileOptions, ExecuteOptions, LoadedExecutable, Signature};
use smallvec::SmallVec;
use std::path::PathBuf;

/// A compiled program.
pub(crate) struct Executable {
    loaded: LoadedExecutable,
    results: Vec<Aval>,
    name: String,
    /// Whether calls wait until the device is done, so that side effects come in the order of the calls.
    ordered: bool,
    /// Keeps the closures alive that the program calls.
    _closures: Option<Program>,
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
        let runtime = runtime()?;
        let text = passes::lower(program, name, &runtime.platform, donatable)?;
        if runtime.platform == "tpu" && text.contains("is_host_transfer") {
            let message = format!("{name}: callbacks from a TPU to the host do not run yet");
            return Err(Error::Compile { message, dump: None });
        }
        let parameters = program.avals_in().iter().map(array_type).collect::<Result<_, _>>();
        let loaded = parameters
            .and_then(|parameters| load(runtime, &text, Signature { parameters }))
            .map_err(|error| Error::Compile {
                message: format!("{name}: {error}"),
                dump: dump(program, &text),
            })?;
        Ok(Executable {
            loaded,
            results: program.avals_out(),
            name: name.to_string(),
            ordered: program.effects() == Effects::Ordered,
            _closures: program.is_opaque().then(|| program.clone()),
        })
    }

    /// Runs it. `donated` marks the arguments that may be consumed; empty for none. Returns before
    /// the device is done.
    ///
    /// # Errors
    /// `Runtime`.
    pub(crate) fn execute(
        &self,
        arguments: &[Array],
        donated: &[bool],
    ) -> Result<Vec<Array>, Error> {
        refuse_inside(&self.name)?;
        let buffers: SmallVec<[&Buffer; 16]> = arguments
            .iter()
            .map(|array| &device_buffer(array).expect("arguments are concrete").0)
            .collect();
        let is_donated = |at: usize| donated.get(at).copied().unwrap_or(false);
        let kept: SmallVec<[i64; 16]> =
            (0..buffers.len()).filter(|&at| !is_donated(at)).map(|at| at as i64).collect();
        let donated: SmallVec<[usize; 16]> =
            (0..buffers.len()).filter(|&at| is_donated(at)).collect();
        let options =
            ExecuteOptions { non_donatable: &kept, donated: &donated, ..Default::default() };
        let failed = |error| runtime_error(format!("executing {}", self.name), &error);
        let outputs = match self.ordered {
            true => {
                let (outputs, done) =
                    self.loaded.execute_with_event(&buffers, &options).map_err(failed)?;
                done.wait().map_err(failed)?;
                outputs
            }
            false => self.loaded.execute(&buffers, &options).map_err(failed)?,
        };
        let outputs = self.results.iter().zip(outputs);
        Ok(outputs.map(|(aval, buffer)| wrap(aval.clone(), buffer)).collect())
    }
}

fn load(
    runtime: &Runtime,
    text: &str,
    signature: Signature,
) -> oxidax_pjrt::Result<LoadedExecutable> {
    let program = oxidax_pjrt::Program::mlir(text)?;
    let mut options = CompileOptions::default();
    if runtime.platform == "cpu" {
        // By default XLA's CPU compiler takes the larger of a number and NaN to be the number; the
        // StableHLO specification, and JAX, say NaN.
        options = options.with_override("xla_cpu_enable_fast_min_max", false);
    }
    runtime.client.compile_with_signature(&program, &options, signature)
}

/// Keeps the text of a program that was refused, for the report; `None` if it cannot be written.
fn dump(program: &Program, text: &str) -> Option<PathBuf> {
    let name = format!("oxidax-{}-{:016x}.mlir", std::process::id(), program.structural_hash());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, text).is_ok().then_some(path)
}
