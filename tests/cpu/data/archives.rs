//! Parquet files and tar archives.

use crate::data::support::{gzipped, parquet_bytes, parquet_bytes_with, tar_bytes};
use oxidax::Error;
use oxidax::data::{self, File, ParquetOptions, RowGroupShard, TarSample};
use parquet::basic::Compression;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize, Debug, PartialEq)]
struct Numbers {
    number: i64,
    text: Option<String>,
    parts: Vec<i64>,
    bytes: Vec<u8>,
}

fn row(number: i64) -> Numbers {
    let text = (number % 3 != 0).then(|| number.to_string());
    let parts = vec![number; number.rem_euclid(4) as usize];
    Numbers { number, text, parts, bytes: number.to_le_bytes().to_vec() }
}

fn parquet_file(count: i64, rows_per_group: usize) -> File {
    let numbers: Vec<i64> = (0..count).collect();
    File::in_memory("numbers.parquet", parquet_bytes(&numbers, rows_per_group))
}

#[test]
fn parquet_rows_are_structs() {
    let expected: Vec<Numbers> = (0..1000).map(row).collect();
    let gzip = Compression::GZIP(Default::default());
    let numbers: Vec<i64> = (0..1000).collect();
    for codec in [Compression::UNCOMPRESSED, Compression::SNAPPY, gzip, Compression::LZ4_RAW] {
        let file = File::in_memory("numbers", parquet_bytes_with(&numbers, 300, codec));
        let rows: Vec<Numbers> = data::parquet(file).collect::<Result<_, _>>().unwrap();
        assert_eq!(rows, expected, "{codec}");
    }
}

/// Written by `python-compat/parquet_files.py`.
#[test]
fn zstandard_and_brotli_pages_of_pyarrow_are_read() {
    type Row = (i64, Option<String>, bool, Vec<i64>, f64);
    let expected: Vec<Row> = (0..500)
        .map(|n| {
            let text = (n % 3 != 0).then(|| format!("row {}", n % 50));
            (n, text, n % 2 == 1, vec![n; n as usize % 4], 0.0)
        })
        .collect();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cpu/data/files");
    for name in ["zstd_v1", "zstd_v2", "brotli_v1", "brotli_v2"] {
        let path = format!("{folder}/{name}.parquet");
        let mut rows = data::parquet::<Row>(&path);
        let first: Vec<Row> = rows.by_ref().take(321).collect::<Result<_, _>>().unwrap();
        let position = rows.position();
        let rest = data::parquet::<Row>(&path).resume(&position).unwrap();
        let rest: Vec<Row> = rest.collect::<Result<_, _>>().unwrap();
        assert_eq!([first, rest].concat(), expected, "{name}");
        let columns = Some(vec!["text".to_owned()]);
        let row_groups = Some(RowGroupShard { index: 1, count: 2 });
        let rows =
            data::parquet_with::<(Option<String>,)>(&path, ParquetOptions { columns, row_groups });
        let texts: Vec<_> = rows.map(|row| Ok(row.0)).collect::<Result<_, _>>().unwrap();
        let expected = expected[300..].iter().map(|row| row.1.clone());
        assert_eq!(texts, expected.collect::<Vec<_>>());
    }
}

