//! Modules that other programs wrote, compiled as they are.

use super::client::runtime_of;
use super::compile::target_options;
use super::default_device::default_device;
use super::device_buffer::dtype_of;
use super::evaluator::execute;
use super::executable::{Executable, OutputPlacement};
use super::stalls;
use crate::core::spans::{EventKind, Span};
use crate::core::{Array, Aval, Error, Loc, Placement};
use oxidax_pjrt::{ArrayType, PjrtProgram};
use std::sync::Arc;

/// The code of a module.
#[derive(Clone, Copy)]
pub(crate) enum ModuleCode<'a> {
    /// The text of StableHLO.
    StableHlo(&'a str),
    /// A serialized `HloModuleProto`.
    Hlo(&'a [u8]),
}

impl Executable {
    /// Compiles a module for the default device.
    ///
    /// # Errors
    /// `Plugin`; `Compile` if the compiler refuses the module, or if it is one on which plugins are
    /// known to crash; `Exchange` if a type of its arguments or results is not supported.
    pub(crate) fn of_module(name: &str, code: ModuleCode<'_>) -> Result<Executable, Error> {
        let _span = Span::within(EventKind::Compile, || name.to_owned());
        let device = default_device()?;
        let runtime = runtime_of(device.1)?;
        let target = Placement::Device(device);
        let options = target_options(runtime, &target);
        let compile = || {
            let program = match code {
                ModuleCode::StableHlo(text) => PjrtProgram::mlir(text)?,
                ModuleCode::Hlo(proto) => PjrtProgram::hlo_on_one_device(proto)?,
            };
            runtime.client.compile(&program, &options)
        };
        let loaded = compile().map_err(|error| Error::Compile {
            message: format!("{name}: {error}"),
            dump: None,
            loc: Loc::UNKNOWN,
        })?;
        let avals = |types: &[ArrayType]| -> Result<Vec<Aval>, Error> {
            types.iter().map(|ty| aval_of(name, ty)).collect()
        };
        let (parameters, results) = (avals(loaded.parameters())?, avals(loaded.results())?);
        Ok(Executable {
            name: name.into(),
            results: results.into_iter().map(Arc::new).collect(),
            inputs: vec![target.clone(); parameters.len()],
            outputs: OutputPlacement { target, committed: false, shardings: Vec::new() },
            layouts: None,
            program: stalls::next_program(),
            waits: false,
            has_unordered_effects: false,
            host_functions: Vec::new(),
            host_transfers: Vec::new(),
            from_disk: false,
            options,
            calls_host: false,
            closures: None,
            loaded,
        })
    }

    /// Returns the types of the parameters.
    ///
    /// # Errors
    /// `Exchange` if one is not supported.
    pub(crate) fn parameter_types(&self) -> Result<Vec<Aval>, Error> {
        self.loaded.parameters().iter().map(|ty| aval_of(&self.name, ty)).collect()
    }

    /// Returns the types of the results.
    pub(crate) fn result_types(&self) -> &[Arc<Aval>] {
        &self.results
    }

    /// Runs the program on arrays of the types of its parameters.
    ///
    /// # Errors
    /// `Runtime`.
    pub(crate) fn run(&self, arguments: &[Array]) -> Result<Vec<Array>, Error> {
        execute(self, arguments.iter(), || arguments.iter().map(|x| x.aval().clone()).collect())
    }
}

fn aval_of(name: &str, ty: &ArrayType) -> Result<Aval, Error> {
    let dims = ty.dims().iter().map(|dim| usize::try_from(*dim).ok());
    let dims: Option<Vec<usize>> = dims.collect();
    match dtype_of(ty.element_type()).zip(dims) {
        Some((dtype, dims)) => Ok(Aval::new(dtype, dims)),
        None => Err(Error::exchange(name, format!("arrays of type {ty} are not supported"))),
    }
}
