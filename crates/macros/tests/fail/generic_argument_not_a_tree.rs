use oxidax::core::Array;
use oxidax::Tree;

#[derive(Tree)]
struct Pair<T>(T, T);

fn pair(x: f32) -> Vec<Array> {
    oxidax::tree::leaves(&Pair(x, x))
}

fn main() {}
