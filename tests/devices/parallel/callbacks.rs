//! Callbacks, prints and checks on several devices.

use super::{counting, mesh, values};
use oxidax::core::HostArray;
use oxidax::debug::CallbackOptions;
use oxidax::prelude::*;
use std::sync::{Arc, Mutex};

/// A log written by callbacks.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn note(&self, x: &Array) {
        let log = self.0.clone();
        debug::callback(move |x| log.lock().unwrap().push(x[0].to_string()), [x]);
    }

    /// Returns the sorted entries: devices have no order.
    fn take(&self) -> Vec<String> {
        effects_barrier().unwrap();
        let mut entries = std::mem::take(&mut *self.0.lock().unwrap());
        entries.sort();
        entries
    }
}

/// Doubles on the host, and fails for negative numbers.
fn doubled(x: &Array) -> Array {
    let on_host = |x: &[HostArray]| {
        let elements = x[0].to_vec::<f32>()?;
        if elements.iter().any(|x| *x < 0.0) {
            return Err("a negative number".into());
        }
        let twice: Vec<f32> = elements.iter().map(|x| 2.0 * x).collect();
        Ok(vec![HostArray::from_slice(&twice, x[0].shape())?])
    };
    debug::pure_callback(on_host, &[x.aval().clone()], [x]).swap_remove(0)
}

#[test]
fn each_device_of_a_map_calls_with_its_shards() {
    let (mesh, log, x) = (mesh([("i", 4), ("j", 2)]), Log::default(), counting(&[4]));
    let noted = log.clone();
    let f = move |x: Array| {
        noted.note(&x);
        doubled(&x)
    };
    let mapped = shard_map(f, &mesh).in_specs(p!["i"]).out_specs(p!["i"]);
    assert_eq!(values(&mapped.apply(&x)), [0.0, 2.0, 4.0, 6.0]);
    // Two devices have each shard.
    assert_eq!(log.take(), ["[0.]", "[0.]", "[1.]", "[1.]", "[2.]", "[2.]", "[3.]", "[3.]"]);
}

#[test]
fn pmap_calls_once_per_device_and_vmap_inside_once_per_example() {
    let (log, x) = (Log::default(), counting(&[2, 3]));
    let noted = log.clone();
    let mapped = pmap(move |row: Array| {
        vmap(|x: Array| {
            noted.note(&x);
            doubled(&x)
        })
        .apply(&row)
    });
    assert_eq!(values(&mapped.call(&x).unwrap()), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
    assert_eq!(log.take(), ["0.", "1.", "2.", "3.", "4.", "5."]);
}

#[test]
fn effects_outside_of_maps_happen_once_with_whole_arrays() {
    let rows = mesh([("i", 4), ("j", 2)]).sharding(p!["i"]).unwrap();
    let x = device_put(&counting(&[8]), &rows).unwrap();
    let log = Log::default();
    let noted = log.clone();
    let f = jit(move |x: Array| {
        let log = noted.clone();
        noted.note(&x.sum());
        let seen = noted.0.clone();
        debug::callback(move |_| seen.lock().unwrap().push("called".to_owned()), ());
        let step = move |i: Array, y: Array| {
            log.note(&(&y.sum() + i.astype(DType::F32)));
            &y * 2.0
        };
        fori_loop(0, 2, step, &x + 1.0)
    });
    let y = f.call(&x).unwrap();
    assert_eq!(values(&y)[7], 32.0);
    // The sum, twice in the loop, and the call without arrays.
    assert_eq!(log.take(), ["28.", "36.", "73.", "called"]);
}

#[test]
fn checks_of_sharded_arrays_fail_the_call() {
    let rows = mesh([("i", 8)]).sharding(p!["i"]).unwrap();
    let x = device_put(&counting(&[8]), &rows).unwrap();
    let f = jit(|x: Array| {
        debug::check(x.less(6.0), "{x} is too large", [("x", &x)]);
        x.sum()
    });
    let error = f.call(&x).unwrap_err().to_string();
    assert!(error.contains("is too large") && error.contains("callbacks.rs"), "{error}");
    assert_eq!(f.call(&(x - 2.0)).unwrap().to_vec::<f32>().unwrap(), [12.0]);
    let classes = device_put(&counting(&[8]).astype(DType::I32), &rows).unwrap();
    let g = jit(|labels: Array| {
        debug::check_labels(&labels, 7);
        labels.sum()
    });
    let error = g.call(&classes).unwrap_err().to_string();
    assert!(error.contains('7'), "{error}");
}

#[test]
fn ordered_effects_of_sharded_arrays_are_refused() {
    let rows = mesh([("i", 8)]).sharding(p!["i"]).unwrap();
    let x = device_put(&counting(&[8]), &rows).unwrap();
    let f = jit(|x: Array| {
        debug::print_with("{}", [&x], CallbackOptions { ordered: true });
        x
    });
    let error = f.call(&x).unwrap_err().to_string();
    assert!(error.contains("an ordered print in a program over several devices"), "{error}");
    assert!(error.contains("in a `shard_map` over all axes"), "{error}");
}

#[test]
fn a_failure_on_one_device_does_not_stop_the_others() {
    let mesh = mesh([("i", 8)]);
    // The devices wait for each other in the sum.
    let checked = |x: Array| {
        debug::check(x.less(7.0), "{x} is too large", [("x", &x)]);
        psum(&x, "i")
    };
    let mapped = shard_map(checked, &mesh).in_specs(p!["i"]).out_specs(p![]);
    let f = jit(move |x: Array| mapped.apply(&x));
    let error = f.call(counting(&[8])).unwrap_err().to_string();
    assert!(error.contains("error[value]: check: [7.] is too large"), "{error}");
    assert!(error.contains("callbacks.rs"), "{error}");
    assert_eq!(values(&f.call(&(counting(&[8]) - 1.0)).unwrap()), [20.0]);
    let failing = |x: Array| psum(&doubled(&x), "i");
    let mapped = shard_map(failing, &mesh).in_specs(p!["i"]).out_specs(p![]);
    let f = jit(move |x: Array| mapped.apply(&x));
    let error = f.call(&(counting(&[8]) - 1.0)).unwrap_err().to_string();
    assert!(error.contains("pure_callback: the closure failed: a negative number"), "{error}");
    assert_eq!(values(&f.call(counting(&[8])).unwrap()), [56.0]);
}

#[test]
fn devices_of_a_map_have_no_order() {
    let mesh = mesh([("i", 4), ("j", 2)]);
    let refused = |f: fn(Array) -> Array, axes: &[&str]| {
        let mapped = shard_map(f, &mesh).in_specs(p!["i"]).out_specs(p!["i"]);
        let mapped = mapped.axis_names(axes);
        jit(move |x: Array| mapped.apply(&x)).call(counting(&[4])).unwrap_err().to_string()
    };
    let ordered = |x: Array| {
        debug::print_with("{}", [&x], CallbackOptions { ordered: true });
        x
    };
    let error = refused(ordered, &["i", "j"]);
    assert!(error.contains("devices have no common order"), "{error}");
}
