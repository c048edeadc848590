//! Programs on an NVIDIA GPU. The tests are ignored where there is none:
//!
//! ```text
//! export OXIDAX_PLATFORM=cuda
//! cargo test --workspace --test platforms nvidia:: -- --ignored --test-threads=1
//! ```

use oxidax::core::{Device, HostArray};
use oxidax::jit::Compiled;
use oxidax::parallel::{MemoryStats, devices_of};
use oxidax::prelude::*;
use oxidax::primitives::{DotGeneral, dot_general};

const MIB: usize = 1 << 20;

fn gpu() -> Device {
    devices_of("cuda").unwrap().remove(0)
}

fn statistics() -> MemoryStats {
    gpu().memory_stats().unwrap().expect("the CUDA plugin has memory statistics")
}

fn f32s<const N: usize>(values: [f32; N]) -> Array {
    Array::from_slice(&values, [N]).unwrap()
}

/// Returns an array of a size in MiB.
fn megabytes(size: usize) -> Array {
    let x = full([size, MIB / 4], 1.0f32);
    x.block_until_ready().unwrap();
    x
}

/// Returns the largest difference of two arrays, relative to the largest value of the second.
fn relative_difference(x: &Array, y: &Array) -> f64 {
    let [x, y] = [x, y].map(|a| a.astype(DType::F64).to_vec::<f64>().unwrap());
    let largest = y.iter().fold(0.0f64, |largest, y| largest.max(y.abs()));
    x.iter().zip(&y).fold(0.0f64, |most, (x, y)| most.max((x - y).abs())) / largest
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_default_device_is_the_gpu() {
    let x = f32s([1.0, 2.0]) + 1.0;
    assert_eq!(x.to_vec::<f32>().unwrap(), [2.0, 3.0]);
    let device = x.device().unwrap().unwrap();
    assert_eq!((&device, device.platform()), (&gpu(), "cuda"));
    println!(
        "{}: {}, memories {:?}",
        device,
        device.kind(),
        device.addressable_memories().unwrap()
    );
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn memory_statistics_count_arrays() {
    drop(megabytes(1));
    let before = statistics();
    let x = megabytes(256);
    let with = statistics();
    let growth = with.bytes_in_use - before.bytes_in_use;
    assert!((256 << 20..258 << 20).contains(&growth), "{before:?}, {with:?}");
    assert!(with.peak_bytes_in_use.unwrap() >= with.bytes_in_use, "{with:?}");
    assert!(with.bytes_limit.unwrap() > 1 << 30, "{with:?}");
    drop(x);
    let after = statistics();
    assert_eq!(after.bytes_in_use, before.bytes_in_use, "{after:?}");
    println!("{with:?}");
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn exhausted_memory_is_an_error() {
    let huge = jit(|| full([1 << 22, MIB / 4], 1.0f32)).call();
    let error = match huge {
        Ok(x) => x.block_until_ready().unwrap_err().to_string(),
        Err(error) => error.to_string(),
    };
    println!("{error}");
    assert!(error.contains("memory"), "{error}");
    assert_eq!(megabytes(1).sum().item::<f32>().unwrap(), (MIB / 4) as f32);
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn donated_memory_is_reused() {
    let step = jit(|x: Array| x * 2.0);
    let x = step.call(megabytes(512)).unwrap();
    x.block_until_ready().unwrap();
    let before = statistics().bytes_in_use;
    let x = (0..8).fold(x, |x, _| step.call(x).unwrap());
    x.block_until_ready().unwrap();
    assert_eq!(statistics().bytes_in_use, before);
    assert_eq!(x.at(i![0, 0]).get().item::<f32>().unwrap(), 512.0);
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn values_stay_in_host_memory() {
    let x = megabytes(64);
    let before = statistics().bytes_in_use;
    let host = device_put(&x, MemoryKind::PinnedHost).unwrap();
    host.block_until_ready().unwrap();
    assert_eq!(statistics().bytes_in_use, before);
    let step = jit(|x: Array| {
        let x = with_memory_kind(&x, MemoryKind::Device);
        with_memory_kind(&(x + 1.0), MemoryKind::PinnedHost)
    });
    let y = step.call(&host).unwrap();
    assert_eq!(y.memory_kind(), MemoryKind::PinnedHost);
    let y = device_put(&y, MemoryKind::Device).unwrap();
    assert_eq!(y.mean().item::<f32>().unwrap(), 2.0);
}

/// The gradient through a loop whose residuals are stored in host memory equals the plain one.
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn residuals_are_offloaded() {
    let x = random::normal(random::key(0), [64, 256]);
    let w = random::normal(random::key(1), [4, 256, 256]) * 0.05;
    let gradient = |policy: Policy| {
        let block = remat_with(
            |x: &Array, w: &Array| sin(checkpoint_name(tanh(x.matmul(w)), "hidden")),
            RematOptions { policy, ..RematOptions::default() },
        );
        let step = jit(move |x: Array, w: Array| {
            let step = |x: Array, w: Array| (block(&x, &w), ());
            grad(|w: &Array| scan(step, x.clone(), w.clone()).0.sum())(&w)
        });
        step.call(&x, &w).unwrap()
    };
    let kept = gradient(Policy::names(["hidden"]));
    let offloaded = gradient(Policy::save_and_offload([], ["hidden"]));
    let difference = relative_difference(&offloaded, &kept);
    assert!(difference < 1e-3, "{difference}");
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn products_have_the_requested_precision() {
    let [x, y] = [0, 1].map(|seed| random::normal(random::key(seed), [1024, 1024]));
    let exact = x.astype(DType::F64).matmul(&y.astype(DType::F64));
    let of =
        |precision| with_matmul_precision(precision, || relative_difference(&x.matmul(&y), &exact));
    let (fast, full) = (of(Precision::Default), of(Precision::Highest));
    println!("TF32 {fast:.1e}, f32 {full:.1e}");
    assert!(fast < 5e-3 && full < 1e-5, "{fast}, {full}");
    let cast = |x: &Array, dtype: DType| x.astype(dtype).astype(DType::F64);
    for (dtype, limit) in [(DType::BF16, 8e-3), (DType::F16, 1e-3)] {
        let product = x.astype(dtype).matmul(&y.astype(dtype));
        let exact = cast(&x, dtype).matmul(&cast(&y, dtype));
        let difference = relative_difference(&product, &exact);
        assert!(difference < limit, "{dtype}: {difference}");
    }
}

/// The plugin doubles some of these products if it multiplies them as they are.
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn products_of_bytes_are_exact() {
    for [m, k, n] in [[3, 7, 5], [16, 64, 32], [1, 4096, 1], [64, 1025, 48], [512, 4096, 512]] {
        let bytes = |seed, shape: [usize; 2]| {
            random::randint(random::key(seed), shape, -128..128).astype(DType::I8)
        };
        let (x, y) = (bytes(0, [m, k]), bytes(1, [k, n]));
        let how = DotGeneral {
            lhs_contracting: vec![1],
            rhs_contracting: vec![0],
            preferred_element_type: Some(DType::I32),
            ..DotGeneral::default()
        };
        let product = jit(move |x: Array, y: Array| dot_general(&x, &y, how.clone()));
        let product = product.call(&x, &y).unwrap().to_vec::<i32>().unwrap();
        let [x, y] = [x, y].map(|x| x.astype(DType::I32).to_vec::<i32>().unwrap());
        for row in 0..m.min(8) {
            for column in 0..n.min(8) {
                let exact: i32 = (0..k).map(|at| x[row * k + at] * y[at * n + column]).sum();
                assert_eq!(product[row * n + column], exact, "{m}x{k}x{n}: {row}, {column}");
            }
        }
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn host_functions_run_in_programs() {
    let step = jit(|x: Array| {
        let tripled = |x: &[HostArray]| {
            let values: Vec<f32> = x[0].to_vec::<f32>()?.iter().map(|x| 3.0 * x).collect();
            Ok(vec![HostArray::from_slice(&values, [values.len()])?])
        };
        let x = debug::pure_callback(tripled, &[x.aval().clone()], [&x]).swap_remove(0);
        debug::check(x.less(100.0), "{} is too large", [&x]);
        fori_loop(0, 3, |_: Array, x: Array| x + 1.0, x)
    });
    assert_eq!(step.call(f32s([1.0, 2.0])).unwrap().to_vec::<f32>().unwrap(), [6.0, 9.0]);
    let error = match step.call(f32s([1.0, 200.0])) {
        Ok(x) => x.to_vec::<f32>().unwrap_err().to_string(),
        Err(error) => error.to_string(),
    };
    assert!(error.contains("is too large"), "{error}");
    assert_eq!(step.call(f32s([0.0, 2.0])).unwrap().to_vec::<f32>().unwrap(), [3.0, 9.0]);
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn programs_are_stored_and_loaded() {
    let x = random::normal(random::key(0), [64, 64]);
    let compiled = jit(|x: Array| tanh(x.matmul(&x)).sum()).lower(&x).unwrap().compile().unwrap();
    let sum = compiled.call(&x).unwrap();
    let expected = sum.item::<f32>().unwrap();
    let bytes = compiled.serialize().unwrap();
    let loaded = Compiled::<(Array,), Array>::deserialize(&bytes, &x, &sum).unwrap();
    assert_eq!(loaded.call(&x).unwrap().item::<f32>().unwrap(), expected);
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn programs_report_their_temporary_memory() {
    let step = jit(|x: Array| tanh(x.matmul(&x)).matmul(&x).sum());
    let x = megabytes(64).reshape([4096, 4096]);
    let compiled = step.lower(&x).unwrap().compile().unwrap();
    let estimate = compiled.report().memory_analysis().unwrap();
    assert!(estimate.temporaries >= 64 << 20, "{estimate:?}");
}
