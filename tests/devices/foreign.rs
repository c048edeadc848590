//! Foreign functions in programs over several devices, and arrays on several devices that have no
//! memory of one.

use oxidax::dlpack::to_dlpack;
use oxidax::ffi::{self, BufferCallbackOptions, FfiFrame};
use oxidax::prelude::*;
use std::sync::Mutex;

fn mesh() -> Mesh {
    oxidax::parallel::set_cpu_devices(8).unwrap();
    Mesh::new(devices().unwrap(), [("i", 8)]).unwrap()
}

fn sharded(mesh: &Mesh) -> Array {
    device_put(&arange(16).astype(DType::F32), mesh.sharding(p!["i"]).unwrap()).unwrap()
}

#[test]
fn each_device_calls_with_its_shard_in_shard_map() {
    static SEEN: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());
    ffi::register_ffi_target("test.on_shards", |frame: &mut FfiFrame<'_>| {
        let ordinal = frame.device_ordinal().unwrap_or(99);
        let ([x], [y]) = frame.slices::<f32, 1, 1>()?;
        SEEN.lock().unwrap().push((ordinal, x.len()));
        y.iter_mut().zip(x).for_each(|(y, x)| *y = 2.0 * x);
        Ok(())
    })
    .unwrap();
    let mesh = mesh();
    let f = |x: Array| ffi::ffi_call("test.on_shards", x.aval(), [&x]);
    let mapped = shard_map(f, &mesh).in_specs(p!["i"]).out_specs(p!["i"]);
    let y = jit(move |x: Array| mapped.apply(&x)).call(sharded(&mesh)).unwrap();
    let expected: Vec<f32> = (0..16).map(|n| 2.0 * n as f32).collect();
    assert_eq!(y.to_vec::<f32>().unwrap(), expected);
    let mut seen = SEEN.lock().unwrap().clone();
    seen.sort_unstable();
    assert_eq!(seen, (0..8).map(|ordinal| (ordinal, 2)).collect::<Vec<_>>());
}

#[test]
fn whole_arrays_are_passed_outside_of_shard_map() {
    let mesh = mesh();
    let reversed = |frame: &mut FfiFrame<'_>| {
        let ([x], [y]) = frame.slices::<f32, 1, 1>()?;
        y.iter_mut().zip(x.iter().rev()).for_each(|(y, x)| *y = *x);
        Ok(())
    };
    let f = jit(move |x: Array| ffi::buffer_callback(reversed, x.aval(), [&x]));
    let y = f.call(sharded(&mesh)).unwrap();
    let expected: Vec<f32> = (0..16).rev().map(|n| n as f32).collect();
    assert_eq!(y.to_vec::<f32>().unwrap(), expected);

    let options = BufferCallbackOptions { has_side_effect: true, ..Default::default() };
    let f =
        jit(move |x: Array| ffi::buffer_callback_with(reversed, x.aval(), [&x], options.clone()));
    let error = f.call(sharded(&mesh)).unwrap_err().to_string();
    assert!(error.contains("has side effects, and the compiler partitions"), "{error}");
}

/// A failure on one device does not leave the others waiting in the collective.
#[test]
fn a_failure_on_one_device_is_the_error_of_the_call() {
    let mesh = mesh();
    let failing = |frame: &mut FfiFrame<'_>| {
        let ([x], [y]) = frame.slices::<f32, 1, 1>()?;
        if x.contains(&6.0) {
            return Err("six is not welcome".into());
        }
        y.copy_from_slice(x);
        Ok(())
    };
    let line = line!() + 2;
    let f = move |x: Array| {
        let x = ffi::buffer_callback(failing, x.aval(), [&x]);
        psum(&x, "i")
    };
    let mapped = shard_map(f, &mesh).in_specs(p!["i"]).out_specs(p![]);
    let f = jit(move |x: Array| mapped.apply(&x));
    let x = sharded(&mesh);
    let error = f.call(&x).unwrap_err().to_string();
    assert!(error.contains("six is not welcome"), "{error}");
    assert!(error.contains(&format!("tests/devices/foreign.rs:{line}:")), "{error}");
    let sum = f.call(&(&x + 100.0)).unwrap();
    assert_eq!(sum.to_vec::<f32>().unwrap(), [856.0, 864.0]);
}

#[test]
fn arrays_on_several_devices_have_no_single_memory() {
    let x = sharded(&mesh());
    for error in [
        x.host_view::<f32>().map(|_| ()).unwrap_err(),
        to_dlpack(&x).map(|_| ()).unwrap_err(),
        x.unsafe_buffer_pointer().map(|_| ()).unwrap_err(),
    ] {
        let text = error.to_string();
        assert!(text.contains("on several devices"), "{text}");
        assert!(text.contains("tests/devices/foreign.rs"), "{text}");
    }
    let shards = x.addressable_shards().unwrap();
    assert_eq!(&shards[3].data.host_view::<f32>().unwrap()[..], [6.0, 7.0]);
    assert_eq!(to_dlpack(&shards[3].data).unwrap().array_type().dims(), [2]);
}
