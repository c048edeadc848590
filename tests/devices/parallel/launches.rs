//! Many launches while the processors are busy.

use super::{counting, mesh, values};
use oxidax::prelude::*;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};

struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Collectives of two launches in flight can block each other for good on the CPU plugin, if the threads for one are taken by the
/// other; so one waits for the other.
#[test]
fn ten_thousand_launches_end_under_load() {
    let mesh = mesh([("i", 8)]);
    let mean = shard_map(|x: Array| pmean(&x, "i") + axis_index("i"), &mesh);
    let mean = mean.in_specs(p!["i"]).out_specs(p!["i"]);
    let step = jit(move |x: Array| mean.apply(&x));
    let mut x = device_put(&counting(&[8]), mesh.sharding(p!["i"]).unwrap()).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    spin_loop();
                }
            });
        }
        // A panic must not leave them spinning.
        let _stop = Stop(&stop);
        for _ in 0..10_000 {
            x = step.call(&x).unwrap();
        }
        x.block_until_ready().unwrap();
    });
    // Each step adds 3.5, the mean of the devices' numbers, and then the number.
    assert_eq!(values(&x)[0], 3.5 * 10_000.0);
    assert_eq!(step.stats().compiles, 1);
}
