//! [`Export`]: a function, as a file that JAX reads.

use super::check::{check_host, check_memory, check_targets, refused};
use super::flat::{FlatFunction, LeafType, ResultLeaf, Source};
use super::{pytree, types};
use crate::core::{Error, Loc};
use crate::jit::{Lowered, LoweredFunction};
use crate::tree::{Args, Tree};
use oxidax_jax_export::{AbstractValue, DisabledCheck, Exported, PyTreeDef};
use oxidax_vhlo::{PortableArtifact, VhloVersion};
use std::fmt;
use std::path::Path;

/// The platforms that JAX has.
const PLATFORMS: [&str; 4] = ["cpu", "cuda", "rocm", "tpu"];

/// A function to be written as a file that [`jax.export`] reads. Made by [`Lowered::export`].
///
/// [`jax.export`]: https://docs.jax.dev/en/latest/export/export.html
#[derive(Clone)]
#[must_use = "an export does nothing before `to_bytes` or `save`"]
pub struct Export {
    function: FlatFunction,
    arguments: PyTreeDef,
    results: PyTreeDef,
    platforms: Vec<String>,
    vjp_order: usize,
    allowed: Vec<String>,
    version: Option<VhloVersion>,
}

impl<A: Args, O: Tree> Lowered<A, O> {
    /// Returns the function as an export for JAX, for the platform `cpu` and without derivatives.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let layer = jit(|w: &Array, x: &Array| tanh(x.matmul(w)));
    /// let (w, x) = (Aval::new(DType::F32, [3, 2]), Aval::new(DType::F32, [8, 3]));
    /// let bytes = layer.lower(w, x)?.export().platforms(["cpu", "tpu"]).vjp_order(1).to_bytes()?;
    /// assert!(bytes.len() > 1000);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn export(&self) -> Export {
        Export::of(self.function())
    }
}

impl Export {
    fn of(lowered: LoweredFunction<'_>) -> Export {
        let LoweredFunction { name, program, captures, plan, arguments, results } = lowered;
        let (mut input_order, mut output_order) = (Vec::new(), Vec::new());
        let arguments = pytree::pytree(&arguments, &mut input_order);
        let results = pytree::pytree(&results, &mut output_order);
        let avals = program.avals_in();
        // The position of each leaf among the arguments in JAX's order.
        let mut positions = vec![0; input_order.len()];
        for (position, leaf) in input_order.iter().enumerate() {
            positions[*leaf] = position;
        }
        let captures = captures.iter().map(|array| Source::Capture(array.clone()));
        let function = FlatFunction {
            name: name.to_owned(),
            program: program.clone(),
            plan: plan.clone(),
            sources: positions.into_iter().map(Source::Argument).chain(captures).collect(),
            arguments: input_order.iter().map(|i| LeafType::Array(avals[*i].clone())).collect(),
            results: output_order.into_iter().map(ResultLeaf::Output).collect(),
        };
        Export {
            function,
            arguments: pytree::call(arguments),
            results,
            platforms: vec!["cpu".to_owned()],
            vjp_order: 0,
            allowed: Vec::new(),
            version: None,
        }
    }

    /// Sets the platforms that the function runs on: some of `cpu`, `cuda`, `rocm` and `tpu`. By
    /// default it is `cpu`. JAX refuses to run the function on others.
    ///
    /// The file has one module for all if they are equal, else one for each.
    pub fn platforms(mut self, platforms: impl IntoIterator<Item = impl Into<String>>) -> Export {
        self.platforms = platforms.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the number of derivatives in the file: with 1, `jax.grad` and `jax.vjp` of the loaded
    /// function work; with 2, so does a gradient of a gradient. By default it is 0.
    ///
    /// Each is the function's vector-Jacobian product, with its own module.
    pub fn vjp_order(mut self, order: usize) -> Export {
        self.vjp_order = order;
        self
    }

    /// Sets the version of StableHLO that the file's modules have. By default it is the oldest
    /// version from 1.4 that has all operations, which the most readers accept.
    pub fn stablehlo_version(mut self, version: VhloVersion) -> Export {
        self.version = Some(version);
        self
    }

    /// Allows a call of a function outside of StableHLO that JAX does not keep compatible.
    pub fn allow_custom_call(mut self, target: impl Into<String>) -> Export {
        self.allowed.push(target.into());
        self
    }

    /// Returns the function as `jax.export` has it.
    ///
    /// # Errors
    /// [`Error::Op`] if an operation refuses a platform or has no derivative; if the program calls
    /// the host, or a function that JAX does not keep compatible; or if JAX's format has no number
    /// for a dtype. [`Error::Runtime`] if a captured array cannot be read.
    pub fn to_exported(&self) -> Result<Exported, Error> {
        let name = &self.function.name;
        let known = |platform: &String| PLATFORMS.contains(&platform.as_str());
        if self.platforms.is_empty() || !self.platforms.iter().all(known) {
            let message = format!(
                "the platforms are {:?}, and each must be one of {PLATFORMS:?}",
                self.platforms
            );
            return Err(refused(name, Loc::UNKNOWN, message, ""));
        }
        let mut exported = self.of_function(&self.function)?;
        exported.input_tree = self.arguments.clone();
        exported.output_tree = self.results.clone();
        let mut function = self.function.clone();
        let mut derivatives = Vec::with_capacity(self.vjp_order);
        for _ in 0..self.vjp_order {
            function = function.vjp()?;
            derivatives.push(self.of_function(&function)?);
        }
        let vjp = derivatives.into_iter().rev().fold(None, |inner, mut exported| {
            exported.vjp = inner;
            Some(Box::new(exported))
        });
        exported.vjp = vjp;
        Ok(exported)
    }

    /// Returns the contents of the file.
    ///
    /// # Errors
    /// As [`to_exported`](Self::to_exported).
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let bytes = self.to_exported()?.to_bytes();
        bytes.map_err(|error| refused(&self.function.name, Loc::UNKNOWN, error.message, ""))
    }

