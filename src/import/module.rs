//! [`ImportedModule`]: a module of StableHLO or HLO, run as it is.

use super::ImportedFunction;
use crate::core::{Array, Aval, Error, Loc};
use crate::runtime::{Executable, ModuleCode};
use oxidax_vhlo::PortableArtifact;
use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A module of StableHLO or HLO, compiled for the default device.
///
/// It holds the code that another program wrote. To map or differentiate it, use
/// [`ImportedFunction`], which translates its operations. XLA ends the process for some damaged
/// protocol buffers of HLO: read only those that you trust.
///
/// ```
/// use oxidax::import;
/// use oxidax::prelude::*;
/// let text = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
///     %y = stablehlo.add %x, %x : tensor<2xf32>
///     return %y : tensor<2xf32>
/// }";
/// let double = import::ImportedModule::read("double", text.as_bytes())?;
/// assert_eq!(double.inputs()[0].to_string(), "f32[2]");
/// let y = double.call(&[Array::from_slice(&[1.0f32, 2.0], [2])?])?;
/// assert_eq!(y[0].to_vec::<f32>()?, [2.0, 4.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone)]
pub struct ImportedModule {
    name: String,
    format: ModuleFormat,
    inputs: Vec<Aval>,
    outputs: Vec<Aval>,
    executable: Arc<Executable>,
}

/// The format of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModuleFormat {
    /// The text of StableHLO.
    StableHloText,
    /// A portable artifact of StableHLO: MLIR's bytecode of the dialect VHLO.
    PortableArtifact,
    /// A serialized `HloModuleProto` of XLA.
    HloProto,
}

impl fmt::Display for ModuleFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ModuleFormat::StableHloText => "StableHLO text",
            ModuleFormat::PortableArtifact => "StableHLO portable artifact",
            ModuleFormat::HloProto => "HLO protocol buffer",
        })
    }
}

/// Reads a module of StableHLO or HLO from a file, and compiles it for the default device.
///
/// The contents tell the format: StableHLO's text, a portable artifact of StableHLO, or a
/// serialized `HloModuleProto`, as `jax.jit(f).lower(x).compiler_ir("hlo")` and the builders of
/// XLA give.
///
/// # Errors
/// `Io` if the file cannot be read; otherwise as [`ImportedModule::read`].
///
/// ```no_run
/// use oxidax::prelude::*;
/// let module = oxidax::import::module("model.mlir")?;
/// let results = module.call(&[ones([8, 784])])?;
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn module(path: impl AsRef<Path>) -> Result<ImportedModule, Error> {
    let path = path.as_ref();
    let bytes = std::fs::read(path).map_err(|error| Error::io(path, error))?;
    ImportedModule::read(&path.display().to_string(), &bytes)
}

impl ImportedModule {
    /// Reads a module, and compiles it for the default device. `name` is that in errors and
    /// profiles.
    ///
    /// # Errors
    /// `Exchange` if the bytes are of no known format; `Compile` if the compiler refuses the
    /// module, or if it is one on which plugins are known to crash; `Plugin`.
    pub fn read(name: &str, bytes: &[u8]) -> Result<ImportedModule, Error> {
        let (format, text) = format_of(name, bytes)?;
        let code = match &text {
            Some(text) => ModuleCode::StableHlo(text),
            None => ModuleCode::Hlo(bytes),
        };
        let executable = Executable::of_module(name, code)?;
        Ok(ImportedModule {
            name: name.to_owned(),
            format,
            inputs: executable.parameter_types()?,
            outputs: executable.result_types().iter().map(|aval| (**aval).clone()).collect(),
            executable: Arc::new(executable),
        })
    }

    /// Returns the format in which it was read.
    pub fn format(&self) -> ModuleFormat {
        self.format
    }

    /// Returns the types of the arguments.
    pub fn inputs(&self) -> &[Aval] {
        &self.inputs
    }

    /// Returns the types of the results.
    pub fn outputs(&self) -> &[Aval] {
        &self.outputs
    }

    /// Runs the module.
    ///
    /// # Errors
    /// `Exchange` if the number or the types of the arguments are others; `Runtime`.
    #[track_caller]
    pub fn call(&self, arguments: &[Array]) -> Result<Vec<Array>, Error> {
        let loc = Loc::caller();
        let refused = |message: String| Error::exchange(&self.name, message).at(loc);
        if arguments.len() != self.inputs.len() {
            let (found, wanted) = (arguments.len(), self.inputs.len());
            return Err(refused(format!("it takes {wanted} arguments, got {found}")));
        }
        let mut wrong = Vec::new();
        for (index, (argument, expected)) in arguments.iter().zip(&self.inputs).enumerate() {
            let found = argument.aval();
            if argument.is_traced() {
                let help = "use `ImportedFunction`, whose operations can be traced";
                wrong.push(format!("argument {index} is traced: {help}"));
            } else if found.dtype != expected.dtype || found.shape != expected.shape {
                wrong.push(format!("argument {index} is {found}, it takes {expected}"));
            }
        }
        match wrong.is_empty() {
            true => self.executable.run(arguments).map_err(|error| error.at(loc)),
            false => Err(refused(wrong.join("; "))),
        }
    }
}

/// Returns the format of a module, and its text if it is of StableHLO.
fn format_of<'a>(
    name: &str,
    bytes: &'a [u8],
) -> Result<(ModuleFormat, Option<Cow<'a, str>>), Error> {
    let refused = |message: String, help| Err(Error::exchange(name, message).with_help(help));
    if bytes.starts_with(b"ML\xefR") {
        return match PortableArtifact::read(bytes).and_then(|artifact| artifact.to_text()) {
            Ok(text) => Ok((ModuleFormat::PortableArtifact, Some(text.into()))),
            Err(error) => refused(
                error.to_string(),
                "bytecode of other dialects than VHLO changes from version to version; write a \
                 portable artifact with `stablehlo.serialize_portable_artifact`, or text",
            ),
        };
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        if text.contains("func.func") || text.trim_start().starts_with("module") {
            return Ok((ModuleFormat::StableHloText, Some(text.into())));
        }
        if text.trim_start().starts_with("HloModule") {
            let message = "HLO's text is not supported yet".to_owned();
            return refused(message, "pass it as a serialized `HloModuleProto`");
        }
    }
    if ImportedFunction::read(bytes).is_ok() {
        let message = "this is a function of `jax.export`".to_owned();
        return refused(message, "read it with `ImportedFunction::read`");
    }
    Ok((ModuleFormat::HloProto, None))
}

impl fmt::Debug for ImportedModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let types =
            |avals: &[Aval]| avals.iter().map(Aval::to_string).collect::<Vec<_>>().join(", ");
        let (inputs, outputs) = (types(&self.inputs), types(&self.outputs));
        write!(f, "{} ({}): ({inputs}) -> ({outputs})", self.name, self.format)
    }
}
