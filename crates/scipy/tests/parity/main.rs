//! Compares the functions of this crate with fixtures that JAX computed.

#![allow(clippy::unwrap_used, reason = "a case with missing parameters fails")]

mod formats;
mod signal;
mod sparse;
mod spatial;

use oxidax::prelude::*;
use oxidax_parity::Suite;
use serde_json::Value;
use std::path::Path;

/// Maps an operation, its parameters and its operands to the results.
type Apply = fn(&str, &Value, &[Array]) -> Vec<Array>;

/// Computes all cases of a suite, and fails with those that differ from JAX.
#[track_caller]
fn check(name: &str, apply: Apply) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python-compat/fixtures");
    Suite::open(folder, name).unwrap().expect_equal(apply);
}

/// Computes a case. If it has a list `in_axes`, `vmap` maps axis 0 of the marked operands.
fn mapped(plain: Apply, op: &str, params: &Value, operands: &[Array]) -> Vec<Array> {
    let Some(axes) = params["in_axes"].as_array() else { return plain(op, params, operands) };
    let is_mapped: Vec<bool> = axes.iter().map(|axis| !axis.is_null()).collect();
    let split = |wanted: bool| -> Vec<Array> {
        let pairs = operands.iter().zip(&is_mapped).filter(|(_, mapped)| **mapped == wanted);
        pairs.map(|(x, _)| x.clone()).collect()
    };
    let (op, params, fixed, varying) = (op.to_owned(), params.clone(), split(false), split(true));
    let one = move |examples: Vec<Array>| {
        let (mut examples, mut fixed) = (examples.into_iter(), fixed.iter().cloned());
        let operands: Vec<Array> = is_mapped
            .iter()
            .map(|mapped| if *mapped { examples.next() } else { fixed.next() }.unwrap())
            .collect();
        plain(&op, &params, &operands)
    };
    vmap(one).apply(varying)
}

/// Returns a list of numbers.
fn numbers(value: &Value) -> Option<Vec<isize>> {
    let list = value.as_array()?;
    Some(list.iter().map(|number| number.as_i64().unwrap() as isize).collect())
}

/// Returns a list of sizes.
fn sizes(value: &Value) -> Option<Vec<usize>> {
    Some(numbers(value)?.into_iter().map(|number| number as usize).collect())
}

/// Returns a size.
fn size(value: &Value) -> Option<usize> {
    value.as_u64().map(|number| number as usize)
}

mod on_cpu {
    use super::*;

    #[test]
    fn functions_of_16_bit_floats() {
        check("scipy_halves", |op, params, x| match params["family"].as_str().unwrap() {
            "signal" => signal::plain(op, params, x),
            _ => spatial::plain(op, params, x),
        });
    }
}
