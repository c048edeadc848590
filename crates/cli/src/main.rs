//! The `oxidax` command.
fn main() {}
