//! A step that does not end, because one of eight devices does not reach a collective.

use super::{counting, mesh, values};
use oxidax::core::HostArray;
use oxidax::prelude::*;
use oxidax::train::{Watchdog, WatchdogOptions};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

#[test]
fn report_names_the_program_and_the_collective_in_which_devices_wait() {
    let (release, released) = channel::<()>();
    let released = Arc::new(Mutex::new(released));
    // The device with the first row waits.
    let wait = move |x: &[HostArray]| {
        if x[0].to_vec::<f32>()?[0] == 0.0 {
            released.lock().unwrap_or_else(PoisonError::into_inner).recv()?;
        }
        Ok(x.to_vec())
    };
    let (sum, line) = (|x: &Array| psum(x, "data"), line!());
    let shard = move |x: Array| {
        let passed = debug::pure_callback(wait.clone(), &[x.aval().clone()], [&x]).swap_remove(0);
        sum(&passed)
    };
    let mesh = mesh([("data", 8)]);
    let mapped = shard_map(shard, &mesh).in_specs(p!["data"]).out_specs(p![]);
    let step = jit(move |x: Array| mapped.apply(&x)).name("train_step");
    let x = counting(&[8, 4]);
    // Before the watchdog starts: compiling can take longer than its limit.
    let step = step.lower(&x).unwrap().compile().unwrap();

    let (stalled, stall) = channel();
    let mut options = WatchdogOptions::new(Duration::from_secs(2));
    let shared = Mutex::new((stalled, release));
    options.on_stall = Some(Box::new(move |stall| {
        let shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.0.send(stall.clone()).unwrap();
        shared.1.send(()).unwrap();
    }));
    let watchdog = Watchdog::start_with(options);
    watchdog.step(7);
    let (y, called) = (step.call(&x).unwrap(), line!());
    assert_eq!(values(&y), [112.0, 120.0, 128.0, 136.0]);
    drop(watchdog);

    let stall = stall.recv().unwrap();
    let [program] = &stall.programs[..] else { panic!("{stall}") };
    assert_eq!((program.unfinished, program.devices), (8, 8), "{stall}");
    let at = |line: u32| format!(" at {}:{line}", file!());
    let report = stall.to_string();
    let launched = "8 of 8 devices have not finished `train_step`, launched ";
    assert!(report.contains(launched), "{report}");
    assert!(report.contains(&format!("s ago{}; its collective is\n", at(called))), "{report}");
    let collective = "all-reduce of 16 B over `data` (8 devices) for `shard_map/psum`";
    assert!(report.contains(&format!("{collective}{}", at(line))), "{report}");
}
