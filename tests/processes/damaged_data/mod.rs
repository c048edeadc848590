//! Damaged files of every format are read or give an error. They cause no panic, no hang, and no
//! allocation that exceeds the file's size.
//!
//! Each format has a few intact files. `FILES` mutations of them are read, and a million in an
//! ignored test: truncated, with flipped
//! bits, overwritten bytes, huge or negative lengths, and repeated or removed parts. Memory use is
//! measured for the whole process, so this test runs in its own process.

pub(crate) mod mutations;
#[path = "../../cpu/data/support.rs"]
mod support;

use crate::alone::alone;
use mutations::{damaged, most_used};
use oxidax::data::{
    self, Cacheable, File, HostArray, ImageFolder, Npy, Position, Record, Rows, Source, Stream,
    TfExample, TfRecords, TokenWidth, Tokens,
};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use support::{AnyValue, examples, gzipped, tfrecord_bytes};

/// Damaged files of each format.
const FILES: u64 = 10_000;
/// Limit in KiB. More memory than this means that a length was trusted: all intact files are below
/// 32 KiB.
const MAX_KIB: u64 = 16 << 10;

fn fixture(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cpu/data/files"));
    std::fs::read(folder.join(name)).unwrap()
}

/// Reads damaged copies of the intact files in memory.
#[track_caller]
fn fuzz(files: u64, good: &[Vec<u8>], read: impl Fn(File) -> Result<(), oxidax::Error>) {
    fuzz_bytes(files, good, |bytes| read(File::in_memory("file", bytes)));
}

/// Reads damaged copies with functions that accept only files on disk.
#[track_caller]
fn fuzz_on_disk(
    files: u64,
    good: &[Vec<u8>],
    path: &Path,
    read: impl Fn() -> Result<(), oxidax::Error>,
) {
    fuzz_bytes(files, good, |bytes| {
        std::fs::write(path, bytes).unwrap();
        read()
    });
}

/// Reads damaged copies of the intact files, and counts the errors.
#[track_caller]
pub(crate) fn fuzz_bytes(
    files: u64,
    good: &[Vec<u8>],
    read: impl Fn(&[u8]) -> Result<(), oxidax::Error>,
) {
    let each = files.div_ceil(good.len() as u64);
    let (before, place) = (most_used(), std::panic::Location::caller());
    let mut noticed = 0;
    for (number, good) in good.iter().enumerate() {
        read(good).unwrap();
        for seed in 0..each {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed << 8 | number as u64);
            let bytes = damaged(good, &mut random);
            let outcome = catch_unwind(AssertUnwindSafe(|| read(&bytes)));
            let outcome =
                outcome.unwrap_or_else(|_| panic!("{place}: file {number}, seed {seed} panicked"));
            if let Err(error) = outcome {
                let error = error.to_string();
                assert!(
                    error.starts_with("error["),
                    "{place}: file {number}, seed {seed}: {error}"
                );
                assert!(
                    error.len() < 2000,
                    "{place}: file {number}, seed {seed}: {} bytes",
                    error.len()
                );
                noticed += 1;
            }
        }
    }
    // Changed elements are not always detectable, changed structure is.
    assert!(noticed > files / 20, "{place}: only {noticed} errors");
    if let (Some(before), Some(after)) = (before, most_used()) {
        // The kernel's peak is approximate and can fall a little.
        let more = after.saturating_sub(before);
        assert!(more < MAX_KIB, "{place}: {more} KiB were allocated");
    }
}

/// Reads a stream to its end. A file has no more items than bytes.
fn drained<T>(stream: impl Iterator<Item = Result<T, oxidax::Error>>) -> Result<(), oxidax::Error> {
    let mut first = Ok(());
    for (count, item) in stream.enumerate() {
        assert!(count < 100_000, "the stream does not end");
        first = first.and(item.map(drop));
    }
    first
}

fn tfrecords() -> Vec<u8> {
    tfrecord_bytes(&examples(5).iter().map(TfExample::encode).collect::<Vec<_>>())
}

fn tfrecord_files(files: u64) {
    fuzz(files, &[tfrecords(), gzipped(&tfrecords())], |file| drained(data::tfrecord(file)));
    fuzz(files, &[tfrecords()], |file| drained(TfRecords::open(file)?.stream()));
}

