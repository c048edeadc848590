//! `#[derive(Tree)]` as users write it: what it builds, and what it refuses and in which words.

mod leaves;
mod pass;

#[test]
fn derive_errors_match_snapshots() {
    trybuild::TestCases::new().compile_fail("tests/pure/derive/fail/*.rs");
}
