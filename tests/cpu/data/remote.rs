//! Objects of an in-memory store, read like files.

use crate::data::support::{gzipped, shown, tfrecord_bytes};
use object_store::ObjectStoreExt as _;
use object_store::memory::InMemory;
use oxidax::data::{self, Bucket, InterleaveOptions, Source, TfRecords, TokenWidth, Tokens};

fn bucket() -> Bucket {
    let store = InMemory::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let put = |key: &str, bytes: Vec<u8>| {
        runtime.block_on(store.put(&key.into(), bytes.into())).unwrap();
    };
    for n in 0..3u8 {
        let records: Vec<Vec<u8>> = (0..4).map(|at| vec![10 * n + at]).collect();
        put(&format!("train/{n}.tfrecord"), tfrecord_bytes(&records));
    }
    put("train/deeper/9.tfrecord", tfrecord_bytes(&[vec![99]]));
    put("lines.jsonl.gz", gzipped(b"1\n2\n3\n"));
    put("tokens.bin", (0u16..9).flat_map(u16::to_le_bytes).collect());
    Bucket::new("s3://numbers/", store).unwrap()
}

#[test]
fn objects_are_listed_and_read() {
    let bucket = bucket();
    let files = bucket.files("train/*.tfrecord").unwrap();
    let names: Vec<String> = files.iter().map(ToString::to_string).collect();
    let expected = [0, 1, 2].map(|n| format!("s3://numbers/train/{n}.tfrecord"));
    assert_eq!(names, expected);
    assert_eq!(bucket.files("**/9.tfrecord").unwrap().len(), 1);
    let turns = InterleaveOptions { cycle_length: 2, block_length: 2 };
    let stream = data::interleave(files.iter().map(data::tfrecord), turns);
    let bytes: Vec<u8> = stream.map(|record| Ok(record[0])).collect::<Result<_, _>>().unwrap();
    assert_eq!(bytes, [0, 1, 10, 11, 2, 3, 12, 13, 20, 21, 22, 23]);
}

#[test]
fn every_format_reads_objects_at_random() {
    let bucket = bucket();
    let records = TfRecords::open(bucket.file("train/1.tfrecord")).unwrap();
    assert_eq!((records.len(), records.get(3).unwrap()), (4, vec![13]));
    let lines = data::jsonl::<u32>(bucket.file("lines.jsonl.gz"));
    assert_eq!(lines.collect::<Result<Vec<_>, _>>().unwrap(), [1, 2, 3]);
    let tokens = Tokens::open(bucket.file("tokens.bin"), TokenWidth::U16, 4).unwrap();
    assert_eq!(tokens.get(1).unwrap().0.to_vec::<i32>().unwrap(), [4, 5, 6, 7]);
}

#[test]
fn missing_objects_are_named() {
    let bucket = bucket();
    let found = shown(&mut data::tfrecord(bucket.file("test/0.tfrecord")));
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("error[io]: s3://numbers/test/0.tfrecord: "), "{}", found[0]);
    let error = bucket.files("test/*").unwrap_err().to_string();
    assert_eq!(error, "error[io]: s3://numbers/test/*: no object matches");
}
