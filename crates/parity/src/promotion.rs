//! The promotion table: every pair of dtypes, weakly typed or not.

use oxidax::core::{DType, promote};
use serde_json::Value;

fn parsed(label: &str) -> (DType, bool) {
    let name = label.trim_end_matches('*');
    (DType::from_name(name).unwrap(), label.ends_with('*'))
}

/// Replaces JAX's default type by ours. JAX returns its default type if neither operand fixes a
/// width: `i64` or `f64` when 64-bit types are enabled. Ours is always the 32-bit type.
fn with_our_defaults(
    result: (DType, bool),
    lhs: (DType, bool),
    rhs: (DType, bool),
) -> (DType, bool) {
    let named = lhs.0 == result.0 || rhs.0 == result.0;
    match result {
        (DType::I64, true) if !named => (DType::I32, true),
        (DType::F64, true) if !named => (DType::F32, true),
        (DType::C128, true) if !named => (DType::C64, true),
        other => other,
    }
}

#[test]
fn promotion_matches_jax() {
    let text = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../python-compat/fixtures/promotion.json"
    ))
    .unwrap();
    let recorded: Value = serde_json::from_str(&text).unwrap();
    let columns = recorded["columns"].as_array().unwrap();
    let mut problems = Vec::new();
    for left in columns {
        let lhs = parsed(left.as_str().unwrap());
        let row = recorded["table"][left.as_str().unwrap()].as_array().unwrap();
        for (right, result) in columns.iter().zip(row) {
            let rhs = parsed(right.as_str().unwrap());
            let expected = result.as_str().map(|label| with_our_defaults(parsed(label), lhs, rhs));
            let actual = promote(lhs, rhs);
            if actual != expected {
                problems.push(format!("{left} with {right}: {actual:?}, JAX {expected:?}"));
            }
        }
    }
    assert_eq!(columns.len(), 50);
    assert!(problems.is_empty(), "{} pairs:\n{}", problems.len(), problems.join("\n"));
}
