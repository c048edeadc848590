use oxidax::core::Array;
use oxidax::Tree;

struct Plain {
    weight: Array,
}

#[derive(Tree)]
struct Model {
    plain: Vec<Plain>,
}

fn main() {}
