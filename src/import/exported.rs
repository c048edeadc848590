//! [`ImportedFunction`]: a function that `jax.export` has serialized.

use super::arguments::{self, Argument};
use super::translate::{Constants, KnownIntegers, Target, Traced, Translator};
use super::{PyTree, variables};
use crate::control_flow::custom_vjp;
use crate::core::{Array, Aval, DType, Error, Loc, Mesh, trace};
use crate::jit::{Jit, jit};
use crate::parallel;
use crate::primitives::{convert_element_type, undifferentiable};
use crate::runtime;
use crate::tree::{Arg, Tree};
use oxidax_jax_export::{AbstractValue, Exported, JaxDType, PyTreeDef};
use oxidax_vhlo::PortableArtifact;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A function that [`jax.export`](https://docs.jax.dev/en/latest/export/export.html) has
/// serialized, or oxidax.
///
/// It is called in any traced code or outside of it. Under `vmap` each operation is mapped. It has
/// the derivative that was exported with it (`exported.serialize(vjp_order=1)`). Arguments are
/// found by the paths of their leaves: a Rust struct stands for a dictionary with the names of its
/// fields, and for a named tuple or a registered type by the order of its fields.
///
/// ```no_run
/// use oxidax::import::ImportedFunction;
/// use oxidax::prelude::*;
/// // open("predict.jax_export", "wb").write(jax.export.export(jax.jit(predict))(params, x)
/// //     .serialize())
/// let predict = ImportedFunction::load("predict.jax_export")?;
/// println!("{predict}");
/// let params = BTreeMap::from([("w", ones([4, 2])), ("b", zeros([2]))]);
/// # use std::collections::BTreeMap;
/// # let params: BTreeMap<String, Array> =
/// #     params.into_iter().map(|(name, leaf)| (name.to_owned(), leaf)).collect();
/// let logits = predict.call((params, ones([3, 4])))?.into_array()?;
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone)]
pub struct ImportedFunction {
    loaded: Arc<Loaded>,
    mesh: Option<Mesh>,
    derivative_of_operations: bool,
    call: Arc<Jit<'static, (Vec<Array>,), Vec<Array>>>,
}

/// A function and its module.
struct Loaded {
    exported: Exported,
    artifact: PortableArtifact,
    constants: Constants,
    vjp: Option<Arc<Loaded>>,
}

impl Loaded {
    fn new(exported: Exported) -> Result<Arc<Loaded>, Error> {
        let artifact = PortableArtifact::read(&exported.module)
            .map_err(|error| refused(&exported.name, error.to_string()))?;
        let vjp = exported.vjp.as_deref().cloned().map(Loaded::new).transpose()?;
        Ok(Arc::new(Loaded { exported, artifact, constants: Constants::default(), vjp }))
    }
}

fn refused(place: impl fmt::Display, message: impl Into<String>) -> Error {
    Error::Exchange {
        place: format!("`{place}`"),
        message: message.into(),
        loc: Loc::UNKNOWN,
        help: None,
    }
}

