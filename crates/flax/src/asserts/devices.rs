//! Assertions about devices.

use super::failure::{fail_value, is_enabled};
use oxidax::parallel::devices_of;
use oxidax::prelude::*;

/// Throws `Op` (value) unless a platform has at least `count` devices: `cpu`, `cuda` (or `gpu`),
/// `tpu`.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::asserts::assert_devices_available;
/// assert_devices_available(1, "cpu");
/// assert!(catch(|| assert_devices_available(100_000, "cpu")).is_err());
/// ```
#[track_caller]
pub fn assert_devices_available(count: usize, platform: &str) {
    expect_devices("assert_devices_available", count, platform);
}

/// Throws `Op` (value) unless there is a GPU.
#[track_caller]
pub fn assert_gpu_available() {
    expect_devices("assert_gpu_available", 1, "gpu");
}

/// Throws `Op` (value) unless there is a TPU.
#[track_caller]
pub fn assert_tpu_available() {
    expect_devices("assert_tpu_available", 1, "tpu");
}

#[track_caller]
fn expect_devices(name: &str, count: usize, platform: &str) {
    if !is_enabled() {
        return;
    }
    match devices_of(platform) {
        Ok(devices) if devices.len() >= count => {}
        Ok(devices) => {
            let message = format!("`{platform}` has {} devices, not {count}", devices.len());
            fail_value(name, message, &[])
        }
        Err(error) => fail_value(name, format!("`{platform}` does not have devices: {error}"), &[]),
    }
}

/// Throws `Op` (value) unless all leaves are stored on this device. Traced leaves are not checked.
#[track_caller]
pub fn assert_tree_is_on_device<T: Tree>(tree: &T, device: &Device) {
    expect_leaves("assert_tree_is_on_device", tree, |leaf| {
        let on = leaf.device().ok().flatten();
        (on.as_ref() != Some(device)).then(|| format!("is not on {device}"))
    });
}

/// Throws `Op` (value) unless all leaves are stored in memory of the host: on CPU devices or in
/// host memory of an accelerator. Traced leaves are not checked.
#[track_caller]
pub fn assert_tree_is_on_host<T: Tree>(tree: &T) {
    expect_leaves("assert_tree_is_on_host", tree, |leaf| {
        let on_cpu = match leaf.sharding() {
            Some(sharding) => sharding.devices().iter().all(|device| device.platform() == "cpu"),
            None => leaf.device().ok().flatten().is_some_and(|device| device.platform() == "cpu"),
        };
        let on_host = on_cpu || leaf.memory_kind() != oxidax::core::MemoryKind::Device;
        (!on_host).then(|| "is in the memory of an accelerator".to_owned())
    });
}

/// Throws `Op` (value) unless all leaves are sharded over several devices. Traced leaves are not
/// checked.
#[track_caller]
pub fn assert_tree_is_sharded<T: Tree>(tree: &T) {
    expect_leaves("assert_tree_is_sharded", tree, |leaf| {
        let is_sharded = leaf.sharding().is_some_and(|sharding| sharding.devices().len() > 1);
        (!is_sharded).then(|| "is on one device".to_owned())
    });
}

#[track_caller]
fn expect_leaves<T: Tree>(name: &str, tree: &T, problem: impl Fn(&Array) -> Option<String>) {
    if !is_enabled() {
        return;
    }
    for (path, leaf) in tree::paths(tree).iter().zip(tree::leaves(tree)) {
        if leaf.is_traced() {
            continue;
        }
        if let Some(problem) = problem(&leaf) {
            fail_value(name, format!("`{path}` {} {problem}", leaf.aval()), &[&leaf]);
        }
    }
}
