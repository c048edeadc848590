//! Programs on eight CPU devices.

mod callbacks;
mod checkpoints;
mod explicit;
mod grouped;
mod inferred_specs;
mod inspection;
mod launches;
mod layouts;
mod line_profiles;
mod loop_kernels;
mod mapped;
mod memory_kinds;
mod nested_specs;
mod outlining;
mod parity;
mod partitioned_attention;
mod placement;
mod pmapped;
mod point_to_point;
mod ragged;
mod replay;
mod ring_attention;
mod serialized;
mod spmd_axis;
mod stalls;

use oxidax::prelude::*;

/// Returns the eight devices on which all tests here run.
fn eight() -> Vec<Device> {
    oxidax::parallel::set_cpu_devices(8).unwrap();
    devices().unwrap()
}

/// Returns a mesh of all eight devices.
fn mesh<const N: usize>(axes: [(&str, usize); N]) -> Mesh {
    Mesh::new(eight(), axes).unwrap()
}

/// Returns the numbers from 0 on in this shape.
fn counting(shape: &[usize]) -> Array {
    eight();
    let n: usize = shape.iter().product();
    let numbers: Vec<f32> = (0..n).map(|i| i as f32).collect();
    Array::from_slice(&numbers, shape).unwrap()
}

fn values(x: &Array) -> Vec<f32> {
    x.to_vec::<f32>().unwrap()
}

#[track_caller]
fn close(found: &Array, expected: &Array, tolerance: f32) {
    assert_eq!(found.shape(), expected.shape());
    for (at, (x, y)) in values(found).iter().zip(values(expected)).enumerate() {
        assert!((x - y).abs() <= tolerance * y.abs().max(1.0), "element {at}: {x}, expected {y}");
    }
}
