//! `pbroadcast`, `psend` and `precv` over eight devices.

use super::{counting, mesh, values};
use oxidax::prelude::*;

#[test]
fn the_source_reaches_all_devices() {
    let mesh = mesh([("x", 8)]);
    let from_five = |x: Array| pbroadcast(&x, "x", 5);
    let same = shard_map(from_five, &mesh).in_specs(p!["x"]).out_specs(p![None]);
    assert_eq!(values(&same.apply(counting(&[8, 2]))), [10.0, 11.0]);
    let squares = move |x: &Array| {
        let square = |x: Array| pbroadcast(&x, "x", 5).square();
        shard_map(square, &mesh).in_specs(p!["x"]).out_specs(p![None]).apply(x).sum()
    };
    let gradient = values(&grad(squares)(&counting(&[8])));
    assert_eq!(gradient, [0.0, 0.0, 0.0, 0.0, 0.0, 10.0, 0.0, 0.0]);
}

#[test]
fn sent_values_arrive() {
    let pairs: Vec<(usize, usize)> = (0..7).map(|from| (from, from + 1)).collect();
    let exchange = move |x: Array| precv(psend(&x, "x", &pairs), "x", &pairs);
    let moved = shard_map(exchange, &mesh([("x", 8)])).in_specs(p!["x"]).out_specs(p!["x"]);
    let expected = [0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    assert_eq!(values(&moved.apply(counting(&[8]))), expected);
}
