//! `pmap`: one example on each device.

use super::{close, counting, eight, values};
use oxidax::prelude::*;

#[test]
fn each_device_gets_one_example() {
    let x = counting(&[8, 3]);
    let f = pmap(|x: Array| &x - pmean(&x, "i")).axis_name("i");
    let y = f.call(&x).unwrap();
    let expected = &x - x.mean_axes([0]);
    close(&y, &expected, 1e-6);
    assert_eq!(y.addressable_shards().unwrap().len(), 8);
    f.call(&x).unwrap();
    assert_eq!(f.stats().compiles, 1);
    let few = f.call(counting(&[2, 3])).unwrap();
    assert_eq!(few.addressable_shards().unwrap().len(), 2);
}

#[test]
fn axes_devices_and_static_arguments() {
    let all = eight();
    let (x, w) = (counting(&[3, 4]), counting(&[3]));
    let f =
        pmap(|x: Array, w: Array, power: Static<u32>| (0..power.0).fold(&x * &w, |y, _| &y * 2.0));
    let f = f.in_axes([Some(1), None, None]).out_axes([Some(-1)]).devices(&all[4..]);
    let y = f.call(&x, &w, Static(2)).unwrap();
    close(&y, &(&x * reshape(&w, [3, 1]) * 4.0), 1e-6);
    assert_eq!(y.sharding().unwrap().devices()[0], all[4]);
    f.call(&x, &w, Static(3)).unwrap();
    assert_eq!(f.stats().compiles, 2);
}

#[test]
fn compiles_ahead_of_time() {
    let sharding = Mesh::new(eight(), [("i", 8)]).unwrap().sharding(p!["i"]).unwrap();
    let x = device_put(&counting(&[8, 3]), &sharding).unwrap();
    let f = pmap(|x: &Array| x - pmean(x, "i")).axis_name("i").name("centre");
    let compiled = f.lower(&x).unwrap().compile().unwrap();
    assert_eq!(compiled.name(), "pmap(centre)");
    close(&compiled.call(&x).unwrap(), &(&x - x.mean_axes([0])), 1e-6);
    // Three numbers on each device.
    let memory = compiled.report().memory_analysis().unwrap();
    assert_eq!((memory.arguments, memory.results), (12, 12));
    assert_eq!(f.stats().compiles, 0, "`call` has its own cache");
    let error = f.lower(counting(&[9, 3])).unwrap_err().to_string();
    assert!(error.contains("$[0] has 9 examples"), "{error}");
}

#[test]
fn unmapped_results_come_from_one_device() {
    let f = pmap(|x: Array| psum(&x, "devices")).out_axes([None]);
    assert_eq!(values(&f.call(counting(&[8])).unwrap()), [28.0]);
}

#[test]
fn gradients_inside_and_outside() {
    let (w, x) = (counting(&[8]), counting(&[8]));
    let inside = pmap(|w: Array, x: Array| grad(|w: &Array| sin(w) * &x)(&w));
    close(&inside.call(&w, &x).unwrap(), &(cos(&w) * &x), 1e-6);
    let mapped = pmap(|w: Array, x: Array| sin(&w) * &x);
    let outside = grad(|w: &Array| mapped.call(w, &x).unwrap().sum())(&w);
    close(&outside, &(cos(&w) * &x), 1e-5);
    // The gradient of a sum over devices is that of the sum of all devices' results.
    let summed = pmap(|w: Array| grad(|w: &Array| psum(&(w * w), "i"))(&w)).axis_name("i");
    close(&summed.call(&w).unwrap(), &(&w * 16.0), 1e-5);
}

#[test]
fn invalid_axes_are_errors() {
    let f = pmap(|x: Array, y: Array| &x + &y);
    let error = f.call(counting(&[9]), counting(&[9])).unwrap_err().to_string();
    assert!(
        error.contains("$[0] has 9 examples, one for each device, and there are 8 devices"),
        "{error}"
    );
    let line = line!() - 6;
    assert!(error.contains(&format!("pmapped.rs:{line}:")), "{error}");
    let error = f.call(counting(&[8]), counting(&[4])).unwrap_err().to_string();
    assert!(error.contains("$[1], f32[4], has 4 examples, $[0] has 8"), "{error}");
    let none = pmap(|x: Array| x).in_axes([None]);
    let error = none.call(counting(&[8])).unwrap_err().to_string();
    assert!(error.contains("no argument has a mapped axis"), "{error}");
}
