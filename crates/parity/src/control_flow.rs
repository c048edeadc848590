//! Loops and conditionals under transforms. The functions are given as formulas in
//! `python-compat/README.md` and as Python code in `recorder/control_flow_functions.py`.

use crate::control_flow_functions::{Function, function};
#[cfg(test)]
use crate::fixtures::Suite;
use crate::refs;
use oxidax::prelude::*;
use serde_json::Value;

/// Returns `sum(y²)` over all real results.
fn total(results: &[Array]) -> Array {
    let real = results.iter().filter(|y| y.dtype().is_float());
    let sums = real.map(|y| integer_pow(y, 2).sum());
    sums.reduce(|a, b| a + b).expect("every function has a real result")
}

/// Returns the gradient of the total with respect to operand 0.
fn gradient(f: Function, operands: &[Array]) -> Array {
    let rest = operands[1..].to_vec();
    grad(move |x: &Array| {
        let mut operands = vec![x.clone()];
        operands.extend(rest.iter().cloned());
        total(&f(&operands))
    })(&operands[0])
}

fn positions(list: &Value) -> Vec<usize> {
    let list = list.as_array().unwrap();
    list.iter().map(|at| at.as_u64().unwrap() as usize).collect()
}

/// Applies `f` to every row of the mapped operands.
fn rows(
    f: impl Fn(&[Array]) -> Vec<Array> + Send + Sync + 'static,
    mapped: &[usize],
    operands: &[Array],
) -> Vec<Array> {
    let chosen: Vec<Array> = mapped.iter().map(|&at| operands[at].clone()).collect();
    let (all, mapped) = (operands.to_vec(), mapped.to_vec());
    vmap(move |row: Vec<Array>| {
        let mut operands = all.clone();
        mapped.iter().zip(row).for_each(|(&at, x)| operands[at] = x);
        f(&operands)
    })
    .apply(chosen)
}

pub(crate) fn apply(op: &str, params: &Value, operands: &[Array]) -> Vec<Array> {
    let name = params["function"].as_str().unwrap();
    let f = match name.strip_prefix("ref_") {
        Some(name) => refs::function(name),
        None => function(name),
    };
    match op {
        "call" => f(operands),
        "vmap" => rows(f, &positions(&params["mapped"]), operands),
        "vmap(grad)" => {
            rows(move |row| vec![gradient(f, row)], &positions(&params["mapped"]), operands)
        }
        "jvp(grad)" => {
            let (v, operands) = operands.split_last().unwrap();
            let rest = operands[1..].to_vec();
            let of_x = |x: &Array| {
                let mut operands = vec![x.clone()];
                operands.extend(rest.iter().cloned());
                gradient(f, &operands)
            };
            let (value, tangent) = jvp(of_x, &operands[0], v);
            vec![value, tangent]
        }
        "jvp" => {
            let wrt = positions(&params["wrt"]);
            let (primals, tangents) = operands.split_at(operands.len() - wrt.len());
            let of_chosen = |chosen: &Vec<Array>| {
                let mut operands = primals.to_vec();
                wrt.iter().zip(chosen).for_each(|(&at, x)| operands[at] = x.clone());
                f(&operands).into_iter().filter(|y| y.dtype().is_float()).collect::<Vec<_>>()
            };
            let chosen = wrt.iter().map(|&at| primals[at].clone()).collect();
            let (mut values, tangents) = jvp(of_chosen, &chosen, tangents.to_vec());
            values.extend(tangents);
            values
        }
        other => panic!("no nesting is called {other}"),
    }
}

#[cfg(test)]
mod on_cpu {
    use super::*;

    fn suite() -> Suite {
        Suite::load("control_flow").with_narrow_defaults()
    }

    #[test]
    fn values_and_derivatives_match_jax() {
        suite().check_ops(|op| op == "call" || op == "jvp", apply);
    }

    #[test]
    fn batches_match_jax() {
        suite().check_ops(|op| op == "vmap", apply);
    }

    #[test]
    fn row_gradients_and_their_derivatives_match_jax() {
        suite().check_ops(|op| op == "vmap(grad)" || op == "jvp(grad)", apply);
    }
}
