//! `#[derive(Tree)]` as users write it: what it builds, and what it refuses and in which words.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod leaves;
mod pass;

#[test]
fn mistakes_are_explained() {
    trybuild::TestCases::new().compile_fail("tests/derive/fail/*.rs");
}
