//! `shard_map` without `in_specs`, attached topologies, and the part of a mesh in this process.

use super::{counting, mesh, values};
use oxidax::prelude::*;

#[test]
fn specs_come_from_the_types_of_arguments() {
    let mesh = mesh([("a", 4), ("b", 2)]).explicit();
    let x = device_put(&counting(&[8, 4]), mesh.sharding(p!["a", "b"]).unwrap()).unwrap();
    let whole = device_put(&counting(&[3]), mesh.sharding(p![]).unwrap()).unwrap();
    let shapes = |x: Array, whole: Array| {
        assert_eq!((x.shape().dims(), whole.shape().dims()), (&[2, 2][..], &[3][..]));
        psum(&x.sum(), ["a", "b"]) + whole.sum()
    };
    let sum = shard_map(shapes, &mesh).out_specs(p![]);
    assert_eq!(values(&sum.apply(&x, &whole)), [499.0]);
    let sum = shard_map(shapes, &mesh).out_specs(p![]);
    let compiled = jit(move |x: Array, whole: Array| sum.apply(&x, &whole));
    assert_eq!(values(&compiled.call(&x, &whole).unwrap()), [499.0]);
    // Along an axis that is not mapped, the function sees whole arrays.
    let rows = |x: Array| {
        assert_eq!(x.shape().dims(), [2, 4]);
        &x * 2.0
    };
    let rows = shard_map(rows, &mesh).axis_names("a").out_specs(p!["a"]);
    let doubled = jit(move |x: Array| rows.apply(&x)).call(&x).unwrap();
    assert_eq!(values(&doubled)[31], 62.0);
}

#[test]
fn automatic_axes_need_specs() {
    let mesh = mesh([("a", 8)]);
    let f = shard_map(|x: Array| x, &mesh).out_specs(p![]);
    let error = catch(|| f.apply(counting(&[8]))).unwrap_err().to_string();
    assert!(error.contains("the axis `a` of Mesh(a=8) is not explicit"), "{error}");
    assert!(error.contains("inferred_specs.rs"), "{error}");
    let f = shard_map(|x: Array| x, &mesh).in_specs(p![]);
    let error = catch(|| f.apply(counting(&[8]))).unwrap_err().to_string();
    assert!(error.contains("out_specs must say how the results are concatenated"), "{error}");
}

#[test]
fn one_process_has_the_whole_mesh() {
    let mesh = mesh([("a", 4), ("b", 2)]).explicit();
    let local = mesh.local_mesh().unwrap();
    assert_eq!(local, mesh);
    assert_eq!(local.to_string(), "Mesh(a=4 explicit, b=2 explicit)");
    let absent = Mesh::without_devices([("a", 2)]).unwrap().local_mesh().unwrap_err().to_string();
    assert!(absent.contains("the 0 devices of this process are not a block"), "{absent}");
}

#[test]
fn programs_compile_for_the_attached_devices() {
    let _mesh = mesh([("a", 8)]);
    let topology = Topology::attached().unwrap();
    assert_eq!((topology.name(), topology.devices().len()), ("attached cpu", 8));
    let mesh = topology.mesh([("a", 8)]).unwrap();
    let rows = mesh.sharding(p!["a"]).unwrap();
    let f = jit(|x: Array| x.sum()).in_shardings(&rows);
    let compiled = f.lower(Aval::new(DType::F32, [16])).unwrap().compile_for(&topology).unwrap();
    assert_eq!(compiled.report().memory_analysis().unwrap().arguments, 8);
    assert_eq!(compiled.report().collectives().unwrap().to_string(), "1 all-reduce");
}
