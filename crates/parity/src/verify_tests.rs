//! Planted differences are found and described; damaged fixtures are errors.

use crate::verify::{CaseOutcome, SUITES, computation};
use crate::{FixtureError, Suite};
use oxidax::prelude::*;
use serde_json::{Value, json};
use std::path::Path;

/// Writes a fixture of one case with one operand and one result, changed by `change`, and opens it.
fn opened(change: impl FnOnce(&mut Value)) -> Result<Suite, FixtureError> {
    let folder = tempfile::tempdir().unwrap();
    let mut index = json!({
        "suite": "s", "jax": "0.0", "tolerance": {}, "encoded": {},
        "cases": [{"name": "a", "op": "sin", "params": {}, "inputs": ["x"], "outputs": ["y"]}],
    });
    change(&mut index);
    std::fs::write(folder.path().join("s.json"), index.to_string()).unwrap();
    write_arrays(&folder.path().join("s.safetensors"));
    Suite::open(folder.path(), "s")
}

/// Writes the arrays `x` and `y` of two `f32` each.
fn write_arrays(path: &Path) {
    let entry = |at: usize| json!({"dtype": "F32", "shape": [2], "data_offsets": [at, at + 8]});
    let header = json!({"x": entry(0), "y": entry(8)}).to_string();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend([0; 16]);
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn fixtures_are_checked_when_they_are_opened() {
    let suite = opened(|_| ()).unwrap();
    assert_eq!((suite.name(), suite.jax(), suite.n_cases()), ("s", "0.0", 1));
    let grad = |wrt: usize| {
        json!({"wrt": [wrt], "tangents": ["x"], "jvp": ["y"],
        "cotangents": ["y"], "vjp": ["x"]})
    };
    assert!(opened(|index| index["cases"][0]["grad"] = grad(0)).is_ok());
    type Change = fn(&mut Value);
    let changes: [(Change, &str); 7] = [
        (|index| index["cases"] = json!(3), "it has no cases"),
        (|index| index["cases"][0]["name"] = json!(null), "a case has no name"),
        (|index| index["cases"][0]["op"] = json!(1), "a has no op"),
        (|index| index["cases"][0]["inputs"] = json!(["z"]), "which is not in the file"),
        (|index| index["cases"][0]["outputs"] = json!("y"), "a has no outputs"),
        (|index| index["encoded"] = json!({"x": "c64", "y": "f9"}), "s.safetensors: `"),
        (|index| index["encoded"] = json!({"x": "f64"}), "`x` has 8 bytes for 2 elements"),
    ];
    for (change, expected) in changes {
        let error = opened(change).unwrap_err().to_string();
        assert!(error.contains(expected), "`{expected}` in {error}");
    }
    let error = opened(|index| index["cases"][0]["grad"] = grad(1)).unwrap_err().to_string();
    assert!(error.contains("wrt is [1], of 1 inputs"), "{error}");
}

#[test]
fn damaged_arrays_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.safetensors");
    std::fs::write(folder.path().join("s.json"), r#"{"cases": []}"#).unwrap();
    write_arrays(&path);
    let whole = std::fs::read(&path).unwrap();
    for length in 0..whole.len() {
        std::fs::write(&path, &whole[..length]).unwrap();
        assert!(Suite::open(folder.path(), "s").is_err(), "{length} of {} bytes", whole.len());
    }
}

#[test]
fn every_suite_has_a_computation_for_each_operation() {
    for name in SUITES {
        let suite = Suite::load(name);
        let is_known = |case: &Value| {
            computation(name, case["op"].as_str().unwrap(), &case["params"]).is_some()
        };
        assert!(suite.cases.iter().all(is_known), "{name}");
    }
    assert!(computation("mlp", "train", &Value::Null).is_none());
}

mod on_cpu {
    use super::*;

    fn kept(names: &[&str]) -> Suite {
        let mut suite = Suite::load("special");
        suite.cases.retain(|case| names.iter().any(|name| case["name"] == *name));
        assert_eq!(suite.cases.len(), names.len());
        suite
    }

    #[test]
    fn planted_differences_are_found() {
        let names = ["lgamma_f32", "lgamma_empty", "digamma_f32", "digamma_f64"];
        let mut suite = kept(&names);
        // The recorded value of element 1 becomes 1000.
        let key = suite.cases[0]["outputs"][0].as_str().unwrap().to_owned();
        let stored = suite.arrays.get_mut(&key).unwrap();
        stored.bytes[4..8].copy_from_slice(&1000f32.to_le_bytes());
        let line = suite.line(0);
        // Operations that do not exist, and one that panics for its operands.
        suite.cases[2]["op"] = json!("no_such_operation");
        suite.cases[3]["line"] = json!("special_suite.py:7");
        let reports = suite.verify();
        let [first, empty, unknown, good] = &reports[..] else { panic!("four reports") };
        let CaseOutcome::Different(differences) = &first.outcome else { panic!("{first:?}") };
        let [difference] = &differences[..] else { panic!("{differences:?}") };
        assert_eq!((difference.role, difference.position, difference.index), ("result", 0, 1));
        assert_eq!((difference.expected, difference.n_wrong), (1000.0, 1));
        assert!((0.9..1.1).contains(&difference.relative), "{difference:?}");
        assert_eq!(difference.tolerance, "rtol 3e-5, atol 1e-6");
        assert_eq!(first.line, line);
        assert!(line.starts_with("special.json:"), "{line}");
        assert!(matches!(empty.outcome, CaseOutcome::Equal), "{empty:?}");
        let CaseOutcome::Failed(message) = &unknown.outcome else { panic!("{unknown:?}") };
        assert!(message.contains("no operation is called no_such_operation"), "{message}");
        assert!(matches!(good.outcome, CaseOutcome::Equal | CaseOutcome::Within), "{good:?}");
        assert_eq!(good.line, "recorder/special_suite.py:7");
    }

    #[test]
    fn documented_differences_are_marked() {
        let mut suite = Suite::load("ops");
        suite.cases.retain(|case| case["name"] == "reduce_max_empty_f32");
        let reports = suite.verify();
        assert!(matches!(reports[0].outcome, CaseOutcome::Intended(_)), "{reports:?}");
    }

    #[test]
    fn arrays_are_compared_with_a_case() {
        let suite = opened(|_| ()).unwrap();
        let same = suite.compare("a", &[zeros([2])]).unwrap();
        assert!(matches!(same.outcome, CaseOutcome::Equal), "{same:?}");
        let other = suite.compare("a", &[Array::from_slice(&[0f32, 2.0], [2]).unwrap()]).unwrap();
        assert!(matches!(other.outcome, CaseOutcome::Different(_)), "{other:?}");
        for wrong in [zeros([3]), zeros(([2], DType::I32))] {
            let report = suite.compare("a", &[wrong]).unwrap();
            assert!(matches!(report.outcome, CaseOutcome::Failed(_)), "{report:?}");
        }
        assert!(suite.compare("b", &[]).is_none());
    }
}
