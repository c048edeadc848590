//! Interpretation of a map: compiled as a whole, or equation by equation.
//!
//! Equation by equation, the values of all devices are one array over the mesh, with the devices
//! along a leading axis. Each equation is a map that takes and returns such arrays.

use super::{ShardMap, ShardMapping};
use crate::control_flow::derive::avals_of;
use crate::core::nan_check::{introduced, nan_check, nan_error, without_nan_check};
use crate::core::{
    Array, Aval, AxisSpec, Eqn, Error, Loc, PartitionSpec, Primitive, Program, backend, catch,
    throw, trace,
};
use crate::passes;
use crate::passes::Bind;
use crate::primitives::reshape;
use crate::transforms::staging::trace_rules;
use std::rc::Rc;
use std::sync::Arc;

/// Runs a map on concrete operands.
pub(super) fn interpret(map: &ShardMap, operands: &[Array]) -> Result<Vec<Array>, Error> {
    let searches = nan_check().is_some() || passes::is_evaluation_replaced();
    // Values that are sharded over the other axes of the mesh have no place for another axis.
    let is_sharded = map.program.avals().iter().any(|aval| aval.sharding.is_some());
    match searches && !is_sharded && !passes::is_bind_replaced() {
        true => equation_by_equation(map, operands),
        false => run(map.clone(), operands, Loc::UNKNOWN),
    }
}

/// Compiles and runs a map.
fn run(map: ShardMap, operands: &[Array], loc: Loc) -> Result<Vec<Array>, Error> {
    let results = map
        .abstract_eval(&avals_of(operands))
        .map_err(|error| trace::op_error(error.kind, "shard_map", error.message, Loc::UNKNOWN))?;
    let primitive: Arc<dyn Primitive> = Arc::new(map);
    let references: Vec<&Array> = operands.iter().collect();
    // A check would interpret the map again.
    without_nan_check(|| backend().apply(&primitive, &references, results, loc))
}

fn equation_by_equation(map: &ShardMap, operands: &[Array]) -> Result<Vec<Array>, Error> {
    let ShardMapping { in_specs, out_specs, .. } = &map.mapping;
    let stacked = |n: usize| vec![stacked_spec(&map.mapping); n];
    let stack = trace_rules(map.program.avals_in(), |inputs| inputs.iter().map(stack).collect());
    let stack = step(map, stack, in_specs.clone(), stacked(in_specs.len()));
    let values = run(stack, operands, Loc::UNKNOWN)?;
    let bind: Rc<Bind> = {
        let map = map.clone();
        Rc::new(move |eqn, operands| bind_stacked(&map, eqn, operands))
    };
    let values = passes::with_bind(Some(bind), || catch(|| passes::eval(&map.program, &values)))?;
    let outputs = map.program.avals_out();
    let unstack = trace_rules(outputs.iter().map(stacked_aval), |values| {
        values.iter().zip(&outputs).map(|(value, aval)| unstack(value, aval)).collect()
    });
    let unstack = step(map, unstack, stacked(out_specs.len()), out_specs.clone());
    run(unstack, &values, Loc::UNKNOWN)
}

/// Returns a map of another program over the same devices.
fn step(
    map: &ShardMap,
    program: Program,
    in_specs: Vec<PartitionSpec>,
    out_specs: Vec<PartitionSpec>,
) -> ShardMap {
    let mut step = map.with_program(Arc::new(program), in_specs, out_specs);
    // The types inside are those of the whole program.
    step.mapping.tracked = false;
    step
}

/// Returns the spec of a value with the devices along its leading axis.
fn stacked_spec(mapping: &ShardMapping) -> PartitionSpec {
    PartitionSpec(vec![AxisSpec::from(mapping.axes.clone())])
}

/// Returns the type of one device's part of such a value.
fn stacked_aval(aval: &Aval) -> Aval {
    aval.with_shape(aval.shape.insert(0, 1))
}

fn stack(value: &Array) -> Array {
    reshape(value, value.shape().insert(0, 1))
}

fn unstack(value: &Array, aval: &Aval) -> Array {
    reshape(value, aval.shape.clone())
}

/// Applies an equation of the program of a map. Throws if it makes a NaN that is checked for.
fn bind_stacked(map: &ShardMap, eqn: &Eqn, operands: &[&Array]) -> Vec<Array> {
    if let Some(program) = passes::inlined(eqn) {
        let operands: Vec<Array> = operands.iter().map(|&operand| operand.clone()).collect();
        return passes::eval(program, &operands);
    }
    let applied = apply_stacked(map, eqn, operands);
    let checked = applied.and_then(|results| {
        let Some(check) = nan_check() else { return Ok(results) };
        match introduced(check, operands, &results)? {
            Some(value) => Err(nan_error(eqn.primitive.name(), &value, operands, eqn.loc)),
            None => Ok(results),
        }
    });
    checked.unwrap_or_else(|error| throw(error))
}

fn apply_stacked(map: &ShardMap, eqn: &Eqn, operands: &[&Array]) -> Result<Vec<Array>, Error> {
    let local = |stacked: &&Array| {
        let aval = stacked.aval();
        aval.with_shape(aval.shape.remove(0))
    };
    let avals: Vec<Aval> = operands.iter().map(local).collect();
    let program = catch(|| {
        trace_rules(avals.iter().map(stacked_aval), |values| {
            let values: Vec<Array> =
                values.iter().zip(&avals).map(|(value, aval)| unstack(value, aval)).collect();
            let results = passes::bind(eqn, &values.iter().collect::<Vec<_>>());
            results.iter().map(stack).collect()
        })
    })?;
    let n_results = program.outputs().len();
    let specs = |n: usize| vec![stacked_spec(&map.mapping); n];
    let step = step(map, program, specs(operands.len()), specs(n_results));
    let operands: Vec<Array> = operands.iter().map(|&operand| operand.clone()).collect();
    run(step, &operands, eqn.loc)
}
