use oxidax::prelude::*;

fn main() {
    let _ = jit(|x: Array, rate: f32| &x * rate);
}
