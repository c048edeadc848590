//! Damaged files of every format are read or give an error. They cause no panic, no hang, and no
//! allocation that exceeds the file's size.
//!
//! Each format has a few intact files. `FILES` mutations of them are read: truncated, with flipped
//! bits, overwritten bytes, huge or negative lengths, and repeated or removed parts. Memory use is
//! measured for the whole process, so this test runs in its own process.

pub(crate) mod mutations;
#[path = "../../cpu/data/support.rs"]
mod support;

use crate::alone::alone;
use mutations::{damaged, most_used};
use oxidax::data::{
    self, File, ImageFolder, Npy, Position, Rows, Source, TfExample, TfRecords, TokenWidth, Tokens,
};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use support::{examples, gzipped, tfrecord_bytes};

/// Damaged files of each intact one.
const FILES: u64 = 400;
/// Limit in KiB. More memory than this means that a length was trusted: all intact files are below
/// 2 KiB.
const MAX_KIB: u64 = 16 << 10;

fn fixture(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cpu/data/files"));
    std::fs::read(folder.join(name)).unwrap()
}

/// Reads damaged copies of the intact files in memory.
#[track_caller]
fn fuzz(good: &[Vec<u8>], read: impl Fn(File) -> Result<(), oxidax::Error>) {
    fuzz_bytes(good, |bytes| read(File::in_memory("file", bytes)));
}

/// Reads damaged copies with functions that accept only files on disk.
#[track_caller]
fn fuzz_on_disk(good: &[Vec<u8>], path: &Path, read: impl Fn() -> Result<(), oxidax::Error>) {
    fuzz_bytes(good, |bytes| {
        std::fs::write(path, bytes).unwrap();
        read()
    });
}

/// Reads damaged copies of the intact files, and counts the errors.
#[track_caller]
fn fuzz_bytes(good: &[Vec<u8>], read: impl Fn(&[u8]) -> Result<(), oxidax::Error>) {
    let (before, place) = (most_used(), std::panic::Location::caller());
    let mut noticed = 0;
    for (number, good) in good.iter().enumerate() {
        read(good).unwrap();
        for seed in 0..FILES {
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
    assert!(noticed > FILES / 10, "{place}: only {noticed} errors");
    if let (Some(before), Some(after)) = (before, most_used()) {
        let more = after - before;
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

fn tfrecord_files() {
    fuzz(&[tfrecords(), gzipped(&tfrecords())], |file| drained(data::tfrecord(file)));
    fuzz(&[tfrecords()], |file| drained(TfRecords::open(file)?.stream()));
}

fn examples_in_sound_records() {
    let good = examples(1)[0].encode();
    fuzz_bytes(&[good], |bytes| {
        let example = TfExample::parse(bytes)?;
        example.array("image", oxidax::DType::U8, [12])?;
        example.array("label", oxidax::DType::I32, [2])?;
        example.array("weights", oxidax::DType::F32, [3]).map(drop)
    });
}

fn csv_files() {
    let good = b"a,b,c\n1,\"x, y\",2.5\n2,\"line\nend\",\n3,z,1e3\n".to_vec();
    fuzz(&[good.clone(), gzipped(&good)], |file| {
        drained(data::csv::<(u32, String, Option<f32>)>(file))
    });
}

fn jsonl_files() {
    let good =
        b"{\"a\": [1, 2, 3], \"b\": {\"c\": \"\\u00e9\"}}\n[[[[1]]]]\n\"text\"\n12.5e3\n".to_vec();
    fuzz(&[good.clone(), gzipped(&good)], |file| drained(data::jsonl::<serde_json::Value>(file)));
}

fn npy_files() {
    let good =
        ["f32.npy", "fortran.npy", "big_endian.npy", "version2.npy", "version3.npy"].map(fixture);
    fuzz(&good, |file| data::npy(file).map(drop));
    let good = ["f32.npy", "big_endian.npy", "version3.npy", "bool.npy"].map(fixture);
    fuzz(&good, |file| drained(Npy::open(file)?.indexed().stream().take(1000)));
}

fn npz_files() {
    let good = ["stored.npz", "deflated.npz"].map(fixture);
    fuzz(&good, |file| drained(Rows::new(data::npz(file)?)?.stream().take(1000)));
}

fn safetensors_files() {
    fuzz(&[fixture("two.safetensors")], |file| {
        drained(Rows::new(data::safetensors(file)?)?.stream().take(1000))
    });
}

fn token_files() {
    let good: Vec<u8> = (0u32..40).flat_map(u32::to_le_bytes).collect();
    fuzz(&[good], |file| drained(Tokens::open(file, TokenWidth::U32, 7)?.stream()));
}

fn idx_files() {
    let mut images = vec![0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3];
    images.extend([0, 51, 255, 1, 2, 3]);
    let labels = [0, 0, 8, 1, 0, 0, 0, 2, 7, 9];
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("train-labels-idx1-ubyte"), labels).unwrap();
    let path = folder.path().join("train-images-idx3-ubyte");
    fuzz_on_disk(&[images.clone(), gzipped(&images)], &path, || data::idx(folder.path()).map(drop));
}

fn image_files() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("class")).unwrap();
    let path = folder.path().join("class").join("image.png");
    let good = ["halves.png", "halves.jpg", "grey.png"].map(fixture);
    fuzz_on_disk(&good, &path, || {
        let images = ImageFolder::open(folder.path())?.stream();
        drained(images.map(|file| data::decode_image(&file.bytes, 4, 4)))
    });
}

fn positions() {
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
    for seed in 0..FILES {
        let bytes = damaged(&good, &mut Xoshiro256PlusPlus::seed_from_u64(seed));
        if let Ok(position) = serde_json::from_slice::<Position>(&bytes) {
            drop(build().resume(&position).map(|stream| drained(stream.take(1000))));
        }
    }
}

#[test]
fn damaged_data_files_give_errors() {
    alone("damaged_data::damaged_data_files_give_errors", || {
        tfrecord_files();
        examples_in_sound_records();
        csv_files();
        jsonl_files();
        npy_files();
        npz_files();
        safetensors_files();
        token_files();
        idx_files();
        image_files();
        positions();
    });
}
