//! Checkpoints of sharded arrays, and input pipelines that produce them.

use super::{counting, eight, mesh, values};
use checkpoint::{Folder, Snapshot};
use oxidax::prelude::*;
use std::collections::BTreeMap;

fn run(mesh: &Mesh, cut: PartitionSpec) -> BTreeMap<String, Array> {
    let put = |x: &Array, spec: PartitionSpec| device_put(x, mesh.sharding(spec).unwrap()).unwrap();
    let small = convert_element_type(&(iota(DType::I32, 64) % 7), DType::I4);
    BTreeMap::from([
        ("bias".to_string(), put(&counting(&[8]), p![])),
        ("few".to_string(), put(&reshape(&small, [8, 8]), cut.clone())),
        ("weight".to_string(), put(&counting(&[8, 8]), cut)),
    ])
}

#[test]
fn shards_restore_on_another_mesh() {
    let folder = tempfile::tempdir().unwrap();
    let first = mesh([("data", 4), ("model", 2)]);
    let state = run(&first, p!["model", "data"]);
    let mut saved = Folder::open(folder.path()).unwrap();
    saved.save(Snapshot::new(3, &state)).unwrap();
    saved.wait().unwrap();
    let stored = checkpoint::open(saved.path_of(3)).unwrap();
    let types = stored.types().unwrap();
    assert_eq!(types["weight"].to_string(), "f32[8,8]");
    assert_eq!(types.len(), 3);
    let text = std::fs::read_to_string(saved.path_of(3).join("manifest.jsonl")).unwrap();
    assert!(text.contains("weight@7") && !text.contains("bias@"), "{text}");
    // On fewer devices with another sharding, and on one device.
    let second = Mesh::new(&eight()[2..6], [("rows", 4)]).unwrap();
    for template in [run(&second, p![None, "rows"]), run(&first, p![])] {
        let restored = saved.restore_latest(&template).unwrap().unwrap().state;
        for (name, array) in &restored {
            assert_eq!(array.to_bytes().unwrap(), state[name].to_bytes().unwrap(), "{name}");
            assert_eq!(array.sharding(), template[name].sharding(), "{name}");
        }
    }
    let alone = checkpoint::arrays(saved.path_of(3)).unwrap();
    assert_eq!(values(&alone["weight"]), values(&state["weight"]));
    assert_eq!(alone["weight"].sharding(), None);
}

#[test]
fn single_file_holds_whole_arrays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("all.safetensors");
    let state = run(&mesh([("data", 8)]), p!["data"]);
    checkpoint::save(&path, &state).unwrap();
    let read = checkpoint::load(&path, &state).unwrap();
    assert_eq!(values(&read["weight"]), values(&state["weight"]));
    assert_eq!(read["weight"].sharding(), state["weight"].sharding());
}

#[test]
fn changed_shards_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let state = run(&mesh([("data", 8)]), p!["data"]);
    let mut saved = Folder::open(folder.path()).unwrap();
    saved.save(Snapshot::new(1, &state)).unwrap();
    saved.wait().unwrap();
    let file = saved.path_of(1).join("arrays.safetensors");
    let mut bytes = std::fs::read(&file).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let error = saved.restore(1, &state).unwrap_err().to_string();
    assert!(error.contains("@") && error.contains("was changed"), "{error}");
}

#[test]
fn batches_are_sharded_while_reading() {
    use data::{HostArray, Source, Synthetic};
    let rows = mesh([("data", 8)]).sharding(p!["data"]).unwrap();
    let numbers = Synthetic::new(32, |at| HostArray::from_slice(&[at as f32; 3], [3]));
    let batches: Vec<Array> = numbers
        .stream()
        .batch(16)
        .to_device_with(2, data::ToDeviceOptions { sharding: Some(rows.clone()) })
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(batches.len(), 2);
    assert!(batches.iter().all(|batch| batch.sharding() == Some(rows.clone())));
    assert_eq!(values(&batches[1])[..4], [16.0, 16.0, 16.0, 17.0]);
    let numbers = Synthetic::new(30, |at| HostArray::from_slice(&[at as f32; 3], [3]));
    let error = numbers
        .stream()
        .batch(15)
        .to_device_with(2, data::ToDeviceOptions { sharding: Some(rows.clone()) })
        .next()
        .unwrap()
        .unwrap_err();
    assert!(error.to_string().contains("size 15, which is not divisible by the size 8"), "{error}");
}
