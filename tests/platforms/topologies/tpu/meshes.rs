//! Meshes of TPU slices in the order of their coordinates.

use oxidax::prelude::*;
use serde::Deserialize;

/// The order of a mesh, recorded from JAX by `python-compat/device_meshes.py`.
#[derive(Deserialize)]
struct Case {
    topology: String,
    shape: Vec<usize>,
    /// x, y, z and core of each device.
    order: Vec<Vec<i64>>,
}

fn axes(shape: &[usize]) -> Vec<(String, usize)> {
    shape.iter().enumerate().map(|(axis, &size)| (format!("axis{axis}"), size)).collect()
}

#[test]
#[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
fn meshes_are_ordered_as_in_jax() {
    let recorded = include_str!("../../../../python-compat/fixtures/device_meshes.json");
    let cases: Vec<Case> = serde_json::from_str(recorded).unwrap();
    let mut different = Vec::new();
    for Case { topology: name, shape, order } in &cases {
        let topology = Topology::named(name).unwrap();
        let mesh = topology.mesh(axes(shape)).unwrap();
        let location = |device: &Device| [device.coordinates(), &[device.core_on_chip()]].concat();
        let own: Vec<Vec<i64>> = mesh.devices().iter().map(location).collect();
        if own != *order {
            different.push(format!("{name} {shape:?}:\n{own:?}\ninstead of\n{order:?}"));
        }
    }
    let n = different.len();
    assert!(n == 0, "{n} of {} differ:\n{}", cases.len(), different.join("\n"));
}

#[test]
#[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
fn slices_are_ordered_one_by_one() {
    let slices = Topology::of_slices("v5e:4x2", 2).unwrap();
    let mesh = Mesh::across_slices(slices.devices(), [("data", 2)], [("model", 8)]).unwrap();
    let one = Topology::named("v5e:4x2").unwrap().mesh([("model", 8)]).unwrap();
    let coordinates = |mesh: &Mesh| -> Vec<Vec<i64>> {
        mesh.devices().iter().map(|device| device.coordinates().to_vec()).collect()
    };
    assert_eq!(coordinates(&mesh), [coordinates(&one), coordinates(&one)].concat());
    let error = Mesh::by_coordinates(slices.devices(), [("data", 16)]).unwrap_err().to_string();
    assert!(error.contains("the devices belong to 2 slices"), "{error}");
    assert!(error.contains("across_slices"), "{error}");
}
