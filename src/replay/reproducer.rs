//! Reproducers: a StableHLO module and its inputs in a folder.

use super::range::Range;
use super::recording::{Input, Recording};
use super::report::Replay;
use super::text_form::{Checks, text_form};
use crate::core::{
    Array, Aval, DType, Device, Eqn, Error, HostArray, Kind, Mesh, NamedSharding, Placement,
    Program, Shape, Var, with_stand_ins,
};
use crate::passes::{self, LowerOptions, Plan, PlanInput, StableHloModule};
use crate::runtime::{
    CompilerOptions, Executable, NonDonatable, Scratch, devices_of, target_of, with_default_device,
};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MODULE: &str = "module.mlir";
const MANIFEST: &str = "reproducer.json";

/// A type of the manifest.
#[derive(Debug, Serialize, Deserialize)]
struct TypeEntry {
    dtype: String,
    shape: Vec<usize>,
}

impl TypeEntry {
    fn of(aval: &Aval) -> TypeEntry {
        TypeEntry { dtype: aval.dtype.name().to_string(), shape: aval.shape.to_vec() }
    }

    fn aval(&self) -> Option<Aval> {
        let dtype = DType::from_name(&self.dtype)?;
        let sizes = self.shape.iter();
        sizes.clone().try_fold(dtype.host_bytes(), |bytes, &size| bytes.checked_mul(size))?;
        Some(Aval::new(dtype, self.shape.clone()))
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct InputEntry {
    file: String,
    /// The path of the leaf.
    path: String,
    #[serde(flatten)]
    aval: TypeEntry,
    /// The sharding, in a program over several devices.
    sharding: Option<NamedSharding>,
}

/// The inputs and results of a module.
#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    name: String,
    /// The number of CPU devices that the process needs.
    devices: usize,
    mesh: Option<Mesh>,
    inputs: Vec<InputEntry>,
    results: Vec<TypeEntry>,
}

/// Writes the reproducer of a recording, and of the bad operation alone.
pub(super) fn write(
    recording: &Recording,
    folder: &Path,
    replay: Option<&Replay>,
) -> Result<Vec<PathBuf>, Error> {
    std::fs::create_dir_all(folder).map_err(|error| Error::io(folder, error))?;
    let mut entries = std::fs::read_dir(folder).map_err(|error| Error::io(folder, error))?;
    if entries.next().is_some() {
        let error = std::io::Error::new(
            std::io::ErrorKind::AlreadyExists,
            "the folder of a reproducer must be empty",
        );
        return Err(Error::io(folder, error));
    }
    let mut files = Vec::new();
    let program = with_conditions(&recording.program)?;
    let n_conditions = program.outputs().len() - recording.program.outputs().len();
    let mut text = format!("Recorded because {}.\n", recording.cause);
    if n_conditions > 0 {
        text.push_str(&format!(
            "\nThe last {n_conditions} results are the conditions of its checks.\n"
        ));
    }
    if let Some(found) = replay.and_then(|replay| replay.found.as_ref()) {
        text.push_str(&format!(
            "\nThe first operation that went wrong:\n\n```text\n{found}\n```\n"
        ));
    }
    let inputs = recording.inputs.iter();
    let inputs: Vec<(&str, &HostArray)> =
        inputs.map(|Input { path, elements }| (path.as_str(), elements)).collect();
    write_module(folder, &recording.function, &program, &inputs, &text, &mut files)?;
    let found = replay.and_then(|replay| replay.found.as_ref());
    if let Some((found, (program, operands))) =
        found.and_then(|found| Some((found, found.alone.as_ref()?)))
    {
        let program = text_form(program, Checks::Removed)?;
        if !program.eqns().is_empty() {
            let names: Vec<String> =
                (0..operands.len()).map(|index| format!("operand {index}")).collect();
            let inputs: Vec<(&str, &HostArray)> =
                names.iter().map(String::as_str).zip(operands).collect();
            let text = format!(
                "The operation of `{}` that went wrong, alone:\n\n```text\n{found}\n```\n",
                recording.function
            );
            let folder = folder.join("operation");
            write_module(&folder, &found.operation, &program, &inputs, &text, &mut files)?;
        }
    }
    Ok(files)
}

/// Returns the program without checks. Conditions of those outside of held programs are results.
fn with_conditions(program: &Program) -> Result<Program, Error> {
    let is_check = |eqn: &&Eqn| {
        eqn.primitive.is_opaque() && eqn.results.is_empty() && !eqn.operands.is_empty()
    };
    let conditions = program.eqns().iter().filter(is_check).map(|eqn| eqn.operands[0]);
    let outputs: Vec<Var> = program.outputs().iter().copied().chain(conditions).collect();
    text_form(&program.with_outputs(&outputs), Checks::Removed)
}

fn write_module(
    folder: &Path,
    name: &str,
    program: &Program,
    inputs: &[(&str, &HostArray)],
    text: &str,
    files: &mut Vec<PathBuf>,
) -> Result<(), Error> {
    let plan = Plan::new(name, program, &vec![PlanInput::default(); inputs.len()], &[])?;
    let target = target_of(program, "cpu");
    let module = passes::lower_with_plan(program, name, target, LowerOptions::default(), &plan)?;
    let devices = plan.mesh().map_or(1, |mesh| mesh.devices().len());
    let numbers = plan.mesh().into_iter().flat_map(Mesh::devices);
    let numbers = numbers.map(|device| device.id().0.max(0) as usize + 1);
    let mut write = |path: PathBuf, bytes: &[u8]| {
        let folder = path.parent().unwrap_or(folder);
        std::fs::create_dir_all(folder).map_err(|error| Error::io(folder, error))?;
        std::fs::write(&path, bytes).map_err(|error| Error::io(&path, error))?;
        files.push(path);
        Ok::<(), Error>(())
    };
    write(folder.join(MODULE), module.text.as_bytes())?;
    let mut entries = Vec::with_capacity(inputs.len());
    for (index, (path, elements)) in inputs.iter().enumerate() {
        let file = format!("inputs/{index:03}.npy");
        write(folder.join(&file), &elements.to_npy())?;
        entries.push(InputEntry {
            file,
            path: (*path).to_string(),
            aval: TypeEntry::of(elements.aval()),
            sharding: plan.inputs.get(index).cloned(),
        });
    }
    let manifest = Manifest {
        name: name.to_string(),
        devices: numbers.fold(1, usize::max),
        mesh: plan.mesh().cloned(),
        inputs: entries,
        results: program.avals_out().iter().map(TypeEntry::of).collect(),
    };
    let manifest = serde_json::to_vec_pretty(&manifest)
        .map_err(|error| Error::Plugin(format!("writing {MANIFEST}: {error}")))?;
    write(folder.join(MANIFEST), &manifest)?;
    let rows: String = inputs
        .iter()
        .enumerate()
        .map(|(index, (path, elements))| {
            let range = Range::of_host(elements, elements.aval());
            format!("| `inputs/{index:03}.npy` | `{path}` | {range} |\n")
        })
        .collect();
    let readme = format!(
        "# `{name}`\n\n{text}\n`{MODULE}` is a StableHLO module for {devices} CPU device(s), with \
         the function `main`. Its arguments are the `.npy` files, in this order:\n\n\
         | file | argument | numbers |\n|---|---|---|\n{rows}\n\
         Compile it with any PJRT plugin, or run it with the one of oxidax, which prints the \
         numbers of the results:\n\n```text\noxidax replay {}\n```\n",
        folder.display()
    );
    write(folder.join("README.md"), readme.as_bytes())
}

/// Compiles and runs the module of a reproducer on the CPU, and returns the results.
///
/// # Errors
/// [`Error::Io`]; [`Error::Plugin`] if a file is damaged, or the process has fewer CPU devices than
/// the module needs; [`Error::Compile`], [`Error::Runtime`].
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::replay::{Recording, run_reproducer};
/// let folder = tempfile::tempdir().expect("a folder");
/// let file = folder.path().join("step.failure");
/// jit(|x: Array| log(&x)).record(&file, &full([2], -1.0_f32))?;
/// let reproducer = folder.path().join("reproducer");
/// Recording::open(&file)?.write_reproducer(&reproducer, None)?;
/// assert!(run_reproducer(&reproducer)?[0].to_vec::<f32>()?[0].is_nan());
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn run_reproducer(folder: impl AsRef<Path>) -> Result<Vec<Array>, Error> {
    let folder = folder.as_ref();
    let read = |file: &str| read(folder, file);
    let damaged = |file: &str, problem: String| damaged(folder, file, problem);
    let text =
        String::from_utf8(read(MODULE)?).map_err(|_| damaged(MODULE, "it is not text".into()))?;
    let cpus: Arc<[Device]> = devices_of("cpu")?.into();
    let manifest = read(MANIFEST)?;
    let manifest = with_stand_ins(cpus.clone(), || serde_json::from_slice::<Manifest>(&manifest));
    let manifest = manifest.map_err(|error| damaged(MANIFEST, error.to_string()))?;
    let inputs = read_inputs(folder, &manifest)?;
    let results = manifest.results.iter().map(TypeEntry::aval).collect::<Option<Vec<Aval>>>();
    let results = results.ok_or_else(|| damaged(MANIFEST, "a type is invalid".into()))?;
    with_default_device(cpus[0].id(), || run_module(&manifest, text, &inputs, results))?
}

/// Returns the inputs of a reproducer on one device, as arrays on the default device.
///
/// # Errors
/// [`Error::Io`]; [`Error::Plugin`] if the folder is not that of a reproducer, or its inputs are
/// divided among devices.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::replay::{Recording, reproducer_inputs};
/// let folder = tempfile::tempdir().expect("a folder");
/// let file = folder.path().join("step.failure");
/// jit(|x: Array| log(&x)).record(&file, &full([2], -1.0_f32))?;
/// let reproducer = folder.path().join("reproducer");
/// Recording::open(&file)?.write_reproducer(&reproducer, None)?;
/// assert_eq!(reproducer_inputs(&reproducer)?[0].to_vec::<f32>()?, [-1.0, -1.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn reproducer_inputs(folder: impl AsRef<Path>) -> Result<Vec<Array>, Error> {
    let folder = folder.as_ref();
    let manifest = serde_json::from_slice::<Manifest>(&read(folder, MANIFEST)?);
    let manifest = manifest.map_err(|error| damaged(folder, MANIFEST, error.to_string()))?;
    let inputs = read_inputs(folder, &manifest)?.into_iter();
    let arrays = inputs.map(|x| Array::from_bytes(x.as_bytes(), x.dtype(), x.shape().clone()));
    arrays.collect()
}

