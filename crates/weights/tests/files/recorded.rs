//! Recorded files and the arrays that they should have.

use oxidax_weights::{StoredTensor, WeightDType, Weights};
use std::path::PathBuf;

/// Returns the path of a recorded file.
pub fn path(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "data", name].iter().collect()
}

/// Reads a recorded file.
pub fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(path(name)).unwrap()
}

pub fn open(name: &str) -> Weights {
    Weights::open(path(name)).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the expected arrays of a file.
pub fn expected(name: &str) -> Weights {
    open(&format!("{name}.expected.safetensors"))
}

/// Compares all tensors with the expected ones, bit by bit.
///
/// Types without a name in safetensors are recorded as others with equal bits.
#[track_caller]
pub fn compare(found: &Weights, expected: &Weights) {
    let names: Vec<&String> = found.tensors().keys().collect();
    let wanted: Vec<&String> = expected.tensors().keys().collect();
    assert_eq!(names, wanted);
    for (name, wanted) in expected.tensors() {
        let tensor = found.get(name).unwrap();
        compare_tensor(name, tensor, wanted);
    }
}

#[track_caller]
fn compare_tensor(name: &str, found: &StoredTensor, expected: &StoredTensor) {
    let (dtype, mut shape) = (found.dtype(), found.shape().to_vec());
    let recorded = match dtype {
        WeightDType::C128 => {
            shape.push(2);
            WeightDType::F64
        }
        WeightDType::I4 => WeightDType::I8,
        WeightDType::BF16 if expected.dtype() == WeightDType::U16 => WeightDType::U16,
        WeightDType::F8E4M3FN | WeightDType::F8E5M2 if expected.dtype() == WeightDType::U8 => {
            WeightDType::U8
        }
        other => other,
    };
    assert_eq!((recorded, &shape[..]), (expected.dtype(), expected.shape()), "{name}");
    assert_eq!(found.read().unwrap(), expected.read().unwrap(), "{name}");
}
