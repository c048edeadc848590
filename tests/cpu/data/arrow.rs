//! Arrow IPC files and streams.

use crate::data::support::{AnyValue, ArrowLayout, arrow_bytes, messages, shown};
use expect_test::expect;
use oxidax::Error;
use oxidax::data::{self, ArrowOptions, File, RecordBatchShard};
use serde::Deserialize;
use std::collections::BTreeMap;

const LAYOUTS: [ArrowLayout; 2] = [ArrowLayout::File, ArrowLayout::Stream];

fn fixture(name: &str) -> String {
    format!("{}/tests/cpu/data/files/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn arrow_file(count: i64, rows_per_batch: usize, layout: ArrowLayout) -> File {
    let numbers: Vec<i64> = (0..count).collect();
    File::in_memory("numbers.arrow", arrow_bytes(&numbers, rows_per_batch, layout))
}

#[derive(Deserialize, Debug, PartialEq)]
struct Numbers {
    number: i64,
    text: Option<String>,
    parts: Vec<i64>,
    word: String,
}

fn row(number: i64) -> Numbers {
    let text = (number % 3 != 0).then(|| number.to_string());
    let parts = vec![number; number.rem_euclid(4) as usize];
    Numbers { number, text, parts, word: format!("word {}", number.rem_euclid(5)) }
}

#[test]
fn arrow_rows_are_structs() {
    let expected: Vec<Numbers> = (0..1000).map(row).collect();
    for layout in LAYOUTS {
        let rows = data::arrow::<Numbers>(arrow_file(1000, 300, layout));
        assert_eq!(rows.collect::<Result<Vec<_>, _>>().unwrap(), expected, "{layout:?}");
        assert_eq!(data::arrow::<Numbers>(arrow_file(0, 300, layout)).count(), 0);
    }
}

/// Written by `python-compat/arrow_files.py`, with the values that pyarrow reads.
#[test]
fn every_type_of_pyarrow_has_its_values() {
    type Row = BTreeMap<String, AnyValue>;
    let expected: Vec<Row> =
        data::jsonl(fixture("arrow_types.jsonl")).collect::<Result<_, _>>().unwrap();
    assert_eq!((expected.len(), expected[0].len()), (10, 50));
    for name in ["plain.arrow", "plain.arrows", "lz4.arrows", "zstd.arrow"] {
        let path = fixture(&format!("arrow_types_{name}"));
        let mut rows = data::arrow::<Row>(&path);
        let first: Vec<Row> = rows.by_ref().take(7).collect::<Result<_, _>>().unwrap();
        let position = rows.position();
        let rest = data::arrow::<Row>(&path).resume(&position).unwrap();
        let rest: Vec<Row> = rest.collect::<Result<_, _>>().unwrap();
        for (number, (row, expected)) in first.iter().chain(&rest).zip(&expected).enumerate() {
            for (column, value) in expected {
                assert_eq!(&row[column], value, "{name}: row {number}: {column}");
            }
        }
        assert_eq!(first.len() + rest.len(), 10);
    }
}

#[test]
fn columns_become_the_types_of_the_struct() {
    #[derive(Deserialize, Debug, PartialEq)]
    enum Word {
        #[serde(rename = "0")]
        Zero,
        #[serde(rename = "éé2")]
        Two,
    }
    #[derive(Deserialize, Debug, PartialEq)]
    struct Row {
        u64: Option<u64>,
        f16: Option<f32>,
        f32: Option<f64>,
        bytes: Option<Vec<u8>>,
        three_bytes: Option<[u8; 3]>,
        pair: Option<(f32, f32)>,
        record: Option<(i64, Option<String>)>,
        word: Option<Word>,
        nothing: Option<()>,
        map: Option<BTreeMap<String, i8>>,
    }
    let rows = data::arrow::<Row>(fixture("arrow_types_zstd.arrow")).take(3);
    expect![[r#"
        Row { u64: Some(0), f16: Some(0.0), f32: Some(-1.0), bytes: Some([]), three_bytes: Some([0, 0, 0]), pair: Some((0.0, 0.0)), record: Some((0, Some("0"))), word: Some(Zero), nothing: None, map: Some({}) }
        Row { u64: Some(18446744073709551615), f16: None, f32: None, bytes: None, three_bytes: None, pair: None, record: None, word: None, nothing: None, map: None }
        Row { u64: Some(0), f16: Some(0.5), f32: Some(-0.75), bytes: Some([2, 0, 255, 2, 0, 255]), three_bytes: Some([2, 2, 2]), pair: Some((2.0, 1.0)), record: Some((2, Some("éé2"))), word: Some(Two), nothing: None, map: Some({"0": 0, "1": 2}) }"#]]
    .assert_eq(&shown(&mut { rows }).join("\n"));
}

#[test]
fn dictionaries_of_streams_grow_and_are_replaced() {
    let options = ArrowOptions { columns: Some(vec!["word".into()]), ..ArrowOptions::default() };
    let build = || {
        let rows = data::arrow_with::<(Option<String>,)>(
            fixture("arrow_dictionary.arrows"),
            options.clone(),
        );
        rows.map(|(word,)| Ok(word.unwrap_or("-".into())))
    };
    let words: Vec<String> = build().collect::<Result<_, _>>().unwrap();
    assert_eq!(words.concat(), "abbacc-dxyx");
    for cut in 0..=words.len() {
        let mut head = build();
        head.by_ref().take(cut).for_each(drop);
        let tail = build().resume(&head.position()).unwrap();
        assert_eq!(tail.collect::<Result<Vec<_>, _>>().unwrap(), words[cut..], "{cut}");
    }
}

#[test]
fn feather_files_are_read() {
    let rows = data::arrow::<(i64, f64, String)>(fixture("arrow_rows.feather"));
    let rows: Vec<_> = rows.collect::<Result<_, _>>().unwrap();
    let expected: Vec<_> = (0..100).map(|n| (n, 0.0, format!("row {n}"))).collect();
    assert_eq!(rows, expected);
    let old = File::in_memory("old.feather", b"FEA1 and more bytes".as_slice());
    let error = data::arrow::<(i64,)>(old).next().unwrap().unwrap_err().to_string();
    expect![[r#"
        error[io]: old.feather: at byte 0: Feather version 1 is not an Arrow IPC file; write version 2
           --> tests/cpu/data/arrow.rs:125:17"#]]
        .assert_eq(&error);
}

#[test]
fn columns_and_record_batches_are_selected() {
    for layout in LAYOUTS {
        let columns = Some(vec!["text".to_owned(), "number".to_owned()]);
        let options = ArrowOptions { columns, ..ArrowOptions::default() };
        let rows = data::arrow_with::<(Option<String>, u8)>(arrow_file(7, 3, layout), options);
        let rows = rows.collect::<Result<Vec<_>, _>>().unwrap();
        assert_eq!((rows.len(), &rows[4]), (7, &(Some("4".to_owned()), 4)));
        let mut seen = Vec::new();
        for index in 0..3 {
            let record_batches = Some(RecordBatchShard { index, count: 3 });
            let options = ArrowOptions { columns: Some(vec!["number".into()]), record_batches };
            let rows = data::arrow_with::<(i64,)>(arrow_file(100, 10, layout), options);
            let rows: Vec<(i64,)> = rows.collect::<Result<_, _>>().unwrap();
            assert!(rows.len() >= 30 && rows.iter().all(|(n,)| n / 10 % 3 == index as i64));
            seen.extend(rows);
        }
        assert_eq!(seen.len(), 100);
    }
    let record_batches = Some(RecordBatchShard { index: 2, count: 2 });
    let options = ArrowOptions { record_batches, ..ArrowOptions::default() };
    let refused = || data::arrow_with::<(i64,)>(fixture("arrow_rows.feather"), options.clone());
    let error = oxidax::catch(refused).unwrap_err().to_string();
    assert!(error.contains("there is no shard 2 of 2"), "{error}");
}

#[test]
fn unsupported_types_are_refused_unless_they_are_not_selected() {
    let read = |columns: Option<Vec<String>>| {
        let options = ArrowOptions { columns, ..ArrowOptions::default() };
        let path = fixture("arrow_refused.arrow");
        let bytes = std::fs::read(path).unwrap();
        let file = File::in_memory("refused.arrow", bytes);
        shown(&mut data::arrow_with::<BTreeMap<String, AnyValue>>(file, options)).join("\n")
    };
    let error = read(None);
    assert!(error.contains("the footer: column `union` has the type Union("), "{error}");
    let error = read(Some(vec!["interval".into()]));
    assert!(error.contains("column `interval` has the type Interval(MonthDayNano)"), "{error}");
    assert_eq!(
        read(Some(vec!["n".into()])),
        "{\"n\": AnyValue(Number(1))}\n{\"n\": AnyValue(Number(2))}"
    );
    let error = read(Some(vec!["m".into()]));
    assert!(
        error.contains("there is no column `m`; the columns are union, n, interval"),
        "{error}"
    );
}

#[test]
fn wrong_arrow_files_and_types_are_errors() {
    #[derive(Deserialize, Debug)]
    struct Wrong {
        #[serde(rename = "number")]
        _number: String,
    }
    for layout in LAYOUTS {
        let rows: Vec<Result<Wrong, Error>> = data::arrow(arrow_file(4, 3, layout)).collect();
        assert_eq!(rows.len(), 4);
        let error = rows[3].as_ref().unwrap_err().to_string();
        assert!(
            error.starts_with("error[io]: numbers.arrow: row 3: invalid type: integer"),
            "{error}"
        );
        let error = data::arrow::<(i64,)>(arrow_file(1, 1, layout)).next().unwrap().unwrap_err();
        let error = error.to_string();
        assert!(error.contains("row 0: invalid length 4, expected 1 columns\n"), "{error}");
        let bad = data::arrow::<Numbers>(arrow_file(4, 3, layout)).map(|row| match row.number {
            3 => Err(Error::data("check", "three")),
            n => Ok(n),
        });
        let error = bad.last().unwrap().unwrap_err().to_string();
        assert!(error.contains("three") && error.contains("numbers.arrow: row 3"), "{error}");
    }
    for text in ["ARROW1 is not enough", "neither file nor stream", "", "\0\0\0\0"] {
        let found = shown(&mut data::arrow::<(i64,)>(File::in_memory("text", text.as_bytes())));
        assert_eq!(found.len(), 1, "{text:?}: {found:?}");
        assert!(found[0].starts_with("error[io]: text: "), "{text:?}: {found:?}");
    }
    // Streams may end without a mark, but not inside a message.
    let whole = arrow_bytes(&[1, 2, 3, 4], 2, ArrowLayout::Stream);
    let read = |count: usize| {
        let file = File::in_memory("cut", &whole[..count]);
        data::arrow::<Numbers>(file).collect::<Vec<_>>()
    };
    let rows = read(whole.len() - 8);
    assert!(rows.len() == 4 && rows.iter().all(Result::is_ok));
    let rows = read(whole.len() - 9);
    assert!(rows.len() == 3 && rows[..2].iter().all(Result::is_ok), "{rows:?}");
    let error = rows[2].as_ref().unwrap_err().to_string();
    assert!(error.contains("the body of a message should take"), "{error}");
}

/// A few bytes may state a list of millions of nulls, or a text for each of many keys.
#[test]
fn rows_that_are_too_large_for_their_file_are_errors() {
    use arrow_array::types::Int8Type;
    use arrow_array::{Array, ArrayRef, DictionaryArray, ListArray, NullArray, RecordBatch};
    use arrow_array::{StringArray, UInt64Array};
    use std::sync::Arc;
    let read = |elements: ArrayRef, offset: i32| {
        let field = arrow_schema::Field::new("item", elements.data_type().clone(), true);
        let offsets: Vec<i32> = vec![0, offset, elements.len() as i32];
        let offsets = arrow_buffer::OffsetBuffer::new(offsets.into());
        let list = ListArray::new(Arc::new(field), offsets, elements, None);
        let id = UInt64Array::from(vec![0, 1]);
        let columns: [(&str, ArrayRef); 2] = [("list", Arc::new(list)), ("id", Arc::new(id))];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut bytes = Vec::new();
        let mut writer =
            arrow_ipc::writer::StreamWriter::try_new(&mut bytes, &batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        let rows = data::arrow::<(Vec<Option<String>>, u64)>(File::in_memory("small", bytes));
        let rows = rows.map(|(list, id)| Ok((list.len(), id)));
        messages(&mut { rows })
    };
    let expected = ["(3, 0)", "error[io]: small: row 1: the row is too large for this file"];
    assert_eq!(read(Arc::new(NullArray::new(100_000_000)), 3), expected);
    let text = StringArray::from(vec!["a".repeat(10_000)]);
    let keys = vec![0i8; 100_000];
    let words = DictionaryArray::<Int8Type>::new(keys.clone().into(), Arc::new(text));
    assert_eq!(read(Arc::new(words), 3), expected);
    let text = StringArray::from(vec!["a".repeat(100)]);
    let words = DictionaryArray::<Int8Type>::new(keys.into(), Arc::new(text));
    assert_eq!(read(Arc::new(words), 3), ["(3, 0)", "(99997, 1)"]);
}
