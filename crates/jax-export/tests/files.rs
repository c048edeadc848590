//! Files of six versions of JAX, from July 2024 to May 2026, written by
//! `python-compat/exported_files.py`.
#![allow(clippy::unwrap_used, reason = "in a test, unwrapping is the assertion")]

use oxidax_jax_export::{
    AbstractValue, DisabledCheck, Exported, MeshAxisType, PyTreeDef, Sharding,
};
use serde::Deserialize;
use std::fs;
use std::path::PathBuf;

/// The signature that JAX itself reports.
#[derive(Debug, Deserialize, PartialEq)]
struct Signature {
    name: String,
    input_paths: Vec<String>,
    inputs: Vec<String>,
    output_paths: Vec<String>,
    outputs: Vec<String>,
    devices: u32,
    platforms: Vec<String>,
    used_inputs: Vec<usize>,
    calling_convention: u16,
    module_bytes: usize,
}

impl Signature {
    fn of(exported: &Exported) -> Signature {
        Signature {
            name: exported.name.clone(),
            input_paths: exported.input_tree.paths(),
            inputs: exported.inputs.iter().map(ToString::to_string).collect(),
            output_paths: exported.output_tree.paths(),
            outputs: exported.outputs.iter().map(ToString::to_string).collect(),
            devices: exported.devices,
            platforms: exported.platforms.clone(),
            used_inputs: exported.used_inputs.clone(),
            calling_convention: exported.calling_convention,
            module_bytes: exported.module.len(),
        }
    }
}

/// Returns the contents of the files, with their names.
fn files() -> Vec<(String, Vec<u8>, Signature)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|found| found == "bin")).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let signature = fs::read(path.with_extension("json")).unwrap();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        (name, fs::read(&path).unwrap(), serde_json::from_slice(&signature).unwrap())
    };
    paths.into_iter().map(read).collect()
}

fn read(name: &str, version: &str) -> Exported {
    let file = files().into_iter().find(|(file, ..)| *file == format!("{name}.{version}"));
    Exported::read(&file.unwrap().1).unwrap()
}

#[test]
fn signatures_are_those_of_jax() {
    let files = files();
    assert_eq!(files.len(), 44);
    for (name, bytes, mut expected) in files {
        let exported = Exported::read(&bytes).unwrap();
        if name.starts_with("custom_call") {
            // A file does not have the names of a named tuple's fields.
            expected.output_paths = ["[<flat index 0>]", "[<flat index 1>]"].map(Into::into).into();
        }
        assert_eq!(Signature::of(&exported), expected, "{name}");
        // A portable artifact of StableHLO is MLIR's bytecode.
        assert!(exported.module.starts_with(b"ML\xefR"), "{name}");
        assert_eq!(exported.disabled_checks, Vec::<DisabledCheck>::new());
        assert!(exported.ordered_effects.is_empty() && exported.unordered_effects.is_empty());
        assert_eq!(exported.has_keys(), name.starts_with("keys"), "{name}");
        assert_eq!(exported.is_static(), !name.starts_with("symbolic"), "{name}");
    }
}

#[test]
fn shardings_are_named_from_2026_on() {
    for version in ["0.9.0", "0.10.2"] {
        let exported = read("sharded", version);
        let Some(Sharding::Named { mesh, spec, .. }) = &exported.input_shardings[0] else {
            panic!("{:?}", exported.input_shardings)
        };
        let axes: Vec<(&str, u32, MeshAxisType)> =
            mesh.axes.iter().map(|axis| (axis.name.as_str(), axis.size, axis.kind)).collect();
        assert_eq!(axes, [("data", 4, MeshAxisType::Auto), ("model", 2, MeshAxisType::Auto)]);
        assert_eq!(spec, &[vec!["data".to_owned()]]);
        assert_eq!(exported.input_shardings[1], None);
        let Some(Sharding::Named { spec, .. }) = &exported.output_shardings[0] else {
            panic!("{:?}", exported.output_shardings)
        };
        assert_eq!(spec[0], ["data", "model"]);
    }
    let old = read("sharded", "0.4.31");
    assert!(
        matches!(&old.input_shardings[..], [Some(Sharding::Hlo(bytes)), _] if !bytes.is_empty())
    );
}

