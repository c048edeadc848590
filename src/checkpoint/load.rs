//! Reading checkpoints.

use super::dtypes::{from_file, unpack};
use super::{name_of, refused};
use crate::core::{Array, Aval, Error};
use crate::tree::{self, Tree};
use safetensors::SafeTensors;
use safetensors::tensor::TensorView;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// How many of several faults are told.
const MOST_FAULTS: usize = 8;

/// A tree like `template` with the arrays of a safetensors file, on the default device.
///
/// Every leaf of the template must be in the file with its shape and dtype, and nothing else. The
/// template's own elements are not looked at: leaves that stand for a type (what `eval_shape` gives)
/// will do.
///
/// # Errors
/// [`Error::Io`] if the file cannot be read; [`Error::Checkpoint`] if it is no safetensors file, or
/// listing the leaves that are missing, unknown, or of another shape or dtype.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let template = eval_shape(|| nn::Linear::new(random::key(0), 784, 10), ())?;
/// let model = checkpoint::load("linear.safetensors", &template)?;
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn load<T: Tree>(path: impl AsRef<Path>, template: &T) -> Result<T, Error> {
    let path = path.as_ref();
    let bytes = read(path)?;
    let file = parse(path, &bytes)?;
    let paths = tree::paths(template);
    let wanted: Vec<(&str, Aval)> = paths
        .iter()
        .zip(tree::leaves(template))
        .map(|(path, leaf)| (name_of(path), leaf.aval().clone()))
        .collect();
    expect_fit(path, &file, &wanted)?;
    let mut leaves = Vec::with_capacity(wanted.len());
    for (name, aval) in &wanted {
        let view = file.tensor(name).map_err(|error| refused(path, error.to_string()))?;
        leaves.push(array(path, name, &view, aval)?);
    }
    let mut leaves = leaves.into_iter();
    Ok(tree::map(template, |_| leaves.next().expect("as many leaves as the template has")))
}

/// Every array of a safetensors file by name, on the default device: for files whose structure is not
/// known beforehand.
///
/// # Errors
/// As [`load`]; [`Error::Checkpoint`] also if an array has a dtype that arrays cannot have.
pub fn arrays(path: impl AsRef<Path>) -> Result<BTreeMap<String, Array>, Error> {
    let path = path.as_ref();
    let bytes = read(path)?;
    let file = parse(path, &bytes)?;
    let mut arrays = BTreeMap::new();
    for (name, view) in file.iter() {
        let Some(dtype) = from_file(view.dtype()) else {
            let message = format!("`{name}` is {}, which arrays cannot be", described(&view));
            return Err(refused(path, message));
        };
        let aval = Aval::new(dtype, view.shape());
        arrays.insert(name.to_string(), array(path, name, &view, &aval)?);
    }
    Ok(arrays)
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|source| Error::Io { path: path.to_path_buf(), source })
}

fn parse<'a>(path: &Path, bytes: &'a [u8]) -> Result<SafeTensors<'a>, Error> {
    SafeTensors::deserialize(bytes).map_err(|error| {
        let message =
            format!("the {} bytes are not a whole safetensors file: {error}", bytes.len());
        refused(path, message)
    })
}

fn array(path: &Path, name: &str, view: &TensorView<'_>, aval: &Aval) -> Result<Array, Error> {
    let bytes = unpack(view.data(), aval.dtype);
    let bad_bool = bytes.iter().position(|&byte| byte > 1).filter(|_| aval.dtype.is_bool());
    if let Some(at) = bad_bool {
        let message = format!("leaf `{name}`: element {at} of {aval} is {}, not 0 or 1", bytes[at]);
        return Err(refused(path, message));
    }
    Array::from_bytes(&bytes, aval.dtype, &aval.shape)
}

fn described(view: &TensorView<'_>) -> String {
    match from_file(view.dtype()) {
        Some(dtype) => Aval::new(dtype, view.shape()).to_string(),
        None => format!("{:?}{}", view.dtype(), crate::core::Shape::new(view.shape())),
    }
}

/// Refuses a file whose arrays are not exactly the wanted ones, naming all differences.
fn expect_fit(path: &Path, file: &SafeTensors<'_>, wanted: &[(&str, Aval)]) -> Result<(), Error> {
    let found: BTreeMap<&str, String> =
        file.iter().map(|(name, view)| (name, described(&view))).collect();
    let mut faults = Vec::new();
    for (name, aval) in wanted {
        let expected = aval.strong().to_string();
        match found.get(name) {
            None => faults.push(format!("leaf `{name}` ({expected}) is missing")),
            Some(found) if *found != expected => {
                faults.push(format!("leaf `{name}` is {found}, expected {expected}"));
            }
            Some(_) => {}
        }
    }
    let names: BTreeSet<&str> = wanted.iter().map(|(name, _)| *name).collect();
    for (name, found) in found.iter().filter(|(name, _)| !names.contains(*name)) {
        faults.push(format!("`{name}` ({found}) belongs to no leaf"));
    }
    if faults.is_empty() {
        return Ok(());
    }
    let left_out = faults.len().saturating_sub(MOST_FAULTS);
    faults.truncate(MOST_FAULTS);
    if left_out > 0 {
        faults.push(format!("and {left_out} more"));
    }
    Err(refused(path, faults.join("\n  ")))
}
