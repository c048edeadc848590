//! Checkpoints of Orbax 0.6 and 0.12, and arrays and databases of TensorStore.

use super::fuzz::{exercise, seeds};
use super::mutation::{Random, mutate};
use super::recorded::{compare, expected, open};
use oxidax_weights::{WeightFormat, Weights};
use std::collections::BTreeMap;

type Files = BTreeMap<String, Vec<u8>>;

const CHECKPOINTS: [&str; 8] = [
    "ocdbt_0.12",
    "ocdbt_0.6",
    "ocdbt_zarr3_0.12",
    "ocdbt_zarr3_0.6",
    "zarr_0.12",
    "zarr_0.6",
    "zarr3_0.12",
    "zarr3_0.6",
];

/// Returns the files of a recorded folder.
fn files(name: &str) -> Files {
    let packed = open(&format!("orbax/{name}.files.safetensors"));
    let files = packed.tensors().iter();
    files.map(|(name, bytes)| (name.clone(), bytes.read().unwrap())).collect()
}

#[test]
fn every_layout_of_two_versions_is_read() {
    for name in CHECKPOINTS {
        let weights = Weights::from_files(files(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(weights.format(), WeightFormat::Orbax);
        assert_eq!(weights.get("sharded").unwrap().to_string(), "f32[8,6]");
        compare(&weights, &expected("orbax"));
    }
}

#[test]
fn folders_and_steps_of_a_manager_are_read() {
    for name in ["ocdbt_0.12", "zarr3_0.12", "zarr_0.6"] {
        let folder = tempfile::tempdir().unwrap();
        for (file, bytes) in files(name) {
            let path = folder.path().join("default").join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        for path in [folder.path().join("default"), folder.path().to_path_buf()] {
            compare(&Weights::open(path).unwrap(), &expected("orbax"));
        }
    }
}

#[test]
fn deep_trees_and_manifests_with_numbers_are_read() {
    for name in ["deep", "numbered"] {
        compare(&Weights::from_files(files(name)).unwrap(), &expected("orbax_deep"));
    }
}

#[test]
fn codecs_orders_and_shards_are_decoded() {
    let weights = Weights::from_files(files("codecs")).unwrap();
    compare(&weights, &expected("orbax_codecs"));
}

#[test]
fn damage_is_found_by_checksums() {
    let mut damaged = files("ocdbt_0.12");
    damaged.get_mut("manifest.ocdbt").unwrap()[40] ^= 1;
    let error = Weights::from_files(damaged).unwrap_err();
    let text = "manifest.ocdbt: a record's checksum does not fit: it is damaged";
    assert_eq!(error.message(), text);
    let mut damaged = files("zarr3_0.12");
    damaged.insert("large/c/0/0".into(), vec![0; 40]);
    let weights = Weights::from_files(damaged).unwrap();
    let error = weights.get("large").unwrap().read().unwrap_err();
    assert!(error.message().starts_with("chunk [0, 0]: "), "{error}");
}

/// Writes a record of OCDBT with its length and checksum, so that damage inside is reached.
fn seal(body: &[u8]) -> Vec<u8> {
    let mut record = body.to_vec();
    if record.len() >= 12 {
        let length = record.len() as u64 + 4;
        record[4..12].copy_from_slice(&length.to_le_bytes());
    }
    let checksum = crc32c::crc32c(&record);
    record.extend(checksum.to_le_bytes());
    record
}

fn fuzz(folders: &[Files]) {
    let mut opened = 0;
    for seed in seeds() {
        let mut random = Random::new(seed);
        let mut files = folders[random.below(folders.len())].clone();
        for _ in 0..1 + random.below(3) {
            let names: Vec<String> = files.keys().cloned().collect();
            let name = &names[random.below(names.len())];
            let other = files[&names[random.below(names.len())]].clone();
            let bytes = files.get_mut(name).unwrap();
            let is_record = [0x0cdb_3a2a_u32, 0x0cdb_20de]
                .iter()
                .any(|magic| bytes.starts_with(&magic.to_be_bytes()));
            if is_record && random.below(8) > 0 {
                let mut body = bytes[..bytes.len() - 4].to_vec();
                mutate(&mut body, &other, &mut random);
                *bytes = seal(&body);
            } else {
                mutate(bytes, &other, &mut random);
            }
        }
        let size = files.values().map(Vec::len).sum();
        let weights = Weights::from_files(files);
        opened += u64::from(exercise(weights, size));
    }
    assert!(opened > 0);
    eprintln!("{} inputs, {opened} opened", seeds().count());
}

#[test]
fn mutated_databases() {
    // Records without compression, whose fields mutations reach.
    fuzz(&["numbered", "deep"].map(files));
}

#[test]
fn mutated_checkpoints() {
    fuzz(&["ocdbt_0.12", "ocdbt_zarr3_0.12", "zarr_0.12"].map(files));
}

#[test]
fn mutated_zarr_arrays() {
    fuzz(&["codecs", "zarr3_0.12"].map(files));
}
