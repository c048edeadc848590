//! Comparison of whole suites of the repository, for the tests of this crate.

use crate::difference::difference;
use crate::fixtures::{Apply, Case, Suite};
use crate::joined::{Work, compute};
use crate::known::DELIBERATE;
use oxidax::prelude::*;
use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;

impl Suite {
    /// Loads a suite of `python-compat/fixtures`.
    pub(crate) fn load(name: &str) -> Suite {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python-compat/fixtures");
        Suite::open(folder, name).unwrap_or_else(|error| panic!("{error}"))
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

impl Case<'_> {
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
            let bytes = result.to_bytes().map_err(|error| error.to_string())?;
            let tolerance = self.tolerance(expected.dtype, own);
            difference(expected.dtype, &bytes, &expected.bytes, &tolerance)
                .map_or(Ok(()), |message| Err(format!("result {position}: {message}")))?;
        }
        Ok(())
    }
}
