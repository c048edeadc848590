//! `#[derive(Tree)]`: the trees it builds and the compile errors it reports.

mod leaves;
mod pass;

#[test]
fn derive_errors_match_snapshots() {
    trybuild::TestCases::new().compile_fail("tests/pure/derive/fail/*.rs");
}
