//! `#[derive(Tree)]` as users write it: what it builds, and what it refuses and in which words.

mod leaves;
mod pass;
