use oxidax::core::Array;
use oxidax::Tree;

#[derive(Tree)]
struct Schedule {
    momentum: Array,
    rates: Option<Vec<f64>>,
}

fn main() {}
