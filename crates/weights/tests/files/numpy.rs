//! NumPy's `.npy` and `.npz` files.

use super::recorded::{compare, expected, open};
use oxidax_weights::{WeightFormat, Weights};

#[test]
fn archives_are_read_compressed_or_not() {
    for name in ["numpy.npz", "numpy_compressed.npz"] {
        let weights = open(name);
        assert_eq!(weights.format(), WeightFormat::Npz);
        assert_eq!(weights.get("fortran").unwrap().to_string(), "f32[3,4]");
        compare(&weights, &expected("numpy"));
    }
}

#[test]
fn a_file_with_one_array_is_named_after_the_file() {
    let weights = open("numpy.npy");
    let found = weights.get("numpy").unwrap().read_f32().unwrap();
    assert_eq!(found, (0..12).map(|x| x as f32).collect::<Vec<_>>());
}

#[test]
fn headers_that_promise_too_much_are_refused() {
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }";
    let mut bytes = b"\x93NUMPY\x01\0".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend([0; 16]);
    let error = Weights::from_bytes(bytes).unwrap_err();
    assert!(error.message().contains("16 bytes are not a f32[1000000000000]"), "{error}");
}
