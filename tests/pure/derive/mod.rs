//! `#[derive(Tree)]`: the trees it builds and the compile errors it reports.

mod leaves;
mod pass;
