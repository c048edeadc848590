//! Shardings of intermediate values, for observers in a program.

use crate::core::{Error, Loc, OpErrorKind, Program, ShardingObserver, Var, trace};
use crate::passes::{LowerOptions, Plan, RequestedLayouts};
use crate::runtime::{CompilerOptions, Executable};
use std::sync::Arc;

/// Passes the shardings of values to the observers in a program. Compiles the program once more,
/// with these values as results.
///
/// # Errors
/// `Compile`, `Plugin`; `Op` (unsupported) for a value of a program that an equation holds.
pub(super) fn inspect_shardings(
    program: &Program,
    name: &str,
    plan: &Plan,
    options: &CompilerOptions,
) -> Result<(), Error> {
    let observed = observers(program);
    let nested = nested_observers(program);
    if observed.is_empty() && nested.is_empty() {
        return Ok(());
    }
    if plan.mesh().is_none_or(|mesh| mesh.devices().len() == 1) {
        let all = observed.iter().map(|(_, observer)| observer);
        all.chain(nested.iter().map(|(_, observer)| observer)).for_each(|it| it.observe(None));
        return Ok(());
    }
    if let Some((loc, _)) = nested.first() {
        let message = "the value is inside of a loop, a branch or an inner function";
        let operation = "inspect_array_sharding";
        let error = trace::op_error(OpErrorKind::Unsupported, operation, message, *loc);
        return Err(error.with_help(
            "inspect it outside, inline the inner function, or use explicit axes, whose shardings \
             are known while tracing",
        ));
    }
    let values: Vec<Var> = observed.iter().map(|(value, _)| *value).collect();
    let program = program.with_outputs(&values);
    let (outputs, layouts) = (vec![None; values.len()], RequestedLayouts::default());
    let plan = Plan { outputs, layouts, ..plan.clone() };
    let module = Executable::lower(&program, name, &plan, LowerOptions { donatable: false })?;
    let results = program.avals_out().into_iter().map(Arc::new).collect();
    let executable = Executable::load(&program, name, &module, results, &plan, options)?;
    for ((_, observer), placement) in observed.iter().zip(executable.outputs()) {
        observer.observe(placement.sharding());
    }
    Ok(())
}

/// Returns the observers of a program with the values that they observe.
fn observers(program: &Program) -> Vec<(Var, ShardingObserver)> {
    let mut found = Vec::new();
    for eqn in program.eqns() {
        if let Some(observer) = eqn.primitive.spmd().and_then(|spmd| spmd.observer()) {
            found.push((eqn.operands[0], observer.clone()));
        }
    }
    found
}

/// Returns the observers of the programs that equations hold, with their lines.
fn nested_observers(program: &Program) -> Vec<(Loc, ShardingObserver)> {
    let mut found = Vec::new();
    for eqn in program.eqns() {
        let holder = eqn.primitive.as_higher_order();
        for (_, inner) in holder.map(|holder| holder.programs()).unwrap_or_default() {
            for eqn in inner.eqns() {
                let observer = eqn.primitive.spmd().and_then(|spmd| spmd.observer());
                found.extend(observer.map(|observer| (eqn.loc, observer.clone())));
            }
            found.extend(nested_observers(inner));
        }
    }
    found
}
