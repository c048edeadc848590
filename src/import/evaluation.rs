//! The evaluation of an exported function: its arguments are checked, its module is translated, and
//! its exported derivative is the derivative.

use super::arguments;
use super::translate::{Constants, KnownIntegers, Target, Traced, Translator};
use super::variables;
use crate::control_flow::custom_vjp;
use crate::core::{Array, Aval, DType, Error, Loc, Mesh, trace};
use crate::parallel;
use crate::primitives::{constrained, convert_element_type, undifferentiable, zeros_of};
use crate::runtime;
use oxidax_jax_export::{DisabledCheck, Exported, JaxDType, KeyAlgorithm, Sharding};
use oxidax_vhlo::PortableArtifact;
use std::fmt;
use std::sync::Arc;

/// A function and its module.
pub(super) struct Loaded {
    pub(super) exported: Exported,
    /// The paths of the arguments' leaves in Python.
    pub(super) paths: Vec<String>,
    artifact: PortableArtifact,
    constants: Constants,
    pub(super) vjp: Option<Arc<Loaded>>,
}

impl Loaded {
    pub(super) fn new(exported: Exported) -> Result<Arc<Loaded>, Error> {
        let artifact = PortableArtifact::read(&exported.module)
            .map_err(|error| refused(&exported.name, error.to_string()))?;
        let vjp = exported.vjp.as_deref().cloned().map(Loaded::new).transpose()?;
        let paths = arguments::paths(&exported.input_tree);
        let constants = Constants::default();
        Ok(Arc::new(Loaded { exported, paths, artifact, constants, vjp }))
    }
}

pub(super) fn refused(place: impl fmt::Display, message: impl Into<String>) -> Error {
    Error::exchange(format!("`{place}`"), message)
}

/// Returns a mesh of the first devices, with the axes for which the function was exported.
pub(super) fn default_mesh(loaded: &Loaded) -> Result<Mesh, Error> {
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
        Sharding::Named { mesh, .. } => {
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

/// Returns the dtype and the additional axes in which an array is stored.
pub(super) fn stored(dtype: JaxDType) -> Option<(DType, &'static [usize])> {
    Some(match dtype {
        JaxDType::Key(KeyAlgorithm::Threefry) => (DType::U32, &[2]),
        JaxDType::Key(_) => (DType::U32, &[4]),
        JaxDType::Float0 => (DType::Bool, &[]),
        other => (DType::from_stablehlo(other.stablehlo()?)?, &[]),
    })
}

/// Checks the types of leaves, and converts weakly typed numbers.
pub(super) fn checked(loaded: &Loaded, leaves: Vec<Array>) -> Result<Vec<Array>, String> {
    let (mut wrong, mut sizes, mut arrays) = (Vec::new(), Vec::new(), Vec::new());
    let described = loaded.paths.iter().zip(&loaded.exported.inputs);
    for (array, (path, expected)) in leaves.into_iter().zip(described) {
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
            let axes = expected.shape.iter().zip(array.shape().iter()).enumerate();
            let open = axes.filter(|(_, (dimension, _))| dimension.known().is_none());
            sizes.extend(open.map(|(axis, (dimension, size))| {
                (format!("{path}, axis {axis}"), dimension, *size)
            }));
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
pub(super) fn differentiable(
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
        false => zeros_of(&Aval::new(x.dtype(), x.shape().clone())),
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
    let ignores = exported.disabled_checks.contains(&DisabledCheck::Platform);
    let Some(index) = index.or(ignores.then_some(0)) else {
        let stated = exported.platforms.join(", ");
        let message = format!("it was exported for {stated}, the platform is {platform}");
        let help = format!("export it with `platforms=[\"{platform}\"]`");
        return Err(refused(&exported.name, message).with_help(&help));
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
    let Some((mesh, Some(Sharding::Named { spec, .. }))) = mesh.zip(sharding) else {
        return x.clone();
    };
    arguments::sharding(mesh, spec).map_or_else(|| x.clone(), |sharding| constrained(x, sharding))
}
