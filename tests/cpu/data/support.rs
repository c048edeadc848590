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

/// Returns the items as text, with errors up to the line of the program.
pub(crate) fn messages<T: std::fmt::Debug>(stream: &mut Stream<T>) -> Vec<String> {
    let message = |item: String| match item.split_once("\n   --> ") {
        Some((message, _)) => message.to_owned(),
        None => item,
    };
    shown(stream).into_iter().map(message).collect()
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

/// Returns a Parquet file with the columns `number`, `text` (a null for every third row), `parts`
/// (a list) and `bytes`.
pub(crate) fn parquet_bytes(numbers: &[i64], rows_per_group: usize) -> Vec<u8> {
    parquet_bytes_with(numbers, rows_per_group, parquet::basic::Compression::SNAPPY)
}

pub(crate) fn parquet_bytes_with(
    numbers: &[i64],
    rows_per_group: usize,
    compression: parquet::basic::Compression,
) -> Vec<u8> {
    use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use std::sync::Arc;
    let schema = "message numbers {
        required int64 number;
        optional binary text (utf8);
        required group parts (list) { repeated group list { required int64 element; } }
        required binary bytes;
    }";
    let schema = Arc::new(parquet::schema::parser::parse_message_type(schema).unwrap());
    let properties = Arc::new(WriterProperties::builder().set_compression(compression).build());
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, properties).unwrap();
    for rows in numbers.chunks(rows_per_group) {
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int64Type>().write_batch(rows, None, None).unwrap();
        column.close().unwrap();

        let texts = rows.iter().filter(|n| *n % 3 != 0);
        let texts: Vec<ByteArray> = texts.map(|n| n.to_string().as_str().into()).collect();
        let levels: Vec<i16> = rows.iter().map(|n| i16::from(n % 3 != 0)).collect();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<ByteArrayType>().write_batch(&texts, Some(&levels), None).unwrap();
        column.close().unwrap();

        // Lists of 0 to 3 elements.
        let (mut parts, mut definitions, mut repetitions) = (Vec::new(), Vec::new(), Vec::new());
        for &number in rows {
            let count = number.rem_euclid(4);
            parts.extend((0..count).map(|_| number));
            definitions.extend((0..count.max(1)).map(|_| i16::from(count > 0)));
            repetitions.extend((0..count.max(1)).map(|at| i16::from(at > 0)));
        }
        let mut column = group.next_column().unwrap().unwrap();
        let levels = (Some(&definitions[..]), Some(&repetitions[..]));
        column.typed::<Int64Type>().write_batch(&parts, levels.0, levels.1).unwrap();
        column.close().unwrap();

        let bytes: Vec<ByteArray> = rows.iter().map(|n| n.to_le_bytes().to_vec().into()).collect();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<ByteArrayType>().write_batch(&bytes, None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
    }
    writer.into_inner().unwrap()
}

/// A value of any type, as JSON has it. Bytes are numbers.
#[derive(Debug, PartialEq)]
pub(crate) struct AnyValue(pub(crate) serde_json::Value);

impl<'de> serde::Deserialize<'de> for AnyValue {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<AnyValue, D::Error> {
        deserializer.deserialize_any(AnyVisitor).map(AnyValue)
    }
}

struct AnyVisitor;

impl<'de> serde::de::Visitor<'de> for AnyVisitor {
    type Value = serde_json::Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any value")
    }
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(serde_json::Value::Null)
    }
    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(value.into())
    }
    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(value.into())
    }
    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(value.into())
    }
    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(value.into())
    }
    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(value.into())
    }
    fn visit_bytes<E>(self, value: &[u8]) -> Result<Self::Value, E> {
        Ok(value.into())
    }
    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let elements = std::iter::from_fn(|| seq.next_element::<AnyValue>().transpose());
        elements.map(|element| element.map(|value| value.0)).collect()
    }
    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let entries = std::iter::from_fn(|| map.next_entry::<String, AnyValue>().transpose());
        entries.map(|entry| entry.map(|(name, value)| (name, value.0))).collect()
    }
}

/// The two layouts of Arrow's messages.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ArrowLayout {
    File,
    Stream,
}

/// Returns an Arrow file with the columns `number`, `text` (a null for every third row), `parts` (a
/// list) and `word`, which is a dictionary.
pub(crate) fn arrow_bytes(numbers: &[i64], rows_per_batch: usize, layout: ArrowLayout) -> Vec<u8> {
    use arrow_array::types::{Int8Type, Int64Type};
    use arrow_array::{ArrayRef, DictionaryArray, Int64Array, ListArray, RecordBatch, StringArray};
    use std::sync::Arc;
    // All batches share the dictionary, because the file format stores it once.
    let words = Arc::new(StringArray::from_iter_values((0..5).map(|n| format!("word {n}"))));
    let batch = |rows: &[i64]| {
        let texts = rows.iter().map(|n| (n % 3 != 0).then(|| n.to_string()));
        let parts = rows.iter().map(|&n| Some(vec![Some(n); n.rem_euclid(4) as usize]));
        let keys = rows.iter().map(|n| Some(n.rem_euclid(5) as i8)).collect();
        let columns: [(&str, ArrayRef); 4] = [
            ("number", Arc::new(Int64Array::from(rows.to_vec()))),
            ("text", Arc::new(texts.collect::<StringArray>())),
            ("parts", Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(parts))),
            ("word", Arc::new(DictionaryArray::<Int8Type>::new(keys, words.clone()))),
        ];
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)))
    };
    let schema = batch(&[]).unwrap().schema();
    let batches = numbers.chunks(rows_per_batch).map(|rows| batch(rows).unwrap());
    let mut bytes = Vec::new();
    match layout {
        ArrowLayout::File => {
            let mut writer = arrow_ipc::writer::FileWriter::try_new(&mut bytes, &schema).unwrap();
            batches.for_each(|batch| writer.write(&batch).unwrap());
            writer.finish().unwrap();
        }
        ArrowLayout::Stream => {
            let mut writer = arrow_ipc::writer::StreamWriter::try_new(&mut bytes, &schema).unwrap();
            batches.for_each(|batch| writer.write(&batch).unwrap());
            writer.finish().unwrap();
        }
    }
    bytes
}

/// Returns a tar archive of samples with members `bin` and `cls`, a folder and a long name.
pub(crate) fn tar_bytes(samples: i32) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    let mut append = |name: &str, bytes: &[u8], kind: tar::EntryType| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, bytes).unwrap();
    };
    append("train/", &[], tar::EntryType::Directory);
    append("train/README", b"skipped", tar::EntryType::Regular);
    for n in 0..samples {
        // Names of more than 100 bytes are stored in a header of their own.
        let folder = "long".repeat(if n % 5 == 4 { 30 } else { 1 });
        let file = |extension: &str| format!("train/{folder}/{n:04}.{extension}");
        append(&file("part.bin"), &vec![n as u8; n as usize * 37], tar::EntryType::Regular);
        append(&file("cls"), n.to_string().as_bytes(), tar::EntryType::Regular);
    }
    archive.into_inner().unwrap()
}
