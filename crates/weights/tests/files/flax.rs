//! Files of `flax.serialization`.

use super::recorded::{compare, expected, open};
use oxidax_weights::{WeightFormat, WeightMetadata, Weights};

#[test]
fn every_dtype_and_arrays_in_chunks_are_read() {
    let weights = open("flax.msgpack");
    assert_eq!(weights.format(), WeightFormat::Flax);
    compare(&weights, &expected("flax"));
    assert_eq!(weights.metadata()["step"], WeightMetadata::Int(7));
    assert_eq!(weights.metadata()["rate"], WeightMetadata::Float(0.25));
    assert_eq!(weights.skipped(), ["`complex` is bytes"]);
}

#[test]
fn lengths_beyond_the_file_are_refused() {
    let error = Weights::from_bytes(vec![0xdf, 0xff, 0xff, 0xff, 0xff]).unwrap_err();
    assert_eq!(error.message(), "msgpack, byte 5: 8589934590 values, but 0 bytes are left");
    let deep = [&[0x81, 0xa1, b'a'].repeat(200)[..], &[0xc0]].concat();
    let error = Weights::from_bytes(deep).unwrap_err();
    assert!(error.message().ends_with("more than 128 levels of nesting"), "{error}");
}
