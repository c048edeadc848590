//! Planted causes of recompilation: placements, meshes, and the number of devices.

use oxidax::jit::Recompilation;
use oxidax::parallel::with_mesh;
use oxidax::prelude::*;

fn eight() -> Vec<Device> {
    oxidax::parallel::set_cpu_devices(8).unwrap();
    devices().unwrap()
}

fn mesh_of(n: usize) -> Mesh {
    Mesh::new(&eight()[..n], [("data", n)]).unwrap()
}

fn check(again: &[Recompilation], function: &str, line: u32, reason: &str) {
    assert_eq!(again.len(), 1, "{again:?}");
    assert_eq!(again[0].reason(), reason);
    let text = again[0].to_string();
    assert!(text.starts_with(&format!("`{function}` was compiled again: ")), "{text}");
    assert!(text.contains(&format!("   --> {}:{line}:", file!())), "{text}");
    assert!(text.contains("\n  help: "), "{text}");
}

/// Calls a function with two placements and checks the report of the second, then the error of the
/// sealed function.
macro_rules! planted {
    ($name:literal: $first:expr, then $second:expr; $reason:expr) => {{
        let f = jit(|batch: (Array, Array)| batch.0.sum() + batch.1.sum()).name($name);
        let (first, second): (Array, Array) = ($first, $second);
        f.call((ones([8]), first.clone())).unwrap();
        f.call((ones([8]), second.clone())).unwrap();
        check(&f.recompilations(), $name, line!(), $reason);
        let f = jit(|batch: (Array, Array)| batch.0.sum() + batch.1.sum()).name($name).sealed();
        f.call((ones([8]), first)).unwrap();
        let failed = f.call((ones([8]), second)).unwrap_err();
        let Error::Sealed(error) = failed.error else { panic!("{failed}") };
        check(&[error.refused], $name, line!(), $reason);
    }};
}

#[test]
fn changed_placements_are_named() {
    let devices = eight();
    let x = || ones([8, 8]);
    let on = |device: usize| device_put(&x(), &devices[device]).unwrap();
    let over =
        |mesh: &Mesh, spec: PartitionSpec| device_put(&x(), mesh.sharding(spec).unwrap()).unwrap();
    planted!("committed": x(), then on(0); "$[0][1]: the placement is cpu:0, was not committed");
    planted!("device": on(0), then on(1); "$[0][1]: the placement is cpu:1, was cpu:0");
    let mesh = mesh_of(8);
    planted!("spec": over(&mesh, p!["data"]), then over(&mesh, p![None, "data"]);
        "$[0][1]: the placement is p![None, \"data\"] on Mesh(data=8), was p![\"data\"] on Mesh(data=8)");
    planted!("devices": over(&mesh, p!["data"]), then over(&mesh_of(4), p!["data"]);
        "$[0][1]: the placement is p![\"data\"] on Mesh(data=4), was p![\"data\"] on Mesh(data=8)");
    let explicit = mesh_of(8).explicit();
    planted!("explicit": over(&explicit, p!["data"]), then over(&explicit, p![None, "data"]);
        "$[0][1]: the placement is p![None, \"data\"] on Mesh(data=8 explicit), was p![\"data\"] on \
         Mesh(data=8 explicit)");
    let host = || device_put(&x(), MemoryKind::PinnedHost).unwrap();
    planted!("memory": on(0), then host(); "$[0][1]: the memory is pinned_host, was device");
}

#[test]
fn changed_meshes_and_default_devices_are_named() {
    let sum = jit(|x: Array| x.sum()).name("sum");
    with_mesh(&mesh_of(8), || sum.call(ones([8]))).unwrap();
    let line = line!() + 1;
    with_mesh(&mesh_of(4), || sum.call(ones([8]))).unwrap();
    let reason = "mesh: Mesh(data=4) of 4 devices, was Mesh(data=8) of 8 devices";
    check(&sum.recompilations(), "sum", line, reason);
    let sum = jit(|x: Array| x.sum()).name("sum");
    let x = Aval::new(DType::F32, [8]);
    sum.compile_ahead(&x).unwrap();
    let line = line!() + 1;
    with_default_device(&eight()[3], || sum.compile_ahead(&x)).unwrap().unwrap();
    check(&sum.recompilations(), "sum", line, "default device: cpu:3, was cpu:0");
}

#[test]
fn mapped_functions_name_the_axis_that_changed() {
    let double = pmap(|x: Array| x * 2.0).name("double");
    double.call(ones([4, 3])).unwrap();
    let line = line!() + 1;
    double.call(ones([4, 5])).unwrap();
    let reason = "$[0]: axis 1 has size 5, was 3";
    check(&double.recompilations(), "pmap(double)", line, reason);
    let limited = pmap(|x: Array| x * 2.0).max_specializations(2);
    for columns in [3, 5, 3] {
        limited.call(ones([4, columns])).unwrap();
    }
    let error = limited.call(ones([4, 6])).unwrap_err().to_string();
    assert!(error.contains("signature 3 of at most 2: $[0]: axis 1 has size 6, was 5"), "{error}");
}
