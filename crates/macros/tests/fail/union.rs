use oxidax::core::Array;
use oxidax::Tree;

#[derive(Tree)]
union Either {
    left: u32,
    right: i32,
}

#[allow(dead_code)]
fn never(_: Array) {}

fn main() {}
