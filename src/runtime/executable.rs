//! Compiling programs and executing them.

use super::buffer::{OnDevice, array_type, device_buffer, wrap_in};
use super::callbacks::calls_host;
use super::client::{Runtime, runtime, runtime_error};
use super::express::named;
use super::home::Home;
use super::lowering_target::lowering_target;
use super::plan::{Plan, Runs};
use super::put::brought;
use super::saved::{self, Request};
use super::shards::{Launch, Shards};
use super::too_large::refusal;
use crate::core::host_function::refuse_inside;
use crate::core::{Array, Aval, Buffer, Effects, Error, Mesh, NamedSharding, Program};
use crate::passes::{self, Placed};
use oxidax_pjrt::{
    CompileOptions, ExecuteOptions, LoadedExecutable, Signature, SpreadResults, Workspace,
};
use std::path::PathBuf;
use std::sync::Arc;

/// A compiled program.
pub(crate) struct Executable {
    pub(super) loaded: LoadedExecutable,
    results: Vec<Arc<Aval>>,
    name: String,
    /// Whether calls wait until the device is done, so that side effects come in the order of the calls.
    ordered: bool,
    /// Whether it was compiled before, and kept on disk.
    from_disk: bool,
    /// Keeps the closures alive that the program calls.
    _closures: Option<Program>,
    /// Whether it calls closures at all; a program can hold some for its derivatives alone.
    calls_host: bool,
    /// Where the arguments are to lie.
    inputs: Vec<Home>,
    pub(super) gives: Gives,
}

/// Where results lie.
pub(super) enum Gives {
    /// On a device; `committed` if an argument was put there.
    On { device: i32, committed: bool },
    /// Over a mesh, each in its way.
    Over(Vec<NamedSharding>),
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
    pub(crate) fn compile(program: &Program, name: &str, plan: Plan) -> Result<Executable, Error> {
        let text = Executable::lower(program, name, &plan, false)?;
        let results = program.avals_out().into_iter().map(Arc::new).collect();
        Executable::load(program, name, &text, results, plan)
    }

    /// The text of a program for the default platform. If it is `donatable`, its calls say what is donated.
    ///
    /// # Errors
    /// `Plugin`, `Op` if a primitive refuses the platform.
    pub(crate) fn lower(
        program: &Program,
        name: &str,
        plan: &Plan,
        donatable: bool,
    ) -> Result<String, Error> {
        let platform = &runtime()?.platform;
        let placed = match plan.runs {
            Runs::On(_) => None,
            Runs::Over(_) => {
                Some(Placed { inputs: plan.input_shardings(), outputs: plan.outputs.clone() })
            }
        };
        passes::lower_placed(program, name, lowering_target(platform), donatable, placed.as_ref())
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
        plan: Plan,
    ) -> Result<Executable, Error> {
        let runtime = runtime()?;
        if runtime.platform == "tpu" && text.contains("is_host_transfer") {
            let message = format!("{name}: callbacks from a TPU to the host do not run yet");
            return Err(Error::Compile { message, dump: None });
        }
        if let Runs::Over(mesh) = &plan.runs
            && mesh.is_absent()
        {
            let message = format!(
                "{name}: the devices of {mesh} are not here; `as_text` lowers for them, and `Mesh::new` takes those \
                 that `devices()` lists"
            );
            return Err(Error::Compile { message, dump: None });
        }
        let shares = Executable::shares(&program.avals_in(), &plan.inputs)?;
        let parameters = shares.iter().map(array_type).collect::<Result<_, _>>();
        let refused = |error: String| Error::Compile {
            message: format!("{name}: {error}"),
            dump: dump(program, text),
        };
        let (loaded, from_disk) = parameters
            .and_then(|parameters| load(runtime, name, text, Signature { parameters }, &plan.runs))
            .map_err(|error| {
                let devices = match &plan.runs {
                    Runs::On(_) => 1,
                    Runs::Over(mesh) => mesh.devices().len(),
                };
                refusal(name, &error, (program, text), devices)
            })?;
        let gives = match &plan.runs {
            Runs::On(device) => Gives::On { device: *device, committed: plan.committed },
            Runs::Over(mesh) => {
                let executable = loaded.executable();
                Gives::Over(chosen(executable, mesh, &results, &plan.outputs).map_err(refused)?)
            }
        };
        let ordered = program.effects() == Effects::Ordered;
        let made = Executable::made(name, loaded, results, plan.inputs, gives, ordered);
        let closures = program.is_opaque().then(|| program.clone());
        Ok(Executable { from_disk, _closures: closures, calls_host: calls_host(text), ..made })
    }

