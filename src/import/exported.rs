//! [`ImportedFunction`]: a function that `jax.export` has serialized.

use super::PyTree;
use super::arguments;
use super::evaluation::{Loaded, checked, default_mesh, differentiable, refused, stored};
use crate::core::{Array, Aval, Error, Loc, Mesh, trace};
use crate::jit::{Jit, jit};
use crate::tree::{Arg, Tree};
use oxidax_jax_export::{AbstractValue, Exported};
use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

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
    /// The function on the first devices, for one that was exported for several and has no mesh.
    on_first_devices: Arc<OnceLock<ImportedFunction>>,
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
        let (call, on_first_devices) = (Arc::new(call), Arc::default());
        ImportedFunction { loaded, mesh, derivative_of_operations, call, on_first_devices }
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
        typed(self.loaded.paths.clone(), &self.loaded.exported.inputs)
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
        let (found, wanted) = (leaves.len(), self.loaded.paths.len());
        if found != wanted {
            let message = format!("it takes {wanted} leaves, got {found}");
            return Err(self.error(message).at(loc));
        }
        self.run(leaves)
    }

    fn error(&self, message: impl Into<String>) -> Error {
        refused(self.name(), message)
    }

    #[track_caller]
    fn call_leaves(&self, positional: &impl Tree, keywords: &PyTree) -> Result<Vec<Array>, Error> {
        let loc = Loc::caller();
        let Loaded { exported, paths, .. } = &*self.loaded;
        let leaves = arguments::matched(&exported.input_tree, paths, positional, keywords)
            .map_err(|message| self.error(message).at(loc))?;
        self.run(leaves)
    }

    #[track_caller]
    fn run(&self, leaves: Vec<Array>) -> Result<Vec<Array>, Error> {
        let loc = Loc::caller();
        let leaves =
            checked(&self.loaded, leaves).map_err(|message| self.error(message).at(loc))?;
        let function = match (&self.mesh, self.n_devices()) {
            (None, devices) if devices > 1 => {
                self.on_first_devices().map_err(|error| error.at(loc))?
            }
            _ => self,
        };
        function.call.call(leaves).map_err(|failed| failed.error.at(loc))
    }

    fn on_first_devices(&self) -> Result<&ImportedFunction, Error> {
        if let Some(function) = self.on_first_devices.get() {
            return Ok(function);
        }
        let function = self.over(&default_mesh(&self.loaded)?)?;
        Ok(self.on_first_devices.get_or_init(|| function))
    }
}

fn typed(paths: Vec<String>, types: &[AbstractValue]) -> Vec<(String, String)> {
    paths.into_iter().zip(types.iter().map(AbstractValue::to_string)).collect()
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
