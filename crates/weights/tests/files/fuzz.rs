//! Mutated files: each is read or refused, without panic, hang or an allocation that the file does
//! not justify.
//!
//! `OXIDAX_FUZZ_WEIGHTS=0..1000000` sets the seeds; `cargo xtask fuzz --weights` does.

use super::mutation::{Random, mutate};
use super::recorded::bytes;
use oxidax_weights::{Result, WeightFormat, Weights};
use std::ops::Range;

/// Returns the seeds of this run.
pub fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("OXIDAX_FUZZ_WEIGHTS") else { return 0..400 };
    let (first, end) = text.split_once("..").unwrap();
    first.parse().unwrap()..end.parse().unwrap()
}

/// Returns the largest size of the process's memory so far, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:"));
    let number = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
    number.unwrap_or_default() << 10
}

/// Growth of the process that all inputs of a test may cause together. The tests of this binary run
/// in threads, whose allocator reserves 64 MiB each.
const MAX_GROWTH: u64 = 1 << 30;

/// Largest tensor that the tests read.
const MAX_READ: u64 = 16 << 20;

/// Opens weights of `size` stored bytes and reads every tensor. Returns true if they were opened.
pub fn exercise(opened: Result<Weights>, size: usize) -> bool {
    let Ok(weights) = opened.inspect_err(|error| assert!(!error.message().is_empty())) else {
        return false;
    };
    for (name, tensor) in weights.tensors() {
        assert!(name.len() <= 1 << 16);
        // Arrays of zarr without chunks are zeros of any size up to a bound.
        if tensor.dtype().byte_len(tensor.shape()).is_none_or(|bytes| bytes > MAX_READ) {
            continue;
        }
        if let Ok(bytes) = tensor.read() {
            if weights.format() != WeightFormat::Orbax {
                // Deflate shrinks zeros to a thousandth, and views may repeat a storage.
                assert!(bytes.len() <= 1100 * size + (4 << 20), "{name}: {}", bytes.len());
            }
            let _floats = tensor.read_f32();
        }
    }
    true
}

/// Mutates files of one reader.
pub fn fuzz(files: &[Vec<u8>]) {
    let (before, mut opened) = (peak(), 0);
    for seed in seeds() {
        let mut random = Random::new(seed);
        let mut copy = files[random.below(files.len())].clone();
        mutate(&mut copy, &files[random.below(files.len())], &mut random);
        let size = copy.len();
        opened += u64::from(exercise(Weights::from_bytes(copy), size));
    }
    let growth = peak() - before;
    assert!(growth <= MAX_GROWTH, "the process grew by {growth} bytes");
    assert!(opened > 0, "no mutated file could be opened, so nothing behind headers was tested");
    eprintln!("{} inputs, {opened} opened", seeds().count());
}

#[test]
fn mutated_pytorch_files() {
    fuzz(&["torch_views.pt", "torch_dtypes.pt", "torch_module.pt", "torch_script.pt"].map(bytes));
}

#[test]
fn mutated_legacy_pytorch_files() {
    fuzz(&["torch_views_legacy.pt"].map(bytes));
}

#[test]
fn mutated_gguf_files() {
    fuzz(&["gguf_little.gguf", "gguf_big.gguf", "gguf_types.gguf"].map(bytes));
}

#[test]
fn mutated_safetensors_files() {
    fuzz(&["torch_views", "numpy", "flax"].map(|n| bytes(&format!("{n}.expected.safetensors"))));
}

#[test]
fn mutated_npy_files() {
    fuzz(&["numpy.npy"].map(bytes));
}

#[test]
fn mutated_npz_files() {
    fuzz(&["numpy.npz", "numpy_compressed.npz"].map(bytes));
}

#[test]
fn mutated_flax_files() {
    fuzz(&["flax.msgpack"].map(bytes));
}

/// An index and the files that it lists: all are mutated.
#[test]
fn mutated_indices() {
    let index = r#"{"weight_map":{"values":"a","model.whole":"b","params.dense.bias":"c"}}"#;
    let files = [
        ("model.safetensors.index.json", index.as_bytes().to_vec()),
        ("a", bytes("gguf_quantized.expected.safetensors")),
        ("b", bytes("torch_views.pt")),
        ("c", bytes("flax.msgpack")),
    ];
    let mut opened = 0;
    for seed in seeds() {
        let mut random = Random::new(seed);
        let mut copies = files.clone();
        for _ in 0..1 + random.below(2) {
            let (at, other) = (random.below(copies.len()), random.below(copies.len()));
            let other = copies[other].1.clone();
            mutate(&mut copies[at].1, &other, &mut random);
        }
        let size = copies.iter().map(|file| file.1.len()).sum();
        let copies = copies.map(|(name, bytes)| (name.to_owned(), bytes));
        opened += u64::from(exercise(Weights::from_files(copies.into_iter().collect()), size));
    }
    assert!(opened > 0);
    eprintln!("{} inputs, {opened} opened", seeds().count());
}
