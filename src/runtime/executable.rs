//! Compiling programs and executing them.

use super::buffer::{array_type, device_buffer, wrap_in};
use super::client::{Runtime, runtime, runtime_error};
use crate::core::callback::refuse_inside;
use crate::core::{Array, Aval, Buffer, Effects, Error, Program};
use crate::passes;
use oxidax_pjrt::{CompileOptions, ExecuteOptions, LoadedExecutable, Signature, Workspace};
use std::path::PathBuf;
use std::sync::Arc;

/// A compiled program.
pub(crate) struct Executable {
    pub(super) loaded: LoadedExecutable,
    results: Vec<Arc<Aval>>,
    name: String,
    /// Whether calls wait until the device is done, so that side effects come in the order of the calls.
    ordered: bool,
    /// Keeps the closures alive that the program calls.
    _closures: Option<Program>,
}

/// The lists that a call is made of. Kept from call to call, because for hundreds of leaves they are
/// so long that allocating them anew would cost more than the rest of our part.
#[derive(Default)]
pub(crate) struct Scratch {
    /// The buffers that go in.
    pub(crate) arguments: Vec<Arc<dyn Buffer>>,
    /// Positions of those that must survive, ascending.
    pub(crate) kept: Vec<i64>,
    /// What is left of arguments that earlier calls consumed: a place for a result each.
    spare: Vec<Arc<dyn Buffer>>,
    workspace: Workspace,
}

impl Scratch {
    /// Lets go of the arguments.
    pub(crate) fn clear(&mut self) {
        self.arguments.clear();
        self.kept.clear();
    }

    /// Places for results.
    #[cfg(test)]
    pub(crate) fn spare(&self) -> &[Arc<dyn Buffer>] {
        &self.spare
    }

    /// Lets go of the arguments after a call for which `kept` listed those that survive. Of the others
    /// those that `is_consumed` have lost their contents, and with their last owner, who gave them
    /// away, nothing but their place in memory remains.
    pub(crate) fn clear_consumed(&mut self, is_consumed: impl Fn(usize, &Arc<dyn Buffer>) -> bool) {
        self.spare.clear();
        let mut kept = self.kept.drain(..).peekable();
        for (at, buffer) in self.arguments.drain(..).enumerate() {
            if kept.next_if_eq(&(at as i64)).is_none() && is_consumed(at, &buffer) {
                self.spare.push(buffer);
            }
        }
    }
}

/// Which arguments must survive. Which of the others are consumed is the plugin's choice; nobody else may
/// hold their buffers, so nobody needs to be told that they are gone.
#[derive(Clone, Copy)]
pub(crate) enum Kept<'a> {
    /// Those that the scratch lists.
    Listed,
    /// These.
    These(&'a [i64]),
}

impl Executable {
    /// Lowers and compiles a program of which no argument is ever donated.
    ///
    /// # Errors
    /// `Plugin`, `Op` if a primitive refuses the platform, `Compile`.
    pub(crate) fn compile(program: &Program, name: &str) -> Result<Executable, Error> {
        let text = passes::lower(program, name, &runtime()?.platform, false)?;
        let results = program.avals_out().into_iter().map(Arc::new).collect();
        Executable::load(program, name, &text, results)
    }

    /// The text of a program for the default platform; its calls say what is donated.
    ///
    /// # Errors
    /// `Plugin`, `Op` if a primitive refuses the platform.
    pub(crate) fn lower_donatable(program: &Program, name: &str) -> Result<String, Error> {
        passes::lower(program, name, &runtime()?.platform, true)
    }

    /// Compiles the text of a program whose results have the given types.
    ///
    /// # Errors
    /// `Plugin`, `Compile`.
    pub(crate) fn load(
        program: &Program,
        name: &str,
        text: &str,
        results: Vec<Arc<Aval>>,
    ) -> Result<Executable, Error> {
        let runtime = runtime()?;
        if runtime.platform == "tpu" && text.contains("is_host_transfer") {
            let message = format!("{name}: callbacks from a TPU to the host do not run yet");
            return Err(Error::Compile { message, dump: None });
        }
        let parameters = program.avals_in().iter().map(array_type).collect::<Result<_, _>>();
        let loaded = parameters
            .and_then(|parameters| load(runtime, text, Signature { parameters }))
            .map_err(|error| Error::Compile {
                message: format!("{name}: {error}"),
                dump: dump(program, text),
            })?;
        Ok(Executable {
            loaded,
            results,
            name: name.to_string(),
            ordered: program.effects() == Effects::Ordered,
            _closures: program.is_opaque().then(|| program.clone()),
        })
    }

    /// The name of the function that it came from.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Runs it on the arguments in `scratch`. Returns before the device is done; the results are
    /// wrapped as they are taken.
    ///
    /// # Errors
    /// `Runtime`.
    pub(crate) fn execute<'a>(
        &'a self,
        scratch: &'a mut Scratch,
        kept: Kept<'_>,
    ) -> Result<impl Iterator<Item = Array>, Error> {
        refuse_inside(&self.name)?;
        let Scratch { arguments, kept: listed, spare, workspace } = scratch;
        let non_donatable = match kept {
            Kept::Listed => listed,
            Kept::These(positions) => positions,
        };
        let options = ExecuteOptions { non_donatable, ..Default::default() };
        let argument = |at: usize| device_buffer(&arguments[at]);
        let failed = |error| runtime_error(format!("executing {}", self.name), &error);
        let count = arguments.len();
        let outputs = match self.ordered {
            true => {
                let started =
                    self.loaded.execute_in_with_event(workspace, count, argument, &options);
                let (outputs, done) = started.map_err(failed)?;
                done.wait().map_err(failed)?;
                outputs
            }
            false => {
                self.loaded.execute_in(workspace, count, argument, &options).map_err(failed)?
            }
        };
        let outputs = self.results.iter().zip(outputs);
        Ok(outputs.map(|(aval, buffer)| wrap_in(spare.pop(), aval.clone(), buffer)))
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
