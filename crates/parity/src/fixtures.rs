//! Recorded suites: cases, arrays and tolerances.

use oxidax::prelude::*;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;
use std::collections::HashMap;
use std::error::Error as StdError;
use std::fmt;
use std::path::{Path, PathBuf};

/// A fixture: cases of operations with the results that JAX computed.
///
/// ```
/// use oxidax_parity::Suite;
/// let error = Suite::open("missing", "ops").unwrap_err();
/// assert!(error.to_string().contains("ops.json"), "{error}");
/// ```
#[derive(Debug)]
pub struct Suite {
    pub(crate) name: String,
    pub(crate) jax: String,
    pub(crate) cases: Vec<Value>,
    pub(crate) arrays: HashMap<String, Stored>,
    pub(crate) tolerance: Value,
    pub(crate) narrow_defaults: bool,
    /// Number of the line in the JSON that has the first case.
    first_line: usize,
}

/// A fixture that cannot be read: the file, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixtureError {
    path: PathBuf,
    problem: String,
}

impl fmt::Display for FixtureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.problem)
    }
}

impl StdError for FixtureError {}

/// Computes a case: maps its operation, parameters and operands to its results.
pub(crate) type Apply = fn(&str, &Value, &[Array]) -> Vec<Array>;

/// Applies a function to one example or, with the parameter `vmap`, over the leading axes of all
/// operands.
pub(crate) fn by_example(
    params: &Value,
    operands: &[Array],
    f: impl Fn(&[Array]) -> Vec<Array>,
) -> Vec<Array> {
    match params["vmap"] == true {
        true => vmap(|xs: Vec<Array>| f(&xs)).apply(operands.to_vec()),
        false => f(operands),
    }
}

/// An array as stored in the file.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: Vec<u8>,
}

/// One recorded case.
#[derive(Clone, Copy)]
pub(crate) struct Case<'a> {
    pub(crate) suite: &'a Suite,
    pub(crate) json: &'a Value,
}

fn dtype_of(stored: Dtype) -> Option<DType> {
    match stored {
        Dtype::BOOL => Some(DType::Bool),
        other => DType::from_name(&format!("{other:?}").to_lowercase()),
    }
}

/// Returns the arrays of a safetensors file. `encoded` has the dtypes without a name in the format.
fn read_arrays(bytes: &[u8], encoded: &Value) -> Result<HashMap<String, Stored>, String> {
    let file = SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
    let mut arrays = HashMap::new();
    for (key, view) in file.iter() {
        let mut shape = view.shape().to_vec();
        let dtype = match encoded[key].as_str() {
            Some(name) => {
                let dtype = DType::from_name(name);
                let dtype = dtype.ok_or_else(|| format!("`{key}` has the dtype {name}"))?;
                if dtype.is_complex() && shape.pop() != Some(2) {
                    return Err(format!("`{key}` is {name} and not stored as pairs"));
                }
                dtype
            }
            None => dtype_of(view.dtype())
                .ok_or_else(|| format!("`{key}` has the dtype {:?}", view.dtype()))?,
        };
        let size: usize = shape.iter().product();
        if size * dtype.host_bytes() != view.data().len() {
            return Err(format!("`{key}` has {} bytes for {size} elements", view.data().len()));
        }
        arrays.insert(key.to_owned(), Stored { dtype, shape, bytes: view.data().to_vec() });
    }
    Ok(arrays)
}

/// Checks that a case has what every case has, and that the arrays which it names exist.
fn check_case(case: &Value, arrays: &HashMap<String, Stored>) -> Result<(), String> {
    let name = case["name"].as_str().ok_or("a case has no name")?;
    let text = |field: &str| case[field].as_str().ok_or(format!("{name} has no {field}"));
    text("op")?;
    let keys = |what: &str, list: &Value| -> Result<usize, String> {
        let list = list.as_array().ok_or(format!("{name} has no {what}"))?;
        for key in list {
            if key.as_str().is_none_or(|key| !arrays.contains_key(key)) {
                return Err(format!("{name}: {what} name {key}, which is not in the file"));
            }
        }
        Ok(list.len())
    };
    let n_inputs = keys("inputs", &case["inputs"])?;
    let n_outputs = keys("outputs", &case["outputs"])?;
    let grad = &case["grad"];
    if grad.is_null() {
        return Ok(());
    }
    let wrt = grad["wrt"].as_array().ok_or(format!("{name} has no wrt"))?;
    if wrt.iter().any(|at| at.as_u64().is_none_or(|at| at as usize >= n_inputs)) {
        return Err(format!("{name}: wrt is {}, of {n_inputs} inputs", grad["wrt"]));
    }
    let expected = [("tangents", wrt.len()), ("vjp", wrt.len())];
    for (role, count) in expected.into_iter().chain([("jvp", n_outputs), ("cotangents", n_outputs)])
    {
        let found = keys(role, &grad[role])?;
        if found != count {
            return Err(format!("{name} has {found} {role}, expected {count}"));
        }
    }
    Ok(())
}

impl Suite {
    /// Reads the fixture `NAME.json` and `NAME.safetensors` of a folder.
    ///
    /// # Errors
    /// A file cannot be read, or is not one of a fixture.
    pub fn open(folder: impl AsRef<Path>, name: &str) -> Result<Suite, FixtureError> {
        let path = |ending: &str| folder.as_ref().join(format!("{name}.{ending}"));
        let wrong = |ending: &str, problem: String| FixtureError { path: path(ending), problem };
        let read = |ending: &str| {
            std::fs::read(path(ending)).map_err(|error| wrong(ending, error.to_string()))
        };
        let text = read("json")?;
        let index: Value =
            serde_json::from_slice(&text).map_err(|error| wrong("json", error.to_string()))?;
        let before = text.windows(8).position(|part| part == b"\"cases\":").unwrap_or(0);
        let first_line = 2 + text[..before].iter().filter(|byte| **byte == b'\n').count();
        let arrays = read_arrays(&read("safetensors")?, &index["encoded"])
            .map_err(|problem| wrong("safetensors", problem))?;
        let cases = index["cases"].as_array().cloned();
        let cases = cases.ok_or_else(|| wrong("json", "it has no cases".into()))?;
        for case in &cases {
            check_case(case, &arrays).map_err(|problem| wrong("json", problem))?;
        }
        Ok(Suite {
            name: name.to_owned(),
            jax: index["jax"].as_str().unwrap_or("unknown").to_owned(),
            cases,
            arrays,
            tolerance: index["tolerance"].clone(),
            narrow_defaults: false,
            first_line,
        })
    }

    /// Returns the name of the suite: `ops`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the version of JAX that computed the results.
    pub fn jax(&self) -> &str {
        &self.jax
    }

    /// Returns the place of a case: the line of Python that computed it, or that of the fixture,
    /// which has one line per case.
    pub(crate) fn line(&self, index: usize) -> String {
        match self.cases[index]["line"].as_str() {
            Some(line) => format!("recorder/{line}"),
            None => format!("{}.json:{}", self.name, self.first_line + index),
        }
    }

    /// Returns the number of cases.
    pub fn n_cases(&self) -> usize {
        self.cases.len()
    }

    /// Narrows JAX's 64-bit default types, which are 32-bit types here: a wide result of narrow
    /// operands is compared as a narrow one, unless the case states its dtype.
    pub(crate) fn with_narrow_defaults(self) -> Suite {
        Suite { narrow_defaults: true, ..self }
    }
}