    /// A program that was loaded.
    pub(super) fn made(
        name: &str,
        loaded: LoadedExecutable,
        results: Vec<Arc<Aval>>,
        inputs: Vec<Home>,
        gives: Gives,
        ordered: bool,
    ) -> Executable {
        let name = name.to_string();
        Executable {
            loaded,
            results,
            name,
            ordered,
            from_disk: false,
            _closures: None,
            calls_host: false,
            inputs,
            gives,
        }
    }

    /// What a device has of each argument.
    pub(super) fn shares(avals: &[Aval], homes: &[Home]) -> Result<Vec<Aval>, Error> {
        let shares = avals.iter().zip(homes).map(|(aval, home)| match home {
            Home::Device(_) => Ok(aval.clone()),
            Home::Mesh(sharding) => Ok(aval.with_shape(sharding.shard_shape(&aval.shape)?)),
        });
        shares.collect()
    }

    /// Whether it calls closures of this process.
    pub(super) fn calls_host(&self) -> bool {
        self.calls_host
    }

    /// Whether calls wait until the device is done.
    pub(super) fn is_ordered(&self) -> bool {
        self.ordered
    }

    /// The name of the function that it came from.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether it was compiled before, and loaded from disk.
    pub(crate) fn is_from_disk(&self) -> bool {
        self.from_disk
    }

    /// Where each argument is to lie.
    pub(crate) fn inputs(&self) -> &[Home] {
        &self.inputs
    }

    /// Brings the arguments in `scratch` to where they are to lie; gives the positions of those that were moved.
    ///
    /// # Errors
    /// `Runtime`, `Compile`.
    pub(crate) fn bring(&self, scratch: &mut Scratch, avals: &[Aval]) -> Result<Vec<usize>, Error> {
        let mut moved = Vec::new();
        for (at, (buffer, home)) in scratch.arguments.iter_mut().zip(&self.inputs).enumerate() {
            if !home.is_of(buffer) {
                *buffer = brought(buffer, &avals[at], home)?;
                moved.push(at);
            }
        }
        Ok(moved)
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
        let failed = |error| runtime_error(format!("executing {}", self.name), &error);
        let count = arguments.len();
        let (device, committed) = match &self.gives {
            Gives::On { device, committed } => (*device, *committed),
            Gives::Over(shardings) => {
                let argument = |place: usize, at: usize| device_buffer(&arguments[at], place);
                let launched =
                    self.loaded.execute_spread(count, argument, &options).map_err(failed)?;
                if self.ordered {
                    launched.events.iter().try_for_each(|done| done.wait()).map_err(failed)?;
                }
                return Ok(Outputs::Over(self.gathered(launched, shardings)));
            }
        };
        let argument = |at: usize| device_buffer(&arguments[at], 0);
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
        Ok(Outputs::On(outputs.map(move |(aval, buffer)| {
            wrap_in(spare.pop(), aval.clone(), OnDevice { buffer, device, committed })
        })))
    }

    /// The results of a launch, each array's shards together.
    fn gathered(
        &self,
        SpreadResults { results, events }: SpreadResults,
        shardings: &[NamedSharding],
    ) -> std::vec::IntoIter<Array> {
        let launch = Arc::new(Launch::new(events));
        let mut columns: Vec<_> = results.into_iter().map(Vec::into_iter).collect();
        let arrays: Vec<Array> = self
            .results
            .iter()
            .zip(shardings)
            .map(|(aval, sharding)| {
                let buffers = columns.iter_mut().filter_map(Iterator::next).collect();
                let shards = Shards::new(sharding.clone(), aval.clone(), buffers);
                Array::concrete(aval.clone(), Arc::new(shards.made_by(launch.clone())))
            })
            .collect();
        arrays.into_iter()
    }
}

