//! Helpers shared by the tests.

use expect_test::Expect;
use oxidax::prelude::*;
use std::path::Path;

#[track_caller]
pub(crate) fn refused(outcome: Result<impl Sized, Error>, folder: &Path, expected: Expect) {
    match outcome {
        Ok(_) => panic!("expected an error"),
        Err(error) => {
            let text = error.to_string().replace(&folder.display().to_string(), "DIR");
            expected.assert_eq(&text);
        }
    }
}

/// Returns an array of consecutive numbers.
pub(crate) fn counted(dims: &[usize], from: f32) -> Array {
    let size: usize = dims.iter().product();
    let numbers: Vec<f32> = (0..size).map(|at| from + at as f32).collect();
    Array::from_slice(&numbers, dims).unwrap()
}

/// Returns the bits of every leaf.
pub(crate) fn bits<T: Tree>(tree: &T) -> Vec<Vec<u8>> {
    tree::leaves(tree).iter().map(|leaf| leaf.to_bytes().unwrap()).collect()
}

/// Returns the names in a folder, sorted, without the lock.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name != ".lock");
    names.sort();
    names
}

/// Returns the bytes of a safetensors file.
pub(crate) fn file_of(header: &str, elements: &[u8]) -> Vec<u8> {
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(elements);
    file
}
