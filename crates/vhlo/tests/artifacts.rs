//! Artifacts of six versions of JAX: those of `python-compat/portable_artifacts.py`, and those in
//! the files of `oxidax-jax-export`. The script compares the expected texts with the modules that
//! StableHLO's own reader returns.
#![allow(clippy::unwrap_used, reason = "in a test, unwrapping is the assertion")]

use expect_test::expect_file;
use oxidax_jax_export::Exported;
use oxidax_vhlo::PortableArtifact;
use std::fs;
use std::path::{Path, PathBuf};

/// Returns the files of a folder with this extension, by their names.
fn files(folder: &str, extension: &str) -> Vec<(String, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(folder);
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let paths = paths.filter(|path| path.extension().is_some_and(|found| found == extension));
    let name = |path: &Path| path.file_stem().unwrap().to_string_lossy().into_owned();
    let mut files: Vec<_> = paths.map(|path| (name(&path), fs::read(&path).unwrap())).collect();
    files.sort();
    files
}

/// Returns all artifacts, with their names.
fn artifacts() -> Vec<(String, Vec<u8>)> {
    let mut artifacts = files("tests/data", "bc");
    assert_eq!(artifacts.len(), 23);
    for (name, bytes) in files("../jax-export/tests/data", "bin") {
        // A function, and its derivatives.
        let mut next = Some(Box::new(Exported::read(&bytes).unwrap()));
        for order in 0.. {
            let Some(exported) = next else { break };
            artifacts.push((format!("{name}.{order}"), exported.module));
            next = exported.vjp;
        }
    }
    artifacts
}

#[test]
fn text_is_that_of_stablehlo() {
    let artifacts = artifacts();
    assert_eq!(artifacts.len(), 23 + 56);
    for (name, bytes) in artifacts {
        let text = PortableArtifact::read(&bytes).and_then(|artifact| artifact.to_text());
        let text = text.unwrap_or_else(|error| panic!("{name}: {error}"));
        expect_file![format!("data/{name}.mlir")].assert_eq(&text);
    }
}

#[test]
fn functions_alone_are_private_and_have_the_prefix() {
    for (name, bytes) in files("tests/data", "bc") {
        let artifact = PortableArtifact::read(&bytes).unwrap();
        let text = artifact.functions_text("a.").unwrap();
        let functions = text.lines().filter(|line| line.starts_with("  func.func"));
        for function in functions {
            assert!(function.starts_with("  func.func private @\"a."), "{name}: {function}");
        }
        assert!(text.contains("@\"a.main\""), "{name}");
        assert!(!text.contains("<@mesh") && !text.contains("callee = @\"_"), "{name}: {text}");
    }
}

#[test]
fn operations_of_later_versions_are_refused() {
    let (_, mut bytes) = files("tests/data", "bc").into_iter().find(|f| f.0 == "dots").unwrap();
    let name = b"slice_v1";
    let at = bytes.windows(name.len()).position(|window| window == name).unwrap();
    bytes[at + name.len() - 1] = b'9';
    let error = PortableArtifact::read(&bytes).unwrap_err();
    assert_eq!(error.message, "`vhlo.slice_v9` is not known: StableHLO up to 1.20 is");
}

/// A stream of pseudorandom numbers: xorshift.
fn next(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    usize::try_from(*state >> 8).unwrap()
}

#[test]
fn damaged_artifacts_are_errors_or_other_modules() {
    let artifacts = artifacts();
    let (mut refused, mut accepted, mut state) = (0, 0, 0x9e37_79b9_7f4a_7c15);
    for _ in 0..20_000 {
        let (_, bytes) = &artifacts[next(&mut state) % artifacts.len()];
        let mut bytes = bytes.clone();
        for _ in 0..1 + next(&mut state) % 3 {
            let at = next(&mut state) % bytes.len();
            match next(&mut state) % 4 {
                0 => bytes.truncate(at.max(1)),
                1 => bytes[at] = 0,
                2 => bytes[at] ^= 1 << (next(&mut state) % 8),
                _ => bytes[at] = next(&mut state).to_le_bytes()[0],
            }
        }
        match PortableArtifact::read(&bytes).and_then(|artifact| artifact.to_text()) {
            Ok(_) => accepted += 1,
            Err(error) => {
                assert!(error.offset <= bytes.len(), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 5_000 && accepted > 500, "{refused} refused, {accepted} accepted");
}

#[test]
fn every_beginning_of_an_artifact_is_refused() {
    for (name, bytes) in files("tests/data", "bc").into_iter().take(6) {
        for length in 0..bytes.len() {
            assert!(PortableArtifact::read(&bytes[..length]).is_err(), "{name}, {length} bytes");
        }
    }
}
