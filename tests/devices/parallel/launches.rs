//! Many launches while the processor is busy.

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

/// On the CPU plugin the collectives of two concurrent launches can deadlock if one launch takes
/// the threads that the other needs. So each launch waits for the previous one.
#[test]
fn ten_thousand_launches_finish_under_load() {
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
    // Each step replaces an element by the mean, 3.5, plus the device's index.
    assert_eq!(values(&x)[0], 3.5 * 10_000.0);
    assert_eq!(step.stats().compiles, 1);
}