fn examples_in_sound_records(files: u64) {
    let good = examples(1)[0].encode();
    fuzz_bytes(files, &[good], |bytes| {
        let example = TfExample::parse(bytes)?;
        example.array("image", oxidax::DType::U8, [12])?;
        example.array("label", oxidax::DType::I32, [2])?;
        example.array("weights", oxidax::DType::F32, [3]).map(drop)
    });
}

/// The files that TensorBoard reads: records of protocol buffers.
fn event_files(files: u64) {
    let folder = tempfile::tempdir().unwrap();
    let mut metrics = oxidax::train::Metrics::new().tensorboard(folder.path()).unwrap();
    for step in 0..4 {
        metrics.scalar(step, "train/loss", 0.5).unwrap();
    }
    metrics.finish().unwrap();
    let file = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap();
    let good = std::fs::read(file.path()).unwrap();
    fuzz(files, &[good], |file| drained(data::tfrecord(file)));
}

fn csv_files(files: u64) {
    let good = b"a,b,c\n1,\"x, y\",2.5\n2,\"line\nend\",\n3,z,1e3\n".to_vec();
    fuzz(files, &[good.clone(), gzipped(&good)], |file| {
        drained(data::csv::<(u32, String, Option<f32>)>(file))
    });
}

fn jsonl_files(files: u64) {
    let good =
        b"{\"a\": [1, 2, 3], \"b\": {\"c\": \"\\u00e9\"}}\n[[[[1]]]]\n\"text\"\n12.5e3\n".to_vec();
    fuzz(files, &[good.clone(), gzipped(&good)], |file| {
        drained(data::jsonl::<serde_json::Value>(file))
    });
}

fn npy_files(files: u64) {
    let good =
        ["f32.npy", "fortran.npy", "big_endian.npy", "version2.npy", "version3.npy"].map(fixture);
    fuzz(files, &good, |file| data::npy(file).map(drop));
    let good = ["f32.npy", "big_endian.npy", "version3.npy", "bool.npy"].map(fixture);
    fuzz(files, &good, |file| drained(Npy::open(file)?.indexed().stream().take(1000)));
}

fn npz_files(files: u64) {
    let good = ["stored.npz", "deflated.npz"].map(fixture);
    fuzz(files, &good, |file| drained(Rows::new(data::npz(file)?)?.stream().take(1000)));
}

fn safetensors_files(files: u64) {
    fuzz(files, &[fixture("two.safetensors")], |file| {
        drained(Rows::new(data::safetensors(file)?)?.stream().take(1000))
    });
}

fn token_files(files: u64) {
    let good: Vec<u8> = (0u32..40).flat_map(u32::to_le_bytes).collect();
    fuzz(files, &[good], |file| drained(Tokens::open(file, TokenWidth::U32, 7)?.stream()));
}

fn idx_files(files: u64) {
    let mut images = vec![0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3];
    images.extend([0, 51, 255, 1, 2, 3]);
    let labels = [0, 0, 8, 1, 0, 0, 0, 2, 7, 9];
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("train-labels-idx1-ubyte"), labels).unwrap();
    let path = folder.path().join("train-images-idx3-ubyte");
    fuzz_on_disk(files, &[images.clone(), gzipped(&images)], &path, || {
        data::idx(folder.path()).map(drop)
    });
}

fn image_files(files: u64) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("class")).unwrap();
    let path = folder.path().join("class").join("image.png");
    let good = ["halves.png", "halves.jpg", "grey.png"].map(fixture);
    fuzz_on_disk(files, &good, &path, || {
        let images = ImageFolder::open(folder.path())?.stream();
        drained(images.map(|file| data::decode_image(&file.bytes, 4, 4)))
    });
}

fn positions(files: u64) {
    let build = || {
        Tokens::open(File::in_memory("t", vec![0; 64]), TokenWidth::U16, 2)
            .unwrap()
            .shuffled(1)
            .stream()
            .shuffle(5, 2)
            .repeat(2)
    };
    let mut stream = build();
    stream.next();
    let good = serde_json::to_vec(&stream.position()).unwrap();
    for seed in 0..files {
        let bytes = damaged(&good, &mut Xoshiro256PlusPlus::seed_from_u64(seed));
        if let Ok(position) = serde_json::from_slice::<Position>(&bytes) {
            drop(build().resume(&position).map(|stream| drained(stream.take(1000))));
        }
    }
}

