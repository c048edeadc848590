use oxidax::core::Array;
use oxidax::Tree;

#[derive(Tree)]
struct Dropout {
    mask: Array,
    #[tree(static)]
    rates: Vec<f32>,
}

fn main() {}
