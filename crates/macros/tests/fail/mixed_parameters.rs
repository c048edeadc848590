use oxidax::prelude::*;

fn main() {
    let _ = jit(|w: Array, x: &Array| x * w);
}