impl ImportedFunction {
    /// Reads a file.
    ///
    /// # Errors
    /// `Io` if it cannot be read; `Exchange` if it is damaged, or of a version of the format or of
    /// StableHLO that is not known.
    pub fn load(path: impl AsRef<Path>) -> Result<ImportedFunction, Error> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(|error| Error::io(path, error))?;
        ImportedFunction::read(&bytes).map_err(|error| match error {
            Error::Exchange { place, message, loc, help } => Error::Exchange {
                place: format!("{}: {place}", path.display()),
                message,
                loc,
                help,
            },
            other => other,
        })
    }

    /// Reads the bytes that `Exported.serialize()` has returned.
    ///
    /// # Errors
    /// `Exchange` if they are damaged, or of a version of the format or of StableHLO that is not
    /// known.
    pub fn read(bytes: &[u8]) -> Result<ImportedFunction, Error> {
        let exported =
            Exported::read(bytes).map_err(|error| refused("jax.export", error.to_string()))?;
        Ok(ImportedFunction::of(Loaded::new(exported)?, None, false))
    }

    fn of(loaded: Arc<Loaded>, mesh: Option<Mesh>, derivative_of_operations: bool) -> Self {
        let (traced, on_mesh) = (loaded.clone(), mesh.clone());
        let call = jit(move |leaves: Vec<Array>| -> Vec<Array> {
            differentiable(&traced, on_mesh.as_ref(), derivative_of_operations, leaves)
        });
        ImportedFunction { loaded, mesh, derivative_of_operations, call: Arc::new(call) }
    }

    /// Returns the function, to be called on the devices of a mesh. A function that was exported
    /// for several devices is otherwise called on the first ones of the default platform.
    ///
    /// # Errors
    /// `Exchange` if the mesh has another number of devices.
    pub fn over(&self, mesh: &Mesh) -> Result<ImportedFunction, Error> {
        let (found, wanted) = (mesh.devices().len(), self.n_devices());
        if found != wanted {
            let message = format!("it was exported for {wanted} devices, the mesh has {found}");
            return Err(refused(self.name(), message));
        }
        Ok(Self::of(self.loaded.clone(), Some(mesh.clone()), self.derivative_of_operations))
    }

    /// Returns the function, to be differentiated operation by operation if no derivative was
    /// exported with it. Python's `custom_vjp` and `stop_gradient` have left no trace in the
    /// module, so its derivative may differ from that in JAX.
    #[must_use]
    pub fn with_derivative_of_operations(&self) -> ImportedFunction {
        Self::of(self.loaded.clone(), self.mesh.clone(), true)
    }

    /// Returns the name of the Python function.
    pub fn name(&self) -> &str {
        &self.loaded.exported.name
    }

    /// Returns the platforms that it was exported for: `cpu`, `tpu`, `cuda`, `rocm`.
    pub fn platforms(&self) -> &[String] {
        &self.loaded.exported.platforms
    }

    /// Returns the number of devices that it was exported for.
    pub fn n_devices(&self) -> usize {
        self.loaded.exported.devices as usize
    }

    /// Returns the paths of the arguments' leaves in Python, and their types: `[0]['w']` and
    /// `float32[b,4]`.
    pub fn inputs(&self) -> Vec<(String, String)> {
        typed(arguments::paths(&self.loaded.exported.input_tree), &self.loaded.exported.inputs)
    }

    /// Returns the types of the arguments' leaves; `None` for one with dimension variables.
    pub fn input_types(&self) -> Vec<Option<Aval>> {
        let types = self.loaded.exported.inputs.iter().map(|input| {
            let (dtype, inner) = stored(input.dtype)?;
            let sizes = input.shape.iter().map(|size| usize::try_from(size.known()?).ok());
            let sizes = sizes.chain(inner.iter().map(|size| Some(*size)));
            Some(Aval::new(dtype, sizes.collect::<Option<Vec<usize>>>()?))
        });
        types.collect()
    }

    /// Returns the paths of the results' leaves in Python, and their types.
    pub fn outputs(&self) -> Vec<(String, String)> {
        typed(self.loaded.exported.output_tree.paths(), &self.loaded.exported.outputs)
    }

    /// Returns true if a derivative was exported with it.
    pub fn has_derivative(&self) -> bool {
        self.loaded.vjp.is_some()
    }

    /// Returns the exported derivative: a function of the arguments' leaves and the results'
    /// cotangents, in order, that returns the cotangents of the arguments.
    pub fn vjp(&self) -> Option<ImportedFunction> {
        let vjp = self.loaded.vjp.clone()?;
        Some(Self::of(vjp, self.mesh.clone(), self.derivative_of_operations))
    }

    /// Calls the function with positional arguments: one tree for a function of one argument, a
    /// tuple of trees for others. Keyword arguments are passed with
    /// [`call_with`](Self::call_with).
    ///
    /// # Errors
    /// `Exchange` with the paths of missing and surplus leaves, and of leaves of other types; or
    /// with a part of the module that is not supported; and those of
    /// [`Jit::call`](crate::jit::Jit).
    #[track_caller]
    pub fn call<T: Tree>(&self, arguments: impl Arg<T>) -> Result<PyTree, Error> {
        self.call_with(arguments, PyTree::None)
    }

    /// Calls the function with positional and keyword arguments.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    #[track_caller]
    pub fn call_with<T: Tree>(
        &self,
        arguments: impl Arg<T>,
        keywords: PyTree,
    ) -> Result<PyTree, Error> {
        let leaves = self.call_leaves(&*arguments.hold(), &keywords)?;
        Ok(PyTree::of(&self.loaded.exported.output_tree, &mut leaves.into_iter()))
    }

    /// Calls the function and returns its result in the structure of an example, whose leaves only
    /// matter for their paths.
    ///
    /// # Errors
    /// As [`call`](Self::call); `Exchange` if the result has other paths than the example.
    #[track_caller]
    pub fn call_as<T: Tree, O: Tree>(
        &self,
        arguments: impl Arg<T>,
        example: &O,
    ) -> Result<O, Error> {
        let leaves = self.call_leaves(&*arguments.hold(), &PyTree::None)?;
        arguments::rebuilt(&self.loaded.exported.output_tree, leaves, example)
            .map_err(|message| self.error(format!("the result: {message}")))
    }

    /// Calls the function and throws errors instead of returning them, for use in traced code.
    #[track_caller]
    pub fn apply<T: Tree>(&self, arguments: impl Arg<T>) -> PyTree {
        self.call(arguments).unwrap_or_else(|error| trace::throw(error))
    }

    /// Calls the function with the leaves of its arguments in the order of
    /// [`inputs`](Self::inputs), and returns the leaves of its result in the order of
    /// [`outputs`](Self::outputs).
    ///
    /// # Errors
    /// As [`call`](Self::call).
    #[track_caller]
    pub fn call_flat(&self, leaves: Vec<Array>) -> Result<Vec<Array>, Error> {
        let loc = Loc::caller();
        let inputs = self.inputs();
        if leaves.len() != inputs.len() {
            let (found, wanted) = (leaves.len(), inputs.len());
            let message = format!("it takes {wanted} leaves, got {found}");
            return Err(self.error(message).at(loc));
        }
        let leaves = inputs.into_iter().zip(leaves);
        self.run(leaves.map(|((path, _), array)| Argument { path, array }).collect())
    }

    fn error(&self, message: impl Into<String>) -> Error {
        refused(self.name(), message)
    }

    #[track_caller]
    fn call_leaves(&self, positional: &impl Tree, keywords: &PyTree) -> Result<Vec<Array>, Error> {
        let loc = Loc::caller();
        let leaves = arguments::matched(&self.loaded.exported.input_tree, positional, keywords)
            .map_err(|message| self.error(message).at(loc))?;
        self.run(leaves)
    }

    #[track_caller]
    fn run(&self, leaves: Vec<Argument>) -> Result<Vec<Array>, Error> {
        let loc = Loc::caller();
        let leaves = checked(&self.loaded.exported, leaves)
            .map_err(|message| self.error(message).at(loc))?;
        let call = match (&self.mesh, self.n_devices()) {
            (None, devices) if devices > 1 => {
                let mesh = default_mesh(&self.loaded).map_err(|error| error.at(loc))?;
                self.over(&mesh)?.call
            }
            _ => self.call.clone(),
        };
        call.call(leaves).map_err(|failed| failed.error.at(loc))
    }
}

