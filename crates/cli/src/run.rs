//! `oxidax run`: runs a function of `jax.export`, or a module of StableHLO or HLO.

use std::error::Error;
use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::Args;
use oxidax::core::{Aval, DType, HostArray, Shape};
use oxidax::import::{ImportedFunction, ImportedModule};
use oxidax::prelude::*;

/// The file and its inputs.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  oxidax run predict.jax_export                       print the arguments and results
  oxidax run predict.jax_export --input x.npy         run it on an array of NumPy
  oxidax run model.mlir --input random:0 --input ones run it on random numbers and on ones
  oxidax run predict.jax_export --input ones:f32[8,4] state the sizes of dimension variables")]
pub(crate) struct Run {
    /// A function of `jax.export`, StableHLO (text or portable artifact), or a serialized
    /// `HloModuleProto`
    file: PathBuf,
    /// An argument: `x.npy`, `zeros`, `ones`, `iota` or `random:SEED`; with a type where the file
    /// leaves sizes open, `ones:f32[8,4]`
    #[arg(long = "input", value_name = "INPUT")]
    inputs: Vec<String>,
    /// Write the results to this folder as `0.npy`, `1.npy`, …
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

/// The function of a file.
enum Program {
    Function(ImportedFunction),
    Module(ImportedModule),
}

/// Runs the file, or prints its arguments and results if there are no inputs.
pub(crate) fn run(run: &Run) -> Result<(), Box<dyn Error>> {
    let bytes = std::fs::read(&run.file).map_err(|error| oxidax::Error::io(&run.file, error))?;
    let name = run.file.display().to_string();
    let program = match ImportedFunction::read(&bytes) {
        Ok(function) => Program::Function(function),
        Err(_) => Program::Module(ImportedModule::read(&name, &bytes)?),
    };
    let count = match &program {
        Program::Function(function) => function.inputs().len(),
        Program::Module(module) => module.inputs().len(),
    };
    if run.inputs.is_empty() && count > 0 {
        match &program {
            Program::Function(function) => writeln!(io::stdout(), "{function}")?,
            Program::Module(module) => writeln!(io::stdout(), "{module:?}")?,
        }
        return Ok(());
    }
    if run.inputs.len() != count {
        let found = run.inputs.len();
        return Err(format!("{name} takes {count} inputs, got {found}").into());
    }
    let inputs = run.inputs.iter().enumerate().map(|(index, input)| {
        let stated = match &program {
            Program::Function(function) => function.input_types()[index].clone(),
            Program::Module(module) => Some(module.inputs()[index].clone()),
        };
        array_of(input, stated, index)
    });
    let inputs = inputs.collect::<Result<Vec<Array>, Box<dyn Error>>>()?;
    let (paths, results) = match &program {
        Program::Function(function) => {
            let paths = function.outputs().into_iter().map(|(path, _)| path);
            (paths.collect(), function.call_flat(inputs)?)
        }
        Program::Module(module) => {
            let paths = (0..module.outputs().len()).map(|index| format!("[{index}]"));
            (paths.collect::<Vec<String>>(), module.call(&inputs)?)
        }
    };
    if let Some(folder) = &run.output {
        std::fs::create_dir_all(folder).map_err(|error| oxidax::Error::io(folder, error))?;
    }
    for (index, (path, result)) in paths.iter().zip(&results).enumerate() {
        writeln!(io::stdout(), "{path} {}\n{result}", result.aval())?;
        if let Some(folder) = &run.output {
            let file = folder.join(format!("{index}.npy"));
            let bytes = result.to_host()?.to_npy();
            std::fs::write(&file, bytes).map_err(|error| oxidax::Error::io(&file, error))?;
        }
    }
    Ok(())
}

/// Returns the array of an input.
fn array_of(input: &str, stated: Option<Aval>, index: usize) -> Result<Array, Box<dyn Error>> {
    if input.ends_with(".npy") {
        let host: HostArray = data::npy(PathBuf::from(input))?;
        return Ok(Array::from_bytes(host.as_bytes(), host.dtype(), host.shape().clone())?);
    }
    let (rule, ty) = match input.rsplit_once(':') {
        Some((rule, ty)) if ty.contains('[') => (rule, Some(parsed(ty)?)),
        _ => (input, None),
    };
    let aval = ty.or(stated).ok_or_else(|| {
        format!("the file leaves sizes of argument {index} open: state them, `{rule}:f32[8,4]`")
    })?;
    let rule = rule.split_once(':').unwrap_or((rule, ""));
    Ok(match rule {
        ("zeros", "") => zeros(aval),
        ("ones", "") => ones(aval),
        ("iota", "") => {
            let flat = oxidax::primitives::iota(DType::I32, aval.shape.size());
            convert_element_type(&flat.reshape(aval.shape.clone()), aval.dtype)
        }
        ("random", seed) => {
            let seed: i64 = if seed.is_empty() { 0 } else { seed.parse()? };
            let key = random::key(seed);
            match aval.dtype.is_float() {
                true => {
                    let x = random::normal(key, aval.shape.clone());
                    convert_element_type(&x, aval.dtype)
                }
                false => {
                    let x = random::randint(key, aval.shape.clone(), 0..2);
                    convert_element_type(&x, aval.dtype)
                }
            }
        }
        _ => {
            let forms = "a file `….npy`, `zeros`, `ones`, `iota` or `random:SEED`";
            return Err(format!("`{input}` is not an input: give {forms}").into());
        }
    })
}

/// Parses a type: `f32[8,4]`.
fn parsed(text: &str) -> Result<Aval, Box<dyn Error>> {
    let wrong = || format!("`{text}` is not a type such as `f32[8,4]`");
    let (dtype, sizes) = text.split_once('[').ok_or_else(wrong)?;
    let sizes = sizes.strip_suffix(']').ok_or_else(wrong)?;
    let dtype = DType::from_name(dtype).ok_or_else(wrong)?;
    let sizes: Vec<usize> = match sizes.trim() {
        "" => Vec::new(),
        sizes => sizes.split(',').map(|size| size.trim().parse()).collect::<Result<_, _>>()?,
    };
    Ok(Aval::new(dtype, Shape::from(sizes)))
}
