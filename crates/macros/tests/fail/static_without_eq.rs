use oxidax::core::Array;
use oxidax::Tree;

#[derive(Clone, Debug, PartialEq, Hash)]
struct Config {
    width: usize,
}

#[derive(Tree)]
struct Model {
    weight: Array,
    #[tree(static)]
    config: Config,
}

fn main() {}