fn cache_files(files: u64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("items.cache");
    let build = || {
        let rows = (0..9).map(|n| (vec![n as u8; n], format!("{n}"), Some(n as f32)));
        Stream::from_generator(move |_| rows.clone().map(Ok)).cache_on_disk(&path, "1")
    };
    let expected: Vec<_> = build().collect::<Result<_, _>>().unwrap();
    let good = std::fs::read(&path).unwrap();
    for seed in 0..files {
        std::fs::write(&path, damaged(&good, &mut Xoshiro256PlusPlus::seed_from_u64(seed)))
            .unwrap();
        // A damaged file is never read, so no item differs.
        let items: Vec<_> = build().collect::<Result<_, _>>().unwrap();
        assert_eq!(items, expected, "seed {seed}");
    }
}

/// The bytes of cached items, without the checksums that protect them in a file.
fn cached_items(files: u64) {
    type Cached = (Record, Vec<String>, Option<Vec<(u64, f64)>>, HostArray);
    let array = HostArray::from_slice(&[1.5f32, 2.0], [2, 1]).unwrap();
    let record = Record::new().with("x", array.clone()).with("y", array.clone());
    let item: Cached = (record, vec!["a".into(), "é".into()], Some(vec![(7, 0.5)]), array);
    let mut good = Vec::new();
    item.encode(&mut good);
    fuzz_bytes(files, &[good], |bytes| Cached::decode(&mut &bytes[..]).map(drop));
}

fn tar_files(files: u64) {
    let good = support::tar_bytes(6);
    fuzz(files, &[good.clone(), gzipped(&good)], |file| drained(data::webdataset(file)));
}

fn parquet_files(files: u64) {
    let numbers: Vec<i64> = (0..9).collect();
    let gzip = parquet::basic::Compression::GZIP(Default::default());
    let codecs = [parquet::basic::Compression::SNAPPY, gzip, parquet::basic::Compression::LZ4_RAW];
    let good = codecs.map(|codec| support::parquet_bytes_with(&numbers, 5, codec));
    fuzz(files, &good, |file| {
        drained(data::parquet::<(i64, Option<String>, Vec<i64>, Vec<u8>)>(file).take(1000))
    });
    let good = ["zstd_v1", "zstd_v2", "brotli_v1", "brotli_v2"];
    let good = good.map(|name| fixture(&format!("{name}.parquet")));
    fuzz(files, &good, |file| {
        drained(data::parquet::<(i64, Option<String>, bool, Vec<i64>, f64)>(file).take(1000))
    });
}

fn arrow_files(files: u64) {
    type Row = (i64, Option<String>, Vec<i64>, String);
    let numbers: Vec<i64> = (0..9).collect();
    let layouts = [support::ArrowLayout::File, support::ArrowLayout::Stream];
    let good = layouts.map(|layout| support::arrow_bytes(&numbers, 4, layout));
    fuzz(files, &good, |file| drained(data::arrow::<Row>(file).take(1000)));
    // Every type, as itself.
    let good = ["plain.arrow", "plain.arrows", "lz4.arrows", "zstd.arrow"];
    let good = good.map(|name| fixture(&format!("arrow_types_{name}")));
    fuzz(files, &good, |file| drained(data::arrow::<BTreeMap<String, AnyValue>>(file).take(1000)));
    let good = ["arrow_dictionary.arrows", "arrow_rows.feather"].map(fixture);
    fuzz(files, &good, |file| drained(data::arrow::<BTreeMap<String, AnyValue>>(file).take(1000)));
}

/// Reads damaged files of every format.
fn all_formats(files: u64) {
    // Readers of other crates panic on some files. Those panics become errors and are not printed.
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.location().is_some_and(|location| location.file().starts_with("tests")) {
            print(panic);
        }
    }));
    tfrecord_files(files);
    examples_in_sound_records(files);
    event_files(files);
    csv_files(files);
    jsonl_files(files);
    npy_files(files);
    npz_files(files);
    safetensors_files(files);
    token_files(files);
    idx_files(files);
    image_files(files);
    positions(files);
    cache_files(files / 10);
    cached_items(files);
    tar_files(files);
    parquet_files(files);
    arrow_files(files);
    drop(std::panic::take_hook());
}

#[test]
fn damaged_data_files_give_errors() {
    alone("damaged_data::damaged_data_files_give_errors", || all_formats(FILES));
}

#[test]
#[ignore = "a million files of each format: run it alone"]
fn a_million_damaged_files_give_errors() {
    all_formats(1_000_000);
}
