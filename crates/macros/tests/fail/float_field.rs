use oxidax::core::Array;
use oxidax::Tree;

#[derive(Tree)]
struct Optimizer {
    momentum: Array,
    learning_rate: f32,
}

fn main() {}
