//! Files and records shared by the tests.
#![allow(dead_code, reason = "two test programs share it, and neither uses all of it")]

use oxidax::data::{File, Stream, TfExample, TfFeature, TfRecordWriter};

/// Returns the items as text, including errors.
pub(crate) fn shown<T: std::fmt::Debug>(stream: &mut Stream<T>) -> Vec<String> {
    stream
        .by_ref()
        .map_while(|item| Some(item.map_or_else(|e| e.to_string(), |v| format!("{v:?}"))))
        .collect()
}

/// Returns the bytes of a TFRecord file.
pub(crate) fn tfrecord_bytes(records: &[Vec<u8>]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records");
    let mut writer = TfRecordWriter::create(&path).unwrap();
    records.iter().for_each(|record| writer.write(record).unwrap());
    writer.finish().unwrap();
    std::fs::read(&path).unwrap()
}

/// Returns an in-memory TFRecord file of numbers.
pub(crate) fn numbers_file(name: &str, numbers: std::ops::Range<i32>) -> File {
    let records: Vec<Vec<u8>> = numbers.map(|n| n.to_le_bytes().to_vec()).collect();
    File::in_memory(name, tfrecord_bytes(&records))
}

pub(crate) fn number(bytes: Vec<u8>) -> Result<i32, oxidax::Error> {
    Ok(i32::from_le_bytes(bytes.try_into().unwrap()))
}

/// Returns examples with an image and a label.
pub(crate) fn examples(count: i64) -> Vec<TfExample> {
    let example = |n: i64| {
        TfExample::from([
            ("image", TfFeature::Bytes(vec![vec![n as u8; 12]])),
            ("weights", TfFeature::Float(vec![n as f32, 0.5, -1.0])),
            ("label", TfFeature::Int64(vec![n, -n])),
        ])
    };
    (0..count).map(example).collect()
}

pub(crate) fn gzipped(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