/// The results of an execution, wrapped as they are taken.
enum Outputs<I> {
    On(I),
    Over(std::vec::IntoIter<Array>),
}

impl<I: Iterator<Item = Array>> Iterator for Outputs<I> {
    type Item = Array;
    fn next(&mut self) -> Option<Array> {
        match self {
            Outputs::On(results) => results.next(),
            Outputs::Over(results) => results.next(),
        }
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Outputs::On(results) => results.size_hint(),
            Outputs::Over(results) => results.size_hint(),
        }
    }
}

/// How the results of a program over a mesh lie: as was wished, or as the compiler chose.
pub(super) fn chosen(
    executable: &oxidax_pjrt::Executable,
    mesh: &Mesh,
    results: &[Arc<Aval>],
    wished: &[Option<NamedSharding>],
) -> Result<Vec<NamedSharding>, String> {
    let wish = |at: usize| wished.get(at).cloned().flatten();
    if (0..results.len()).all(|at| wish(at).is_some()) {
        return Ok((0..results.len()).filter_map(wish).collect());
    }
    let found = executable.result_shardings().map_err(|error| error.to_string())?;
    let each = results.iter().enumerate().map(|(at, aval)| {
        if let Some(wish) = wish(at) {
            return Ok(wish);
        }
        let Some(sharding) = found.as_ref().and_then(|found| found.get(at)) else {
            return Ok(mesh.replicated());
        };
        named(mesh, sharding, aval.rank()).ok_or_else(|| {
            format!(
                "the compiler gives result {at}, {aval}, as {sharding:?}, which the axes of {mesh} do not say; \
                 say how you want it with `out_shardings`"
            )
        })
    });
    each.collect()
}

/// Options of a program for one device, the first.
pub(super) fn on_first(platform: &str) -> CompileOptions {
    for_platform(platform, CompileOptions::default())
}

/// Options of a program for devices of these numbers, spread over them by its shardings.
pub(super) fn over(platform: &str, ids: Vec<i64>) -> CompileOptions {
    let spmd = CompileOptions::spmd(ids.len());
    for_platform(platform, CompileOptions { device_assignment: Some(vec![ids]), ..spmd })
}

fn for_platform(platform: &str, options: CompileOptions) -> CompileOptions {
    match platform {
        // By default XLA's CPU compiler takes the larger of a number and NaN to be the number; the
        // StableHLO specification, and JAX, say NaN.
        "cpu" => options.with_override("xla_cpu_enable_fast_min_max", false),
        _ => options,
    }
}

/// Loads a program that was compiled before, or compiles it; and which of both it was.
fn load(
    runtime: &Runtime,
    name: &str,
    text: &str,
    signature: Signature,
    runs: &Runs,
) -> oxidax_pjrt::Result<(LoadedExecutable, bool)> {
    let options = match runs {
        Runs::On(id) if *id == runtime.local[0].id() => on_first(&runtime.platform),
        Runs::On(id) => for_platform(&runtime.platform, CompileOptions::on_device(*id)),
        Runs::Over(mesh) => {
            let ids = mesh.devices().iter().map(|device| i64::from(device.id())).collect();
            over(&runtime.platform, ids)
        }
    };
    // Compilers of one program over several processes talk to each other, so all of them must be at it: one process
    // that finds the program would leave the others waiting.
    let is_ours = match runs {
        Runs::On(_) => true,
        Runs::Over(mesh) => mesh.is_local(),
    };
    let may_be_kept = is_ours && !calls_host(text);
    saved::executable(runtime, Request { name, text, options, signature, may_be_kept })
}

/// Keeps the text of a program that was refused, for the report; `None` if it cannot be written.
pub(super) fn dump(program: &Program, text: &str) -> Option<PathBuf> {
    let name = format!("oxidax-{}-{:016x}.mlir", std::process::id(), program.structural_hash());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, text).is_ok().then_some(path)
}