/// Returns a mesh of the first devices, with the axes for which the function was exported.
fn default_mesh(loaded: &Loaded) -> Result<Mesh, Error> {
    let exported = &loaded.exported;
    let count = exported.devices as usize;
    let devices = parallel::devices()?;
    if devices.len() < count {
        let found = devices.len();
        let message = format!("it was exported for {count} devices, there are {found}");
        return Err(refused(&exported.name, message));
    }
    let shardings = exported.input_shardings.iter().chain(&exported.output_shardings);
    let named = shardings.flatten().find_map(|sharding| match sharding {
        oxidax_jax_export::Sharding::Named { mesh, .. } => {
            let axes = mesh.axes.iter().map(|axis| (axis.name.clone(), axis.size as usize));
            Some(axes.collect::<Vec<_>>())
        }
        _ => None,
    });
    let meshes = loaded.artifact.meshes();
    let meshes = meshes.map_err(|error| refused(&exported.name, error.to_string()))?;
    let stated = meshes.into_values().map(|axes| -> Vec<(String, usize)> {
        axes.into_iter().map(|(name, size)| (name.to_owned(), size as usize)).collect()
    });
    let fits = |axes: &Vec<(String, usize)>| {
        axes.iter().try_fold(1_usize, |n, (_, size)| n.checked_mul(*size)) == Some(count)
    };
    let axes = named.into_iter().chain(stated).find(fits);
    // Before version 0.7 the files do not name axes. Shardings are over prime factors of the number
    // of devices.
    let factors = || {
        let factors = runtime::prime_factors(count).into_iter().enumerate();
        factors.map(|(index, factor)| (format!("axis{index}"), factor)).collect()
    };
    let axes = axes.unwrap_or_else(factors);
    Mesh::new(&devices[..count], axes)
}

