use oxidax::core::Array;
use oxidax::Tree;

#[derive(Tree)]
enum Table {
    Fixed(#[tree(static)] Array),
    Learned(Array),
}

fn main() {}