#[test]
fn derivatives_are_functions_of_arguments_and_cotangents() {
    let exported = read("gradient", "0.10.2");
    let vjp = exported.vjp.unwrap();
    let types = |types: &[AbstractValue]| -> Vec<String> {
        types.iter().map(ToString::to_string).collect()
    };
    assert_eq!(types(&vjp.inputs), ["float32[4,2]", "float32[3,4]", "float32[]"]);
    assert_eq!(types(&vjp.outputs), ["float32[4,2]", "float32[3,4]"]);
    let second = vjp.vjp.unwrap();
    assert_eq!(second.inputs.len(), 5);
    assert!(second.vjp.is_none());
}

#[test]
fn registered_types_and_dimension_variables_are_named() {
    let PyTreeDef::Custom { name, children, .. } = read("custom_call", "0.10.2").output_tree else {
        panic!("a named tuple")
    };
    assert_eq!((name.as_str(), children.len()), ("EighResult", 2));
    let symbolic = read("symbolic", "0.4.38");
    assert_eq!(symbolic.dimension_variables(), ["b", "n"]);
    let sizes = [("b".to_owned(), 3), ("n".to_owned(), 5)].into();
    let shape: Vec<_> = symbolic.outputs[1].shape.iter().map(|size| size.size(&sizes)).collect();
    assert_eq!(shape, [Some(3), Some(9)]);
}

/// Changes files at random, and reads them.
fn read_changed(count: u32) {
    let files = files();
    // Marsaglia's generator "xorshift64".
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below.max(1) as u64) as usize
    };
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..count {
        let mut bytes = files[random(files.len())].1.clone();
        for _ in 0..=random(4) {
            let at = random(bytes.len());
            match random(5) {
                0 => bytes.truncate(at),
                1 => drop(bytes.drain(at..(at + random(16)).min(bytes.len()))),
                2 => bytes.insert(at, random(256) as u8),
                3 if at < bytes.len() => bytes[at] ^= 1 << random(8),
                // The tables are at the ends of a buffer.
                _ if bytes.len() > 200 => {
                    let at = bytes.len() - 1 - random(200);
                    bytes[at] = random(256) as u8;
                }
                _ => {}
            }
        }
        match Exported::read(&bytes) {
            Ok(_) => accepted += 1,
            Err(error) => {
                assert!(error.to_string().starts_with("exported function, byte "), "{error}");
                refused += 1;
            }
        }
    }
    assert!(accepted > 0 && refused > 0, "{accepted} accepted, {refused} refused");
}

#[test]
fn a_million_changed_files_are_read_or_refused() {
    read_changed(1_000_000);
}

/// A tree in which both children of each node are the same next one: 2^60 nodes.
#[test]
fn shared_parts_do_not_multiply() {
    const DEPTH: u32 = 60;
    let mut bytes = Vec::new();
    let mut put = |numbers: &[u32]| bytes.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
    let pair = |low: u32, high: u32| low | high << 16;
    put(&[24]);
    // The fields of the root: a version and, two numbers later, the tree; those of a node.
    put(&[pair(10, 12), pair(4, 0), 8]);
    put(&[pair(8, 12), pair(4, 8)]);
    put(&[20, 3, 4]);
    for node in 0..DEPTH {
        let at = 36 + 24 * node;
        let children = if node + 1 < DEPTH { 2 } else { 0 };
        // A tuple, and the vector of its children.
        put(&[at - 16, 2, 4, children, 8, 4]);
    }
    let error = Exported::read(&bytes).unwrap_err();
    assert_eq!(error.message, "its parts are shared too often");
}

#[test]
fn written_functions_are_those_that_were_read() {
    for (name, bytes, _) in files() {
        let exported = Exported::read(&bytes).unwrap();
        let written = exported.to_bytes().unwrap();
        assert_eq!(Exported::read(&written).unwrap(), exported, "{name}");
    }
}

/// Writes the functions to `target/tmp/written-functions`. JAX reads them in
/// `python-compat/exported_files.py`.
#[test]
#[ignore = "writes files for a script"]
fn write_functions() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("written-functions");
    fs::create_dir_all(&folder).unwrap();
    for (name, bytes, _) in files() {
        let written = Exported::read(&bytes).unwrap().to_bytes().unwrap();
        fs::write(folder.join(format!("{name}.bin")), written).unwrap();
    }
}
