use oxidax::core::Array;
use oxidax::Tree;

#[derive(Tree)]
struct View<'a> {
    weight: &'a Array,
}

fn main() {}
