use oxidax::core::Array;
use oxidax::Tree;

#[derive(Tree)]
struct View {
    weight: &'static Array,
}

fn main() {}