fn read_inputs(folder: &Path, manifest: &Manifest) -> Result<Vec<HostArray>, Error> {
    let inputs = manifest.inputs.iter().map(|InputEntry { file, aval, .. }| {
        let bytes = read(folder, file)?;
        let array = aval
            .aval()
            .zip(HostArray::npy_elements(&bytes))
            .and_then(|(aval, elements)| HostArray::from_bytes(elements.to_vec(), aval).ok());
        array.ok_or_else(|| {
            let TypeEntry { dtype, shape } = aval;
            let problem = format!("it is not an array of {dtype} with the sizes {shape:?}");
            damaged(folder, file, problem)
        })
    });
    inputs.collect()
}

/// Returns the number of CPU devices that [`run_reproducer`] needs. Needs no plugin.
///
/// # Errors
/// [`Error::Io`]; [`Error::Plugin`] if the folder is not that of a reproducer.
///
/// ```
/// let error = oxidax::replay::reproducer_devices("missing").unwrap_err();
/// assert_eq!(error.code(), "io");
/// ```
pub fn reproducer_devices(folder: impl AsRef<Path>) -> Result<usize, Error> {
    #[derive(Deserialize)]
    struct Devices {
        devices: usize,
    }
    let folder = folder.as_ref();
    let manifest = serde_json::from_slice::<Devices>(&read(folder, MANIFEST)?);
    let manifest = manifest.map_err(|error| damaged(folder, MANIFEST, error.to_string()))?;
    Ok(manifest.devices)
}

