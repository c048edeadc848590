//! Lines of programs that were ported from JAX, in the forms that compile.
//!
//! Each line of a table has a test named after it. A line that Rust cannot accept has a case in
//! `crates/macros/tests/fail`, whose error names the right spelling, or an entry with the reason in
//! `docs/for-jax-users.md`.

use oxidax::prelude::*;

mod arrays;
mod control_flow;
mod packed_trees;
mod transforms;
mod tree_maps;
mod trees;

fn array(values: &[f32]) -> Array {
    Array::from_slice(values, [values.len()]).unwrap()
}

fn values(x: &Array) -> Vec<f32> {
    x.to_vec().unwrap()
}

fn close(x: &Array, expected: &[f32]) {
    let found = values(x);
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= 1e-6 * (1.0 + expected.abs()), "{found} is {expected}");
    }
}
