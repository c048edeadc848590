//! Compile errors of `derive(Tree)` and of functions that take trees: each file in `fail` has its
//! expected message beside it.

#[test]
fn mistakes_are_explained() {
    trybuild::TestCases::new().compile_fail("tests/fail/*.rs");
}
