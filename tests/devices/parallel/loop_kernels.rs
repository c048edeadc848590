//! Loops of programs that run on several devices are not kernels.

use super::{counting, mesh, values};
use oxidax::jit::{LoopForm, disable_loop_kernels};
use oxidax::prelude::*;

#[test]
fn loops_over_sharded_arrays_run_operation_by_operation() {
    let rows = mesh([("i", 8)]).sharding(p!["i"]).unwrap();
    let sharded = device_put(&counting(&[8]), &rows).unwrap();
    let f = jit(|x: Array| fori_loop(0, 4, |_, x: Array| &x * 0.5 + 1.0, x));
    let loops = f.lower(&sharded).unwrap().loops().unwrap();
    let several = LoopForm::Operations("the program runs on several devices".into());
    assert_eq!(loops[0].form, several);
    let whole = f.lower(counting(&[8])).unwrap().loops().unwrap();
    assert_eq!(whole[0].form, LoopForm::Kernel);
    let plain = disable_loop_kernels(|| f.call(&sharded)).unwrap();
    assert_eq!(values(&f.call(&sharded).unwrap()), values(&plain));
    assert_eq!(values(&f.call(counting(&[8])).unwrap()), values(&plain));
}

#[test]
fn loops_inside_of_manual_axes_run_operation_by_operation() {
    let mesh = mesh([("i", 8)]);
    let halved = |x: Array| fori_loop(0, 4, |_, x: Array| &x * 0.5 + 1.0, x);
    let f = jit({
        let mesh = mesh.clone();
        move |x: Array| shard_map(halved, &mesh).in_specs(p!["i"]).out_specs(p!["i"]).apply(&x)
    });
    let x = counting(&[8]);
    let loops = f.lower(&x).unwrap().loops().unwrap();
    assert!(matches!(loops[0].form, LoopForm::Operations(_)), "{}", loops[0]);
    assert_eq!(values(&f.call(&x).unwrap()), values(&halved(x)));
}
