//! The recorded suite: its cases, and their results.

use oxidax::prelude::*;
use safetensors::{SafeTensors, tensor::TensorView};
use serde_json::Value;
use std::path::Path;

/// `fixtures/parallel`.
pub(super) struct Suite {
    /// The families of cases.
    pub(super) families: Vec<String>,
    cases: Vec<Value>,
    tolerance: Value,
    encoded: Value,
    file: Vec<u8>,
}

/// One case.
#[derive(Clone, Copy)]
pub(super) struct Case<'a> {
    suite: &'a Suite,
    json: &'a Value,
}

/// A recorded result.
pub(super) struct Recorded {
    pub(super) aval: Aval,
    pub(super) bytes: Vec<u8>,
}

fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().unwrap();
    list.iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

impl Suite {
    pub(super) fn load() -> Suite {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("python-compat/fixtures");
        let text = std::fs::read_to_string(folder.join("parallel.json")).unwrap();
        let index: Value = serde_json::from_str(&text).unwrap();
        Suite {
            families: texts(&index["families"]),
            cases: index["cases"].as_array().unwrap().clone(),
            tolerance: index["tolerance"].clone(),
            encoded: index["encoded"].clone(),
            file: std::fs::read(folder.join("parallel.safetensors")).unwrap(),
        }
    }

    /// Returns the cases of a family.
    pub(super) fn cases(&self, family: &str) -> Vec<Case<'_>> {
        let cases = self.cases.iter().map(|json| Case { suite: self, json });
        cases.filter(|case| case.json["params"]["family"] == family).collect()
    }
}

impl<'a> Case<'a> {
    pub(super) fn name(self) -> &'a str {
        self.json["name"].as_str().unwrap()
    }

    /// Computes the operands as `recorder/parallel_table.py` does.
    pub(super) fn operands(self) -> Vec<Array> {
        let types = texts(&self.json["params"]["operands"]);
        types.iter().enumerate().map(|(seed, text)| formula(text, seed)).collect()
    }

    /// Returns the operands with respect to which the case is differentiated, or `None` if it is
    /// not.
    pub(super) fn wrt(self) -> Option<Vec<usize>> {
        let list = self.json["params"]["wrt"].as_array()?;
        Some(list.iter().map(|at| at.as_u64().unwrap() as usize).collect())
    }

    /// Returns the shardings that JAX gives the results, if they were recorded.
    pub(super) fn specs(self) -> Option<Vec<Vec<Vec<String>>>> {
        serde_json::from_value(self.json["specs"].clone()).ok()
    }

    /// Returns the tolerance for a result of this dtype.
    pub(super) fn tolerance(self, dtype: DType) -> &'a Value {
        match &self.json["tolerance"] {
            Value::Null => &self.suite.tolerance[dtype.name()],
            own => own,
        }
    }

    pub(super) fn results(self) -> Vec<Recorded> {
        let file = SafeTensors::deserialize(&self.suite.file).unwrap();
        let outputs = texts(&self.json["outputs"]);
        outputs.iter().map(|key| self.recorded(key, &file.tensor(key).unwrap())).collect()
    }

    fn recorded(self, key: &str, view: &TensorView<'_>) -> Recorded {
        let stored = format!("{:?}", view.dtype()).to_lowercase();
        let name = self.suite.encoded[key].as_str().unwrap_or(&stored);
        let dtype = DType::from_name(name).unwrap_or_else(|| panic!("{key}: no dtype {name}"));
        let mut shape = view.shape().to_vec();
        if dtype.is_complex() {
            assert_eq!(shape.pop(), Some(2), "complex numbers are stored as pairs");
        }
        Recorded { aval: Aval::new(dtype, shape), bytes: view.data().to_vec() }
    }
}

/// Returns the operand of a type, such as `f32[8,2]`.
fn formula(text: &str, seed: usize) -> Array {
    let (dtype, dims) = text.trim_end_matches(']').split_once('[').unwrap();
    let dims = dims.split(',').filter(|size| !size.is_empty());
    let dims: Vec<usize> = dims.map(|size| size.parse().unwrap()).collect();
    numbers(DType::from_name(dtype).unwrap(), &dims, seed)
}

/// Returns numbers that every dtype represents exactly.
pub(super) fn numbers(dtype: DType, dims: &[usize], seed: usize) -> Array {
    let n: usize = dims.iter().product();
    let step = |at: usize, seed: usize| ((at * 37 + seed * 11) % 101) as i32;
    let fraction = |at: usize, seed: usize| f64::from(step(at, seed) - 50) / 32.0;
    let exact = match () {
        () if dtype.is_bool() => {
            let odd: Vec<bool> = (0..n).map(|at| step(at, seed) % 2 == 1).collect();
            Array::from_slice(&odd, dims)
        }
        () if dtype.is_complex() => {
            let parts = (0..n).flat_map(|at| [fraction(at, seed), fraction(at, seed + 5)]);
            let bytes: Vec<u8> = parts.flat_map(f64::to_le_bytes).collect();
            Array::from_bytes(&bytes, DType::C128, dims)
        }
        () if dtype.is_float() => {
            let values: Vec<f64> = (0..n).map(|at| fraction(at, seed)).collect();
            Array::from_slice(&values, dims)
        }
        () => {
            let least = if dtype.name().starts_with('u') { 0 } else { -50 };
            let values: Vec<i32> = (0..n).map(|at| step(at, seed) + least).collect();
            Array::from_slice(&values, dims)
        }
    };
    convert_element_type(&exact.unwrap(), dtype)
}
