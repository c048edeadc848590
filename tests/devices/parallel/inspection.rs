//! Shardings that the compiler chooses for intermediate values.

use super::mesh;
use oxidax::parallel::inspect_array_sharding;
use oxidax::prelude::*;
use std::sync::{Arc, Mutex};

/// The specs that an observer has received, as text.
type Seen = Arc<Mutex<Vec<String>>>;

fn observe(x: &Array, seen: &Seen) {
    let seen = seen.clone();
    inspect_array_sharding(x, move |sharding| {
        let text = sharding.map_or("one device".into(), |sharding| sharding.spec().to_string());
        seen.lock().unwrap().push(text);
    });
}

fn taken(seen: &Seen) -> Vec<String> {
    std::mem::take(&mut *seen.lock().unwrap())
}

#[test]
fn compiled_programs_show_the_compiler_s_choice() {
    let mesh = mesh([("data", 8)]);
    let rows = mesh.sharding(p!["data"]).unwrap();
    let seen = Seen::default();
    let held = seen.clone();
    let loss = move |w: &Array, x: &Array| {
        let y = sin(x.matmul(w));
        observe(&y, &held);
        y.sum()
    };
    let f = jit(move |w: Array, x: Array| grad(&loss)(&w, &x));
    let w = device_put(&ones([4, 2]), mesh.replicated()).unwrap();
    let x = device_put(&ones([16, 4]), &rows).unwrap();
    f.call(&w, &x).unwrap();
    assert_eq!(taken(&seen), ["p![\"data\"]"]);
    f.call(&w, &x).unwrap();
    assert!(taken(&seen).is_empty(), "a compiled program does not call the observer");
}

#[test]
fn known_shardings_are_passed_at_once() {
    let mesh = mesh([("data", 8)]);
    let rows = mesh.sharding(p!["data"]).unwrap();
    let seen = Seen::default();
    observe(&device_put(&ones([16, 4]), &rows).unwrap(), &seen);
    observe(&ones([3]), &seen);
    assert_eq!(taken(&seen), ["p![\"data\"]", "one device"]);
    let held = seen.clone();
    let one = jit(move |x: Array| {
        observe(&x, &held);
        scan(|c: Array, ()| (observe(&c, &held), (c * 2.0, ())).1, x, 2).0
    });
    one.call(ones([3])).unwrap();
    assert_eq!(taken(&seen), ["one device", "one device"]);
}

#[test]
fn values_inside_of_loops_are_refused_on_several_devices() {
    let mesh = mesh([("data", 8)]);
    let rows = mesh.sharding(p!["data"]).unwrap();
    let seen = Seen::default();
    let f = jit(move |x: Array| scan(|c: Array, ()| (observe(&c, &seen), (c * 2.0, ())).1, x, 2).0);
    let x = device_put(&ones([16, 4]), &rows).unwrap();
    let error = f.call(&x).unwrap_err().to_string();
    assert!(error.contains("the value is inside of a loop"), "{error}");
    assert!(error.contains("inspection.rs"), "{error}");
}
