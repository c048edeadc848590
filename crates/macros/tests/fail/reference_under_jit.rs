use oxidax::prelude::*;

fn main() {
    let _ = jit(|x: &Array| x * 2.0);
}
