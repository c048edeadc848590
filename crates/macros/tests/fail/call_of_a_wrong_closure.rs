use oxidax::prelude::*;

fn main() {
    let x = ones([2, 2]);
    let without_type = jit(|x| matrix_transpose(x));
    without_type.call(&x).unwrap();
    jit(|x: Array, rate: f32| &x * rate).name("scale").call(&x, 0.1).unwrap();
    jit(|x| matrix_transpose(x)).lower(&x).unwrap();
    let mapped = vmap(|x| matrix_transpose(x)).in_axes(1);
    mapped.apply(&x);
    pmap(|x| matrix_transpose(x)).axis_name("data").call(&x).unwrap();
    let mesh = Mesh::without_devices([("data", 1)]).unwrap();
    shard_map(|x| matrix_transpose(x), &mesh).in_specs(p!["data"]).apply(&x);
}
