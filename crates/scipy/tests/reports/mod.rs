//! Comparison of a fixture with the functions of this crate.

use oxidax::prelude::*;
use oxidax_parity::Suite;
use serde_json::Value;
use std::path::Path;

/// Computes all cases of a fixture and fails with those that differ from JAX's results.
#[track_caller]
pub fn expect_equal(suite: &str, apply: fn(&str, &Value, &[Array]) -> Vec<Array>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python-compat/fixtures");
    let suite = Suite::open(folder, suite).unwrap_or_else(|error| panic!("{error}"));
    suite.expect_equal(apply);
}
