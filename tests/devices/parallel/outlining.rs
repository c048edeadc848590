//! Repeated layers of programs over several devices, which the partitioner compiles one by one.

use super::{close, counting, eight, mesh};
use oxidax::prelude::*;
use oxidax::tree::Args;

const WIDTH: usize = 128;

fn layers() -> Vec<nn::Linear> {
    eight();
    let keys = random::split(random::key(0), 6);
    keys.into_iter().map(|key| nn::Linear::new(key, WIDTH, WIDTH)).collect()
}

fn run(layers: &[nn::Linear], x: &Array) -> Array {
    layers.iter().fold(x.clone(), |x, layer| gelu(standardize(layer.forward(&x), -1, 1e-5)))
}

/// Returns the number of repeated parts and of calls that are not inlined.
fn functions<A: Args, O: Tree>(lowered: &Lowered<A, O>) -> (usize, usize) {
    let text = lowered.as_text("cpu").unwrap();
    (lowered.repeated_parts("cpu").unwrap().len(), text.matches("inlineable").count())
}

#[test]
fn layers_over_a_mesh_keep_their_shardings() {
    let (layers, x) = (layers(), counting(&[64, WIDTH]) * 1e-3);
    let alone = jit(|layers: Vec<nn::Linear>, x: Array| run(&layers, &x));
    assert_eq!(functions(&alone.lower(&layers, &x).unwrap()), (1, 6));
    let expected = alone.call(&layers, &x).unwrap();

    let mesh = mesh([("data", 4), ("model", 2)]);
    let rows = mesh.sharding(p!["data"]).unwrap();
    let blocks = mesh.sharding(p!["data", "model"]).unwrap();
    let constrained = jit(move |layers: Vec<nn::Linear>, x: Array| {
        layers.iter().fold(x, |x, layer| {
            let x = gelu(standardize(layer.forward(&x), -1, 1e-5));
            with_sharding_constraint(&x, &blocks)
        })
    });
    let x_rows = device_put(&x, &rows).unwrap();
    let lowered = constrained.lower(&layers, &x_rows).unwrap();
    assert_eq!(functions(&lowered), (0, 0));
    let text = lowered.as_text("cpu").unwrap();
    let constraints = text.matches("sharding_constraint").count();
    assert!(constraints >= 6, "{constraints} constraints in {text}");
    close(&constrained.call(&layers, &x_rows).unwrap(), &expected, 1e-4);

    let f = |layers: Vec<nn::Linear>, x: Array| run(&layers, &x);
    let mapped = shard_map(f, &mesh).in_specs((p![], p!["data"])).out_specs(p!["data"]);
    let each = jit(move |layers: Vec<nn::Linear>, x: Array| mapped.apply(&layers, &x));
    assert_eq!(functions(&each.lower(&layers, &x).unwrap()), (0, 0));
    close(&each.call(&layers, &x).unwrap(), &expected, 1e-4);
}