fn read(folder: &Path, file: &str) -> Result<Vec<u8>, Error> {
    let path = folder.join(file);
    std::fs::read(&path).map_err(|error| Error::io(path, error))
}

fn damaged(folder: &Path, file: &str, problem: String) -> Error {
    Error::Plugin(format!("{}: {problem}", folder.join(file).display()))
}

fn run_module(
    manifest: &Manifest,
    text: String,
    inputs: &[HostArray],
    results: Vec<Aval>,
) -> Result<Vec<Array>, Error> {
    // The compiler needs only the types of the inputs; the equations are in the text.
    let avals: Vec<Aval> = inputs.iter().map(|input| input.aval().clone()).collect();
    let vars: Vec<Var> = (0..avals.len() as Var).collect();
    let program = Program::new(&avals, &vars, Vec::new(), &[]);
    let plan_inputs: Vec<PlanInput> = manifest
        .inputs
        .iter()
        .map(|input| PlanInput { sharding: input.sharding.clone(), ..PlanInput::default() })
        .collect();
    let mut plan = Plan::new(&manifest.name, &program, &plan_inputs, &[])?;
    if let Some(mesh) = &manifest.mesh {
        plan.target = Some(Placement::Mesh(mesh.replicated()));
    }
    let module = StableHloModule::of_text(text);
    let results = results.into_iter().map(Arc::new).collect();
    let options = CompilerOptions::default();
    let executable = Executable::load(&program, &manifest.name, &module, results, &plan, &options)?;
    let mut scratch = Scratch::default();
    for input in inputs {
        let shape: Shape = input.shape().clone();
        let array = Array::from_bytes(input.as_bytes(), input.dtype(), shape)?;
        if let Kind::Concrete(buffer) = array.kind {
            scratch.arguments.push(buffer);
        }
    }
    if !executable.are_placed(&scratch) {
        executable.transfer_arguments(&mut scratch, &avals)?;
    }
    executable.execute(&mut scratch, NonDonatable::Indices(&[]), |results| results.collect())
}
