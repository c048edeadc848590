//! One recorded case: its parameters, operands and results.

use crate::fixtures::{Apply, Case, Stored};
use crate::joined::Work;
use crate::known::room;
use crate::ops::list;
use oxidax::prelude::*;
use serde_json::Value;

impl<'a> Case<'a> {
    pub(crate) fn name(self) -> &'a str {
        self.json["name"].as_str().unwrap()
    }

    pub(crate) fn op(self) -> &'a str {
        self.json["op"].as_str().unwrap()
    }

    pub(crate) fn params(self) -> &'a Value {
        &self.json["params"]
    }

    pub(crate) fn param(self, name: &str) -> &'a Value {
        &self.json["params"][name]
    }

    pub(crate) fn number(self, name: &str) -> f64 {
        self.param(name).as_f64().unwrap_or_else(|| panic!("{}: no number {name}", self.name()))
    }

    pub(crate) fn integer(self, name: &str) -> i128 {
        let value = self.param(name);
        let integer = value.as_i64().map(i128::from).or(value.as_u64().map(i128::from));
        integer.unwrap_or_else(|| panic!("{}: no integer {name}", self.name()))
    }

    pub(crate) fn dims(self, name: &str) -> Vec<usize> {
        list(self.param(name))
    }

    pub(crate) fn dtype(self) -> DType {
        DType::from_name(self.param("dtype").as_str().unwrap()).unwrap()
    }

    /// Returns the number of inputs.
    pub(crate) fn n_inputs(self) -> usize {
        self.json["inputs"].as_array().unwrap().len()
    }

    pub(crate) fn inputs(self) -> Vec<Array> {
        (0..self.n_inputs()).map(|at| self.input(at)).collect()
    }

    /// Returns the computation of the case.
    pub(crate) fn work(self, apply: Apply) -> Work {
        let (wrt, mut operands) = (self.wrt().unwrap_or_default(), self.inputs());
        let n_inputs = operands.len();
        if !wrt.is_empty() {
            operands.extend(self.grad_arrays("tangents"));
            operands.extend(self.grad_arrays("cotangents"));
        }
        let (op, params) = (self.op().to_owned(), self.json["params"].clone());
        Work { apply, op, params, wrt, n_inputs, operands }
    }

    pub(crate) fn input(self, position: usize) -> Array {
        self.array(&self.json["inputs"][position])
    }

    /// Returns the recorded derivatives called `what`: `tangents` or `cotangents`.
    pub(crate) fn grad_arrays(self, what: &str) -> Vec<Array> {
        self.json["grad"][what].as_array().unwrap().iter().map(|key| self.array(key)).collect()
    }

    /// Returns the differentiated operands, or `None` if no derivatives were recorded.
    pub(crate) fn wrt(self) -> Option<Vec<usize>> {
        let list = self.json["grad"]["wrt"].as_array()?;
        Some(list.iter().map(|position| position.as_u64().unwrap() as usize).collect())
    }

    fn stored(self, key: &Value) -> &'a Stored {
        &self.suite.arrays[key.as_str().unwrap()]
    }

    /// Returns the array recorded under `key`, narrowed if its dtype is a wide default type in JAX.
    pub(crate) fn expected(self, key: &Value) -> Stored {
        let stored = self.stored(key).clone();
        let wide = |dtype| [DType::I64, DType::U64, DType::F64, DType::C128].contains(&dtype);
        let mut operands =
            self.json["inputs"].as_array().unwrap().iter().map(|key| self.stored(key).dtype);
        let stated = !self.suite.narrow_defaults || !self.param("dtype").is_null();
        if stated || !wide(stored.dtype) || operands.any(wide) {
            return stored;
        }
        let words = stored.bytes.chunks_exact(8).map(|word| word.try_into().expect("8 bytes"));
        let (dtype, bytes) = match stored.dtype {
            DType::F64 => (
                DType::F32,
                words.flat_map(|x| (f64::from_le_bytes(x) as f32).to_le_bytes()).collect(),
            ),
            DType::I64 => (
                DType::I32,
                words.flat_map(|x| (i64::from_le_bytes(x) as i32).to_le_bytes()).collect(),
            ),
            DType::U64 => (
                DType::U32,
                words.flat_map(|x| (u64::from_le_bytes(x) as u32).to_le_bytes()).collect(),
            ),
            other => panic!("no narrow operands give {other}"),
        };
        Stored { dtype, bytes, ..stored }
    }

    pub(crate) fn array(self, key: &Value) -> Array {
        let Stored { dtype, shape, bytes } = self.stored(key);
        Array::from_bytes(bytes, *dtype, shape).unwrap()
    }

    /// Returns the tolerance of a result: the case's own, else that of the dtype.
    pub(crate) fn tolerance(self, dtype: DType, own: &Value) -> Value {
        let tolerance = if own.is_null() { &self.suite.tolerance[dtype.name()] } else { own };
        room(self.name(), tolerance)
    }
}

/// Returns a tolerance as people write it.
pub(crate) fn tolerance_text(tolerance: &Value) -> String {
    if let Some(ulp) = tolerance["ulp_pinned"].as_u64().or(tolerance["ulp"].as_u64()) {
        return if ulp == 0 { "equal".into() } else { format!("{ulp} units in the last place") };
    }
    match (tolerance["rtol"].as_f64(), tolerance["atol"].as_f64()) {
        (Some(rtol), Some(atol)) => format!("rtol {rtol:e}, atol {atol:e}"),
        _ => "equal".into(),
    }
}