    /// Writes the file.
    ///
    /// # Errors
    /// As [`to_exported`](Self::to_exported); [`Error::Io`] if the file cannot be written.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let folder = std::env::temp_dir().join(format!("oxidax-export-{}", std::process::id()));
    /// std::fs::create_dir_all(&folder).expect("the folder is writable");
    /// let double = jit(|x: &Array| x * 2.0).name("double");
    /// double.lower(Aval::new(DType::F32, [3]))?.export().save(folder.join("double.jax_export"))?;
    /// # std::fs::remove_dir_all(folder).expect("the folder exists");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let (path, bytes) = (path.as_ref(), self.to_bytes()?);
        std::fs::write(path, bytes).map_err(|error| Error::io(path, error))
    }

    /// Returns a function of flat arguments.
    fn of_function(&self, function: &FlatFunction) -> Result<Exported, Error> {
        let name = &function.name;
        let fail = |message: String| refused(name, Loc::UNKNOWN, message, "");
        check_memory(name, &function.program.avals_in())?;
        check_memory(name, &function.program.avals_out())?;
        let modules = function.modules(&self.platforms)?;
        for module in &modules {
            check_host(name, &function.program, module)?;
        }
        let text = match &modules[..] {
            [one] => one.text.clone(),
            several => function.join(&self.platforms, several).map_err(fail)?,
        };
        let artifact = match self.version {
            Some(version) => PortableArtifact::parse_for(&text, version),
            None => PortableArtifact::parse(&text),
        };
        let artifact = artifact.map_err(|error| fail(error.to_string()))?;
        check_targets(name, artifact.custom_call_targets(), &self.allowed)?;
        let bytes = artifact.to_bytes().map_err(|error| fail(error.to_string()))?;
        let mut exported = Exported::new(name, bytes);
        exported.inputs = avals(name, &function.arguments)?;
        exported.outputs = avals(name, &function.result_types())?;
        exported.input_tree = pytree::call(pytree::flat(exported.inputs.len()));
        exported.output_tree = pytree::flat(exported.outputs.len());
        exported.platforms.clone_from(&self.platforms);
        exported.used_inputs = function.used_arguments();
        exported.uses_global_constants = self.platforms.len() > 1;
        exported.devices = function.plan.mesh().map_or(1, |mesh| mesh.devices().len()) as u32;
        let jax = |sharding: Option<_>| sharding.as_ref().map(types::sharding);
        exported.input_shardings = function.argument_shardings().into_iter().map(jax).collect();
        exported.output_shardings = function.result_shardings().into_iter().map(jax).collect();
        let allowed = self.allowed.iter().cloned().map(DisabledCheck::CustomCall);
        exported.disabled_checks = allowed.collect();
        Ok(exported)
    }
}

fn avals(name: &str, leaves: &[LeafType]) -> Result<Vec<AbstractValue>, Error> {
    let aval = |leaf: &LeafType| {
        types::abstract_value(leaf).ok_or_else(|| {
            let message = format!("JAX's format has no number for the dtype of {leaf:?}");
            refused(name, Loc::UNKNOWN, message, "convert it to a wider dtype")
        })
    };
    leaves.iter().map(aval).collect()
}

impl fmt::Debug for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Export { function, platforms, vjp_order, .. } = self;
        write!(f, "Export({} for {platforms:?}, vjp_order {vjp_order})", function.name)
    }
}
