//! Recordings of programs over eight devices.

use super::{counting, eight, mesh};
use oxidax::prelude::*;
use oxidax::replay::{Problem, Recording, record_failures, run_reproducer};
use std::path::Path;

/// Records the failure of `f` in a new folder, and opens it.
fn recorded<R>(folder: &Path, f: impl FnOnce() -> R) -> Recording {
    record_failures(folder, || debug::nan_check(f));
    let mut files = std::fs::read_dir(folder).unwrap();
    Recording::open(files.next().unwrap().unwrap().path()).unwrap()
}

fn is_at(location: &str, line: u32) -> bool {
    location.contains(&format!("replay.rs:{line}:"))
}

#[test]
fn a_sharded_step_is_recorded_and_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let mesh = mesh([("data", 8)]);
    let rows = mesh.sharding(p!["data"]).unwrap();
    let at = line!() + 2;
    let step = jit(|x: Array, w: Array| {
        let y = log(&(x - 20.0)); // NaN of the first rows
        y.matmul(&w).sum()
    });
    let step = step.in_shardings((&rows, &mesh.replicated()));
    let (x, w) = (device_put(&counting(&[16, 2]), &rows).unwrap(), counting(&[2, 2]));
    let recording = recorded(folder.path(), || step.call(x, &w).unwrap_err());
    let replay = recording.replay().unwrap();
    let found = replay.found.as_ref().unwrap();
    assert!(found.operation == "log" && is_at(&found.line, at), "{found}");
    assert_eq!((found.operands[0].min, found.results[0].nan), (Some(-20.0), 20));

    let reproducer = folder.path().join("reproducer");
    recording.write_reproducer(&reproducer, Some(&replay)).unwrap();
    assert!(run_reproducer(&reproducer).unwrap()[0].to_vec::<f32>().unwrap()[0].is_nan());
}

#[test]
fn explicit_shardings_and_maps_need_their_devices() {
    let folder = tempfile::tempdir().unwrap();
    let mesh = mesh([("i", 8)]);
    let at = line!() + 3;
    let over = mesh.clone();
    let step = jit(move |x: Array| {
        let y = log(&(&x - 1.0));
        let shard = |y: Array| psum(&y, "i");
        shard_map(shard, &over).in_specs(p!["i"]).out_specs(p![]).apply(&y)
    });
    let recording = recorded(folder.path(), || step.call(counting(&[8, 2])).unwrap_err());
    assert_eq!(recording.devices(), 8);
    let replay = recording.replay().unwrap();
    let found = replay.found.as_ref().unwrap();
    assert!(found.operation == "log" && is_at(&found.line, at), "{found}");

    let reproducer = folder.path().join("reproducer");
    recording.write_reproducer(&reproducer, Some(&replay)).unwrap();
    let sums = run_reproducer(&reproducer).unwrap()[0].to_vec::<f32>().unwrap();
    assert!(sums[0].is_nan() && sums[1].is_infinite(), "{sums:?}");
}

#[test]
fn operations_inside_a_map_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let over = mesh([("i", 8)]);
    let (at, map_at) = (line!() + 5, line!() + 8);
    let step = jit(move |x: Array| {
        let helper = jit(|x: Array| {
            // The device with the first row takes the logarithm of a negative number.
            let last = pmax(&x, "i");
            (log(&(&x - 1.0)), last)
        });
        let map = shard_map(|x: Array| helper.apply(x), &over).in_specs(p!["i"]);
        map.out_specs((p!["i"], p![])).apply(&x)
    });
    let text = debug::nan_check(|| step.call(counting(&[8, 2]))).unwrap_err().to_string();
    assert!(text.starts_with("error[value]: log: made a NaN") && is_at(&text, at), "{text}");
    let recording = recorded(folder.path(), || step.call(counting(&[8, 2])).unwrap_err());
    let found = recording.replay().unwrap().found.unwrap();
    assert!(found.operation == "log" && is_at(&found.line, at), "{found}");
    assert_eq!((found.problem.clone(), found.results[0].nan), (Problem::Nan, 1), "{found}");
    assert_eq!(found.operands[0].aval.to_string(), "f32[1,2]{i}");
    let frames: Vec<&str> = found.frames.iter().map(|frame| frame.operation.as_str()).collect();
    assert_eq!(frames, ["shard_map", "call"], "{found}");
    assert!(is_at(&found.frames[0].line, map_at), "{found}");
}

#[test]
fn a_loop_inside_a_map_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let over = mesh([("i", 8)]);
    let at = line!() + 3;
    let step = jit(move |x: Array| {
        let shard = |x: Array| {
            let y = fori_loop(0, 3, |_, x: Array| log(&(x + psum(&ones([]), "i"))), x);
            y - 1.0
        };
        shard_map(shard, &over).in_specs(p!["i"]).out_specs(p!["i"]).apply(&(x - 100.0))
    });
    let recording = recorded(folder.path(), || step.call(counting(&[8])).unwrap_err());
    let found = recording.replay().unwrap().found.unwrap();
    assert!(is_at(&found.line, at), "{found}");
    assert_eq!((found.frames[0].operation.as_str(), found.results[0].nan), ("shard_map", 8));
}

/// A program for a mesh of another platform runs on CPU devices with the same numbers.
#[test]
fn devices_of_other_platforms_are_replaced() {
    eight();
    let folder = tempfile::tempdir().unwrap();
    let absent = Mesh::without_devices([("x", 8)]).unwrap().explicit();
    let rows = absent.sharding(p!["x"]).unwrap();
    let step = jit(|x: Array| log(&(x - 3.0))).in_shardings(&rows);
    let file = folder.path().join("step.failure");
    step.record(&file, counting(&[8])).unwrap();
    let recording = Recording::open(&file).unwrap();
    assert!(recording.program().to_string().contains("f32[8@x]"), "{}", recording.program());
    assert_eq!(recording.devices(), 8);
    let found = recording.replay().unwrap().found.unwrap();
    assert_eq!((found.operation.as_str(), found.results[0].nan), ("log", 3));
}

#[test]
fn a_pmap_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    eight();
    let at = line!() + 1;
    let step = pmap(|x: Array| log(&(&x - pmean(&x, "i")))).axis_name("i");
    let recording = recorded(folder.path(), || step.call(counting(&[8, 1])).unwrap_err());
    let found = recording.replay().unwrap().found.unwrap();
    assert!(found.operation == "log" && is_at(&found.line, at), "{found}");
    assert_eq!((found.operands[0].min, found.results[0].nan), (Some(-3.5), 4), "{found}");
}
