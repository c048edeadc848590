use oxidax::prelude::*;

fn main() {
    let _ = jit(|x| tanh(x));
}