#[test]
fn parquet_columns_and_row_groups_are_selected() {
    let columns = Some(vec!["text".to_owned(), "number".to_owned()]);
    let options = ParquetOptions { columns, ..ParquetOptions::default() };
    let maps =
        data::parquet_with::<BTreeMap<String, serde_json::Value>>(parquet_file(7, 3), options);
    let maps = maps.collect::<Result<Vec<_>, _>>().unwrap();
    assert_eq!(serde_json::to_string(&maps[4]).unwrap(), r#"{"number":4,"text":"4"}"#);
    assert_eq!(maps.len(), 7);
    let mut seen = Vec::new();
    for index in 0..3 {
        let row_groups = Some(RowGroupShard { index, count: 3 });
        let options = ParquetOptions { columns: Some(vec!["number".into()]), row_groups };
        let rows = data::parquet_with::<(i64,)>(parquet_file(100, 10), options);
        let rows: Vec<(i64,)> = rows.collect::<Result<_, _>>().unwrap();
        assert!(rows.len() >= 30 && rows.iter().all(|(n,)| n / 10 % 3 == index as i64));
        seen.extend(rows);
    }
    assert_eq!(seen.len(), 100);
}

#[test]
fn wrong_parquet_files_and_types_are_errors() {
    let columns = Some(vec!["nothing".to_owned()]);
    let options = ParquetOptions { columns, ..ParquetOptions::default() };
    let mut rows = data::parquet_with::<(i64,)>(parquet_file(7, 3), options);
    let error = rows.next().unwrap().unwrap_err().to_string();
    assert!(
        error.contains("there is no column `nothing`; the columns are number, text"),
        "{error}"
    );
    assert!(rows.next().is_none());

    #[derive(Deserialize, Debug)]
    struct Wrong {
        #[serde(rename = "number")]
        _number: String,
    }
    let rows: Vec<Result<Wrong, Error>> = data::parquet(parquet_file(4, 3)).collect();
    assert_eq!(rows.len(), 4);
    let error = rows[3].as_ref().unwrap_err().to_string();
    assert!(
        error.starts_with("error[io]: numbers.parquet: row 3: invalid type: integer"),
        "{error}"
    );

    let text = File::in_memory("text", b"PAR1 is not enough".as_slice());
    let error = data::parquet::<(i64,)>(text).next().unwrap().unwrap_err().to_string();
    assert!(error.starts_with("error[io]: text: row 0: "), "{error}");

    let bad = data::parquet::<Numbers>(parquet_file(4, 3)).map(|row| match row.number {
        3 => Err(Error::data("check", "three")),
        n => Ok(n),
    });
    let error = bad.last().unwrap().unwrap_err().to_string();
    assert!(error.contains("three") && error.contains("numbers.parquet: row 3"), "{error}");
}

#[test]
fn tar_members_are_grouped_by_basename() {
    for bytes in [tar_bytes(12), gzipped(&tar_bytes(12))] {
        let samples = data::webdataset(File::in_memory("samples.tar", bytes));
        let samples: Vec<TarSample> = samples.collect::<Result<_, _>>().unwrap();
        assert_eq!(samples.len(), 12);
        for (n, sample) in samples.iter().enumerate() {
            assert_eq!(sample.fields.keys().collect::<Vec<_>>(), ["cls", "part.bin"]);
            assert_eq!(sample.json::<usize>("cls").unwrap(), n);
            assert_eq!(sample.bytes("part.bin").unwrap(), vec![n as u8; n * 37]);
            assert!(sample.key.ends_with(&format!("/{n:04}")), "{}", sample.key);
        }
        assert_eq!(samples[4].key.len(), "train/".len() + 120 + "/0004".len());
        let error = samples[0].bytes("jpg").unwrap_err().to_string();
        assert!(error.ends_with("has no member `jpg`; it has cls, part.bin"), "{error}");
    }
}

#[test]
fn damaged_archives_end_with_an_error() {
    let good = tar_bytes(5);
    let mut bad = good.clone();
    // The size in the header of the folder.
    bad[126] ^= 1;
    let items: Vec<_> = data::webdataset(File::in_memory("bad.tar", bad)).collect();
    assert_eq!(items.len(), 1);
    let error = items[0].as_ref().unwrap_err().to_string();
    assert!(error.starts_with("error[io]: bad.tar: at byte 0: the header of a member"), "{error}");
    let cut = File::in_memory("cut.tar", &good[..good.len() / 2]);
    let items: Vec<_> = data::webdataset(cut).collect();
    assert!(items.last().unwrap().is_err());
    assert!(items[..items.len() - 1].iter().all(Result::is_ok));
}
