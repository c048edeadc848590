use oxidax::prelude::*;

fn main() {
    let _ = jit(|x| matrix_transpose(x));
}
