//! Recorded suites: cases, arrays, and comparison within each case's tolerance.

use super::difference::difference;
use super::joined::{Work, compute};
use super::known::{DELIBERATE, room};
use super::ops::list;
use oxidax::prelude::*;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;

/// A suite of `python-compat/fixtures`.
pub(crate) struct Suite {
    cases: Vec<Value>,
    arrays: HashMap<String, Stored>,
    tolerance: Value,
    narrow_defaults: bool,
}

/// Computes a case: maps its operation, parameters and operands to its results.
pub(crate) type Apply = fn(&str, &Value, &[Array]) -> Vec<Array>;

/// An array as stored in the file.
#[derive(Clone)]
pub(crate) struct Stored {
    dtype: DType,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

/// One recorded case.
#[derive(Clone, Copy)]
pub(crate) struct Case<'a> {
    suite: &'a Suite,
    json: &'a Value,
}

fn dtype_of(stored: Dtype) -> DType {
    match stored {
        Dtype::BOOL => DType::Bool,
        other => DType::from_name(&format!("{other:?}").to_lowercase())
            .unwrap_or_else(|| panic!("the suites do not use {other:?}")),
    }
}

impl Suite {
    pub(crate) fn load(name: &str) -> Suite {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("python-compat/fixtures");
        let text = std::fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
        let index: Value = serde_json::from_str(&text).unwrap();
        let bytes = std::fs::read(folder.join(format!("{name}.safetensors"))).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let stored = file.iter().map(|(key, view)| {
            let (mut dtype, mut shape) = (dtype_of(view.dtype()), view.shape().to_vec());
            if let Some(encoded) = index["encoded"][key].as_str() {
                dtype = DType::from_name(encoded).unwrap_or_else(|| panic!("no dtype {encoded}"));
                if dtype.is_complex() {
                    assert_eq!(shape.pop(), Some(2), "complex numbers are stored as pairs");
                }
            }
            (key.to_owned(), Stored { dtype, shape, bytes: view.data().to_vec() })
        });
        let arrays = stored.collect();
        let cases = index["cases"].as_array().unwrap().clone();
        Suite { cases, arrays, tolerance: index["tolerance"].clone(), narrow_defaults: false }
    }

    /// Runs `check` on every case whose operation satisfies `belongs`. `check` returns the error of
    /// a case. Fails with all errors except those of the cases in [`DELIBERATE`]. Also fails if a
    /// listed case does not differ, or if there was no case.
    pub(crate) fn check(
        &self,
        belongs: impl Fn(&str) -> bool,
        check: impl Fn(Case<'_>) -> Result<(), String>,
    ) {
        let cases = self.those(belongs);
        let count = cases.len();
        let wrong: Vec<String> = cases
            .into_iter()
            .filter_map(|case| {
                let outcome = oxidax::catch(|| check(case)).unwrap_or_else(|e| Err(e.to_string()));
                let deliberate = DELIBERATE.iter().any(|(name, _)| *name == case.name());
                match (outcome, deliberate) {
                    (Err(message), false) => Some(format!("{}: {message}", case.name())),
                    (Ok(()), true) => {
                        Some(format!("{}: does not differ; take it off the list", case.name()))
                    }
                    _ => None,
                }
            })
            .collect();
        assert!(wrong.is_empty(), "{} of {count} cases differ:\n{}", wrong.len(), wrong.join("\n"));
    }

    /// Returns the cases whose operation satisfies `belongs`. There must be at least one.
    fn those(&self, belongs: impl Fn(&str) -> bool) -> Vec<Case<'_>> {
        let cases = self.cases.iter().map(|json| Case { suite: self, json });
        let cases: Vec<Case<'_>> = cases.filter(|case| belongs(case.op())).collect();
        assert!(!cases.is_empty(), "no case belongs to this test");
        cases
    }

