use oxidax::prelude::*;

fn main() {
    let _ = grad(|x: &Array| x.sum().item::<f32>().unwrap());
}
