//! `pbroadcast`, `psend` and `precv` over eight devices.

use super::{counting, mesh, values};
use oxidax::prelude::*;

#[test]
fn the_source_reaches_all_devices() {
    let mesh = mesh([("x", 8)]);
    let body = |x: Array| pbroadcast(&x, "x", 5);
    let y = shard_map(body, &mesh).in_specs(p!["x"]).out_specs(p![None]).apply(&counting(&[8, 2]));
    assert_eq!(values(&y), [10.0, 11.0]);
    let slope = |x: Array| {
        let of = |x: &Array| {
            let body = |x: Array| pbroadcast(&x, "x", 5).square();
            shard_map(body, &mesh).in_specs(p!["x"]).out_specs(p![None]).apply(x).sum()
        };
        grad(of)(&x)
    };
    let gradient = values(&slope(counting(&[8])));
    assert_eq!(gradient, [0.0, 0.0, 0.0, 0.0, 0.0, 10.0, 0.0, 0.0]);
}

#[test]
fn sent_values_arrive() {
    let mesh = mesh([("x", 8)]);
    let pairs: Vec<(usize, usize)> = (0..7).map(|from| (from, from + 1)).collect();
    let body = move |x: Array| {
        let token = psend(&x, "x", &pairs);
        precv(token, "x", &pairs)
    };
    let y = shard_map(body, &mesh).in_specs(p!["x"]).out_specs(p!["x"]).apply(&counting(&[8]));
    assert_eq!(values(&y), [0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
}
