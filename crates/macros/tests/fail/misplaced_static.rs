use oxidax::core::Array;
use oxidax::Tree;

#[derive(Tree)]
#[tree(static)]
struct Config {
    width: Array,
}

#[derive(Tree)]
enum Activation {
    #[tree(static)]
    Relu,
    Gelu(Array),
}

fn main() {}