fn typed(paths: Vec<String>, types: &[AbstractValue]) -> Vec<(String, String)> {
    paths.into_iter().zip(types.iter().map(AbstractValue::to_string)).collect()
}

/// Returns the dtype and the additional axes in which an array is stored.
fn stored(dtype: JaxDType) -> Option<(DType, &'static [usize])> {
    use oxidax_jax_export::KeyAlgorithm;
    Some(match dtype {
        JaxDType::Key(KeyAlgorithm::Threefry) => (DType::U32, &[2]),
        JaxDType::Key(_) => (DType::U32, &[4]),
        JaxDType::Float0 => (DType::Bool, &[]),
        other => (arguments::dtype_of(other)?, &[]),
    })
}

/// Checks the types of leaves, and converts weakly typed numbers.
fn checked(exported: &Exported, leaves: Vec<Argument>) -> Result<Vec<Array>, String> {
    let (mut wrong, mut sizes, mut arrays) = (Vec::new(), Vec::new(), Vec::new());
    for (Argument { path, array }, expected) in leaves.into_iter().zip(&exported.inputs) {
        let Some((dtype, inner)) = stored(expected.dtype) else {
            wrong.push(format!("{path}: the dtype {} is not supported", expected.dtype.name()));
            continue;
        };
        let array = match array.aval().weak && array.dtype() != dtype {
            true => convert_element_type(&array, dtype),
            false => array,
        };
        let rank = expected.shape.len() + inner.len();
        let known = expected
            .shape
            .iter()
            .zip(array.shape().iter())
            .all(|(stated, size)| stated.known().is_none_or(|stated| stated == *size as u64));
        let fits = array.rank() == rank && array.shape()[expected.shape.len()..] == *inner && known;
        if !fits || array.dtype() != dtype {
            wrong.push(format!("{path} is {}, it was exported for {expected}", array.aval()));
        } else {
            for (axis, (dimension, size)) in
                expected.shape.iter().zip(array.shape().iter()).enumerate()
            {
                sizes.push((format!("{path}, axis {axis}"), dimension, *size));
            }
        }
        arrays.push(array);
    }
    if wrong.is_empty() {
        variables::solve(&sizes)?;
        return Ok(arrays);
    }
    Err(wrong.join("; "))
}

/// Runs the function, with its exported derivative.
fn differentiable(
    loaded: &Arc<Loaded>,
    mesh: Option<&Mesh>,
    of_operations: bool,
    leaves: Vec<Array>,
) -> Vec<Array> {
    let on = mesh.cloned();
    match &loaded.vjp {
        Some(vjp) => {
            let (function, vjp) = (loaded.clone(), vjp.clone());
            let forward_function = loaded.clone();
            let (on_forward, on_backward, on_function) = (on.clone(), on.clone(), on);
            let call = custom_vjp(
                move |x: &Vec<Array>| evaluated(&function, on_function.as_ref(), x.clone()),
                move |x: &Vec<Array>| {
                    (evaluated(&forward_function, on_forward.as_ref(), x.clone()), x.clone())
                },
                move |x: &Vec<Array>, cotangents: &Vec<Array>| {
                    backward(&vjp, on_backward.as_ref(), x, cotangents)
                },
            );
            call(&leaves)
        }
        None if of_operations => evaluated(loaded, mesh, leaves),
        None => {
            let help = "export it with `exported.serialize(vjp_order=1)`, or use \
                        `with_derivative_of_operations`";
            let guarded = leaves.iter().map(|x| match x.dtype().is_inexact() {
                true => undifferentiable(x, &loaded.exported.name, help),
                false => x.clone(),
            });
            let guarded = guarded.collect();
            evaluated(loaded, mesh, guarded)
        }
    }
}

