//! A function of the user: the whole of it, then the first operation that differs.
//!
//! JAX exports the function, and a function that returns the result of every operation. Their
//! operations become those of oxidax and run with its CPU plugin. A function that oxidax cannot
//! translate runs as the module that JAX wrote.

use super::python::Python;
use super::table::describe;
use super::{Verify, versions};
use oxidax::import::ImportedFunction;
use oxidax::replay::{reproducer_inputs, run_reproducer};
use oxidax_parity::{CaseOutcome, CaseReport, Suite};
use serde_json::Value;
use std::error::Error;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

/// Compares the function and prints the result. The exit code is 1 if results differ.
pub(super) fn run(
    verify: &Verify,
    python: &Python,
    name: &str,
    folder: &Path,
) -> Result<ExitCode, Box<dyn Error>> {
    if verify.platform.as_deref().is_some_and(|platform| platform != "cpu") {
        return Err("functions are compared on the CPU; other platforms: not yet".into());
    }
    let mut arguments = vec!["--platform".to_owned(), verify.jax_platform.clone()];
    arguments.extend(["--function".to_owned(), name.to_owned()]);
    arguments.extend(verify.gradients.then(|| "--gradients".to_owned()));
    arguments.extend(verify.x64.then(|| "--x64".to_owned()));
    if !verify.args.is_empty() {
        arguments.push("--args".to_owned());
        arguments.extend(verify.args.iter().cloned());
    }
    python.compute(folder, &arguments, |report| {
        if let Some(versions) = versions(report, python) {
            writeln!(io::stdout(), "{versions}")?;
        }
        Ok(())
    })?;
    let suite = Suite::open(folder, "function")?;
    let index: Value = serde_json::from_slice(&std::fs::read(folder.join("function.json"))?)?;
    let line = index["line"].as_str().unwrap_or_default();
    let whole = compare(&suite, folder, "whole")?;
    let differences = match &whole.outcome {
        CaseOutcome::Equal => return agree(name, line, "equal bit for bit"),
        CaseOutcome::Within => return agree(name, line, "within the tolerances"),
        CaseOutcome::Different(differences) => differences,
        other => return Err(format!("{name}: not compared: {other:?}").into()),
    };
    writeln!(io::stdout(), "{name}: different  {line}")?;
    for difference in differences {
        writeln!(io::stdout(), "  {}", describe(difference))?;
    }
    let steps = compare(&suite, folder, "steps")?;
    let CaseOutcome::Different(differences) = &steps.outcome else {
        writeln!(
            io::stdout(),
            "no operation differs when every result is returned: the compilers order operations \
             of the whole function differently"
        )?;
        return Ok(ExitCode::FAILURE);
    };
    if let Some(first) = differences.first() {
        let (op, line) = step(&index, first.position);
        let number = first.position;
        writeln!(io::stdout(), "the first operation that differs: {number} {op}  {line}")?;
        writeln!(io::stdout(), "  {}", describe(first))?;
    }
    Ok(ExitCode::FAILURE)
}

fn agree(name: &str, line: &str, how: &str) -> Result<ExitCode, Box<dyn Error>> {
    writeln!(io::stdout(), "{name}: {how}  {line}")?;
    Ok(ExitCode::SUCCESS)
}

/// Runs a module with oxidax and compares its results with JAX's.
fn compare(suite: &Suite, folder: &Path, case: &str) -> Result<CaseReport, Box<dyn Error>> {
    let folder = folder.join(case);
    let exported = folder.join("function.jax_export");
    let translated = match exported.exists() {
        true => ImportedFunction::load(&exported)
            .and_then(|function| function.call_flat(reproducer_inputs(&folder)?)),
        false => run_reproducer(&folder),
    };
    let results = match translated {
        Ok(results) => results,
        Err(reason) => {
            writeln!(io::stdout(), "not as operations of oxidax: {reason}")?;
            run_reproducer(&folder).map_err(|error| {
                let error = error.to_string();
                // jaxlib links LAPACK and others; a plugin does not have them.
                let help = match error.contains("No FFI handler registered") {
                    true => "\n  help: the function calls a kernel of jaxlib",
                    false => "",
                };
                format!("{error}{help}")
            })?
        }
    };
    Ok(suite.compare(case, &results).ok_or_else(|| format!("JAX wrote no case `{case}`"))?)
}

/// Returns the name and the Python line of the operation with this result.
fn step(index: &Value, position: usize) -> (&str, &str) {
    let step = &index["steps"][position];
    let text = |field: &str| step[field].as_str().unwrap_or_default();
    (text("op"), text("line"))
}
