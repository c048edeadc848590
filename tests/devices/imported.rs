//! Functions that real JAX has exported, of several of its versions: results and gradients.
//!
//! `python-compat/imported_functions.py` writes the files.

use oxidax::core::throw;
use oxidax::import::ImportedFunction;
use oxidax::prelude::*;
use safetensors::SafeTensors;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The functions of one version of JAX.
struct Recorded<'a> {
    jax: String,
    cases: Vec<Value>,
    arrays: SafeTensors<'a>,
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("python-compat/fixtures/imported");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

impl Recorded<'_> {
    fn of(bytes: &[u8]) -> Recorded<'_> {
        let (_, metadata) = SafeTensors::read_metadata(bytes).unwrap();
        let metadata = metadata.metadata().clone().unwrap();
        let cases = serde_json::from_str(&metadata["cases"]).unwrap();
        let arrays = SafeTensors::deserialize(bytes).unwrap();
        Recorded { jax: metadata["jax"].clone(), cases, arrays }
    }

    fn array(&self, stored: &Value) -> (DType, Array) {
        let view = self.arrays.tensor(stored["array"].as_str().unwrap()).unwrap();
        let mut shape = view.shape().to_vec();
        let name = match stored["dtype"].as_str().unwrap() {
            "bool" | "float0" => "bool".to_owned(),
            "bfloat16" => "bf16".to_owned(),
            name if name.starts_with("float8_") => name.replacen("float8", "f8", 1),
            name if name.starts_with("complex") => {
                assert_eq!(shape.pop(), Some(2));
                name.replacen("complex", "c", 1)
            }
            name => name.replacen("uint", "u", 1).replacen("int", "i", 1).replacen("float", "f", 1),
        };
        let dtype = DType::from_name(&name).unwrap_or_else(|| panic!("no dtype {name}"));
        (dtype, Array::from_bytes(view.data(), dtype, shape).unwrap())
    }

    fn arrays(&self, list: &Value) -> Vec<Array> {
        list.as_array().unwrap().iter().map(|stored| self.array(stored).1).collect()
    }

    fn function(&self, case: &Value) -> Result<ImportedFunction, Error> {
        let name = format!("{}/{}", case["kind"].as_str().unwrap(), case["name"].as_str().unwrap());
        ImportedFunction::read(self.arrays.tensor(&name).unwrap().data())
    }
}

fn numbers(x: &Array) -> Vec<f64> {
    let wide = |x: &Array| convert_element_type(x, DType::F64).to_vec::<f64>().unwrap();
    match x.dtype().is_complex() {
        true => [wide(&real(x)), wide(&imag(x))].concat(),
        false => wide(x),
    }
}

/// Returns the problem, if results differ by more than the tolerance relative to the largest
/// element.
fn difference(found: &[Array], expected: &[Array], tolerance: f64) -> Option<String> {
    if found.len() != expected.len() {
        return Some(format!("{} results in place of {}", found.len(), expected.len()));
    }
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        if found.aval() != expected.aval() {
            return Some(format!("result {index} is {}, not {}", found.aval(), expected.aval()));
        }
        let (a, b) = (numbers(found), numbers(expected));
        let scale = b.iter().filter(|b| b.is_finite()).fold(1.0_f64, |m, b| m.max(b.abs()));
        let room = if found.dtype().is_inexact() { tolerance * scale } else { 0.0 };
        let differs = |(a, b): &(&f64, &f64)| {
            !(a == b || (a.is_nan() && b.is_nan()) || (*a - *b).abs() <= room)
        };
        if let Some((a, b)) = a.iter().zip(&b).find(differs) {
            return Some(format!("result {index} has {a} in place of {b}"));
        }
    }
    None
}

fn check(recorded: &Recorded<'_>, case: &Value) -> Result<(), String> {
    let function = recorded.function(case).map_err(|error| error.to_string())?;
    let tolerance = case["tolerance"].as_f64().unwrap();
    for call in case["calls"].as_array().unwrap() {
        let arguments = recorded.arrays(&call["arguments"]);
        let results = function.call_flat(arguments.clone()).map_err(|e| e.to_string())?;
        if let Some(problem) = difference(&results, &recorded.arrays(&call["results"]), tolerance) {
            return Err(problem);
        }
        if call["cotangents"].is_array() {
            // JAX's cotangents of integers have no contents; ours are zeros.
            let cotangents = recorded.arrays(&call["cotangents"]).into_iter().zip(&results);
            let cotangents: Vec<Array> = cotangents
                .map(|(ct, y)| if y.dtype().is_inexact() { ct } else { zeros_like(y) })
                .collect();
            let expected = recorded.arrays(&call["gradients"]);
            let gradients = oxidax::catch(|| {
                let run = |x: &Vec<Array>| {
                    function.call_flat(x.clone()).unwrap_or_else(|error| throw(error))
                };
                let (_, pull_back) = vjp(run, &arguments);
                pull_back(&cotangents)
            });
            let gradients: Vec<Array> = gradients.map_err(|error| format!("gradient: {error}"))?;
            let pairs = gradients.into_iter().zip(expected);
            let (found, expected): (Vec<_>, Vec<_>) =
                pairs.filter(|(found, _)| found.dtype().is_inexact()).unzip();
            if let Some(problem) = difference(&found, &expected, tolerance) {
                return Err(format!("gradient: {problem}"));
            }
        }
    }
    Ok(())
}

#[test]
fn functions_of_jax_return_what_they_return_in_jax() {
    oxidax::parallel::set_cpu_devices(8).unwrap();
    let (mut count, mut failures) = (0, Vec::new());
    let mut kinds = BTreeMap::new();
    for path in files() {
        let bytes = std::fs::read(&path).unwrap();
        let recorded = Recorded::of(&bytes);
        for case in &recorded.cases {
            let name = format!(
                "{} {}/{}",
                recorded.jax,
                case["kind"].as_str().unwrap(),
                case["name"].as_str().unwrap()
            );
            *kinds.entry(case["kind"].as_str().unwrap().to_owned()).or_insert(0) += 1;
            count += 1;
            if let Err(problem) = check(&recorded, case) {
                failures.push(format!("{name}: {problem}"));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {count}:\n{}", failures.len(), failures.join("\n"));
    assert!(count >= 150 && kinds.len() >= 10, "{count} functions of kinds {kinds:?}");
}

#[test]
fn a_function_on_the_first_devices_is_traced_once() {
    oxidax::parallel::set_cpu_devices(8).unwrap();
    let bytes = std::fs::read(files().last().unwrap()).unwrap();
    let recorded = Recorded::of(&bytes);
    let is_product = |case: &&Value| case["kind"] == "sharded" && case["name"] == "product";
    let case = recorded.cases.iter().find(is_product).unwrap();
    let function = recorded.function(case).unwrap();
    let arguments = recorded.arrays(&case["calls"][0]["arguments"]);
    // Other tests of this process trace on other threads.
    let (here, count) = (std::thread::current().id(), Arc::new(AtomicUsize::new(0)));
    let counted = count.clone();
    let listener = oxidax::monitoring::register_event_duration_secs_listener(move |event, _, _| {
        if event == "/oxidax/compile/trace_duration" && std::thread::current().id() == here {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    for _ in 0..3 {
        function.call_flat(arguments.clone()).unwrap();
    }
    assert!(oxidax::monitoring::unregister_event_duration_listener(listener));
    assert_eq!(count.load(Ordering::Relaxed), 1);
}