/// Returns the cotangents of the arguments by the exported derivative.
fn backward(
    vjp: &Arc<Loaded>,
    mesh: Option<&Mesh>,
    x: &[Array],
    cotangents: &[Array],
) -> Vec<Array> {
    let inputs = x.iter().chain(cotangents).zip(&vjp.exported.inputs).map(|(x, stated)| {
        // Cotangents of integers have no contents.
        match stored(stated.dtype) {
            Some((dtype, _)) if dtype != x.dtype() => convert_element_type(x, dtype),
            _ => x.clone(),
        }
    });
    let inputs = inputs.collect();
    let results = differentiable(vjp, mesh, true, inputs);
    let each = results.into_iter().zip(x);
    each.map(|(result, x)| match result.dtype() == x.dtype() {
        true => result,
        false => crate::primitives::zeros_of(&Aval::new(x.dtype(), x.shape().clone())),
    })
    .collect()
}

/// Translates the module's main function.
fn evaluated(loaded: &Loaded, mesh: Option<&Mesh>, leaves: Vec<Array>) -> Vec<Array> {
    translated(loaded, mesh, leaves).unwrap_or_else(|error| trace::throw(error))
}

fn translated(
    loaded: &Loaded,
    mesh: Option<&Mesh>,
    leaves: Vec<Array>,
) -> Result<Vec<Array>, Error> {
    let exported = &loaded.exported;
    let platform = runtime::platform()?;
    let accepts = |wanted: &String| *wanted == platform || (wanted == "cuda" && platform == "gpu");
    let index = exported.platforms.iter().position(accepts);
    let ignores = exported.disabled_checks.contains(&oxidax_jax_export::DisabledCheck::Platform);
    let Some(index) = index.or(ignores.then_some(0)) else {
        let stated = exported.platforms.join(", ");
        let message = format!("it was exported for {stated}, the platform is {platform}");
        let mut error = refused(&exported.name, message);
        if let Error::Exchange { help, .. } = &mut error {
            *help = Some(format!("export it with `platforms=[\"{platform}\"]`"));
        }
        return Err(error);
    };
    let target = Target {
        name: exported.name.clone(),
        platform: platform.to_owned(),
        mesh: mesh.cloned(),
        loc: Loc::UNKNOWN,
    };
    let translator = Translator::new(&loaded.artifact, &target, &loaded.constants);
    let mut arguments = Vec::new();
    // The index of the platform, for a function of several.
    if exported.platforms.len() > 1 {
        arguments.push(Traced::Known(KnownIntegers::scalar(DType::I32, index as i64)));
    }
    arguments.extend(exported.ordered_effects.iter().map(|_| Traced::Token));
    let used = exported.used_inputs.iter().filter_map(|index| leaves.get(*index));
    let used = used.enumerate().map(|(at, x)| placed(loaded, mesh, at, x));
    arguments.extend(used.map(Traced::Array));
    let results = translator.call("main", arguments)?;
    let results = results.into_iter().skip(exported.ordered_effects.len());
    let results = results.map(|value| match value {
        Traced::Array(array) | Traced::Filled(array, _) => Ok(array),
        Traced::Known(known) => known.to_array(),
        other => Err(refused(&exported.name, format!("{} is a result", other.kind()))),
    });
    results.collect()
}

/// Constrains an argument to the sharding that it was exported with.
fn placed(loaded: &Loaded, mesh: Option<&Mesh>, used: usize, x: &Array) -> Array {
    let exported = &loaded.exported;
    let sharding = exported.used_inputs.get(used).and_then(|at| exported.input_shardings.get(*at));
    let Some((mesh, Some(oxidax_jax_export::Sharding::Named { spec, .. }))) = mesh.zip(sharding)
    else {
        return x.clone();
    };
    arguments::sharding(mesh, spec)
        .map_or_else(|| x.clone(), |sharding| crate::primitives::constrained(x, sharding))
}

impl fmt::Display for ImportedFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exported = &self.loaded.exported;
        let platforms = exported.platforms.join(", ");
        write!(f, "{} for {platforms}", exported.name)?;
        if exported.devices > 1 {
            write!(f, ", {} devices", exported.devices)?;
        }
        for (title, leaves) in [("arguments", self.inputs()), ("results", self.outputs())] {
            write!(f, "\n{title}:")?;
            for (path, ty) in leaves {
                write!(f, "\n  {}{ty}", if path.is_empty() { path } else { path + ": " })?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for ImportedFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Returns true for the structure of positional arguments and keyword arguments.
pub(super) fn is_signature(tree: &PyTreeDef) -> bool {
    matches!(tree, PyTreeDef::Tuple(parts)
        if matches!(&parts[..], [PyTreeDef::Tuple(_), PyTreeDef::Dict(_)]))
}
