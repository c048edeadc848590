use oxidax::core::Array;
use oxidax::Tree;

#[derive(Tree)]
struct Model {
    #[tree(skip)]
    a: Array,
    #[tree]
    b: Array,
    #[tree()]
    c: Array,
    #[tree(static = true)]
    d: u32,
    #[tree(static, static)]
    e: u32,
    #[tree = "static"]
    f: u32,
}

fn main() {}