    /// Runs `check` on the case called `name`.
    pub(crate) fn check_named(&self, name: &str, check: impl Fn(Case<'_>) -> Result<(), String>) {
        let json = self.cases.iter().find(|case| case["name"] == name);
        let json = json.unwrap_or_else(|| panic!("no case is called {name}"));
        if let Err(message) = check(Case { suite: self, json }) {
            panic!("{name}: {message}");
        }
    }

    /// Narrows JAX's 64-bit default types, which are 32-bit types here: a wide result of narrow
    /// operands is compared as a narrow one, unless the case states its dtype.
    pub(crate) fn with_narrow_defaults(self) -> Suite {
        Suite { narrow_defaults: true, ..self }
    }

    /// Removes the cases for which `left_out` returns true. Its arguments are the operation, the
    /// parameters and the number of operands.
    pub(crate) fn without(mut self, left_out: fn(&str, &Value, usize) -> bool) -> Suite {
        self.cases.retain(|case| {
            let operands = case["inputs"].as_array().unwrap().len();
            !left_out(case["op"].as_str().unwrap(), &case["params"], operands)
        });
        self
    }

    /// Checks values and the recorded derivatives in both modes, with many cases in one compiled
    /// program.
    pub(crate) fn check_ops(&self, belongs: impl Fn(&str) -> bool, apply: Apply) {
        let cases = self.those(&belongs);
        let works: Vec<Work> = cases.iter().map(|case| case.work(apply)).collect();
        let names = cases.iter().map(|case| case.name());
        let computed: HashMap<&str, _> = names.zip(compute(&works)).collect();
        self.check(belongs, |case| {
            let (values, tangents, cotangents) = computed[case.name()].as_ref()?;
            case.expect_outputs(values)?;
            if case.wrt().is_some() {
                case.expect_grad("jvp", tangents)?;
                case.expect_grad("vjp", cotangents)?;
            }
            Ok(())
        });
    }

    /// Runs `check` on the results of `apply` for the cases that satisfy `belongs`, with many cases
    /// in one compiled program.
    pub(crate) fn check_values(
        &self,
        belongs: impl Fn(Case<'_>) -> bool,
        apply: Apply,
        check: impl Fn(Case<'_>, &[Array]) -> Result<(), String>,
    ) {
        let cases: Vec<Case<'_>> =
            self.those(|_| true).into_iter().filter(|&case| belongs(case)).collect();
        assert!(!cases.is_empty(), "no case belongs to this test");
        let works: Vec<Work> = cases.iter().map(|case| case.work(apply)).collect();
        let names = cases.iter().map(|case| case.name());
        let computed: HashMap<&str, _> = names.zip(compute(&works)).collect();
        self.check(
            |_| true,
            |case| match computed.get(case.name()) {
                Some(result) => check(case, &result.as_ref()?.0),
                None => Ok(()),
            },
        );
    }

    /// Checks values, each case separately and outside of any trace.
    pub(crate) fn check_each(&self, belongs: impl Fn(&str) -> bool, apply: Apply) {
        self.check(belongs, |case| {
            assert!(case.wrt().is_none(), "{} has derivatives", case.name());
            case.expect_outputs(&apply(case.op(), &case.json["params"], &case.inputs()))
        });
    }

    /// Returns the operation of every case in the suite.
    pub(crate) fn ops(&self) -> impl Iterator<Item = &str> {
        self.cases.iter().map(|case| case["op"].as_str().unwrap())
    }
}

impl<'a> Case<'a> {
    pub(crate) fn name(self) -> &'a str {
        self.json["name"].as_str().unwrap()
    }

    pub(crate) fn op(self) -> &'a str {
        self.json["op"].as_str().unwrap()
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

    fn inputs(self) -> Vec<Array> {
        (0..self.n_inputs()).map(|at| self.input(at)).collect()
    }

    /// Returns the computation of the case.
    fn work(self, apply: Apply) -> Work {
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
    fn expected(self, key: &Value) -> Stored {
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

    fn array(self, key: &Value) -> Array {
        let Stored { dtype, shape, bytes } = self.stored(key);
        Array::from_bytes(bytes, *dtype, shape).unwrap()
    }

    /// Compares results with the recorded outputs.
    pub(crate) fn expect_outputs(self, results: &[Array]) -> Result<(), String> {
        self.compare(&self.json["outputs"], results, &self.json["tolerance"])
    }

    /// Returns one recorded output.
    pub(crate) fn output(self, position: usize) -> Array {
        self.array(&self.json["outputs"][position])
    }

    /// Compares one result with the recorded output at that position.
    pub(crate) fn expect_output(self, position: usize, result: &Array) -> Result<(), String> {
        let keys = Value::Array(vec![self.json["outputs"][position].clone()]);
        self.compare(&keys, std::slice::from_ref(result), &self.json["tolerance"])
    }

    /// Compares results with the recorded derivatives called `what`.
    pub(crate) fn expect_grad(self, what: &str, results: &[Array]) -> Result<(), String> {
        let found = self.compare(&self.json["grad"][what], results, &Value::Null);
        found.map_err(|message| format!("{what}: {message}"))
    }

    fn compare(self, keys: &Value, results: &[Array], own: &Value) -> Result<(), String> {
        let keys = keys.as_array().unwrap();
        if keys.len() != results.len() {
            return Err(format!("{} results, recorded {}", results.len(), keys.len()));
        }
        for (position, (key, result)) in keys.iter().zip(results).enumerate() {
            let expected = &self.expected(key);
            let same =
                result.dtype() == expected.dtype && *result.shape().dims() == expected.shape[..];
            if !same {
                let recorded = Aval::new(expected.dtype, &expected.shape);
                return Err(format!("result {position}: {}, recorded {recorded}", result.aval()));
            }
            let tolerance = match own {
                Value::Null => &self.suite.tolerance[expected.dtype.name()],
                own => own,
            };
            let bytes = result.to_bytes().map_err(|error| error.to_string())?;
            let tolerance = room(self.name(), tolerance);
            difference(expected.dtype, &bytes, &expected.bytes, &tolerance)
                .map_or(Ok(()), |message| Err(format!("result {position}: {message}")))?;
        }
        Ok(())
    }
}
