//! Training data: the tragedies of `examples/gpt2` and the digits of `examples/mlp`.

use super::model::Batch;
use anyhow::ensure;
use flate2::read::MultiGzDecoder;
use oxidax::prelude::*;
use std::io::Read;

const TEXT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../gpt2/data/tragedies.txt.gz");
const DIGITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../mlp/data/digits.csv.gz");

/// Returns the vocabulary size and batches of characters and next characters, `i32[b, t]` each,
/// from the whole text. The vocabulary size is rounded up to a multiple of 16, so that tables can
/// be split.
pub fn text(steps: usize, b: usize, t: usize) -> anyhow::Result<(usize, Vec<Batch>)> {
    let mut text = String::new();
    MultiGzDecoder::new(std::fs::File::open(TEXT)?).read_to_string(&mut text)?;
    let mut known: Vec<char> = text.chars().collect();
    known.sort_unstable();
    known.dedup();
    let number = |c| known.binary_search(&c).map_or(0, |at| at as i32);
    let tokens: Vec<i32> = text.chars().map(number).collect();
    ensure!(tokens.len() > t + 1, "{} characters are too few for a window of {t}", tokens.len());
    let batch = |at: usize| -> Result<Batch, Error> {
        // A prime stride visits nearly all offsets before it repeats.
        let place = |row: usize| (at * b + row) * 7919 % (tokens.len() - t - 1);
        let window = |from: usize| tokens[from..from + t].iter().copied();
        let rows = |later: usize| -> Vec<i32> {
            (0..b).flat_map(|row| window(place(row) + later)).collect()
        };
        Ok((Array::from_slice(&rows(0), [b, t])?, Array::from_slice(&rows(1), [b, t])?))
    };
    let batches = (0..steps).map(batch).collect::<Result<_, _>>()?;
    Ok((known.len().next_multiple_of(16), batches))
}

/// Returns images `f32[b, 64]` and labels `i32[b]` in file order, repeating the file.
pub fn digits(steps: usize, b: usize) -> anyhow::Result<Vec<Batch>> {
    let digits = data::digits(DIGITS)?;
    let batch = |at: usize| -> Result<Batch, Error> {
        let rows = (at * b..(at + 1) * b).map(|row| row % digits.len());
        let batch = digits.select(rows).all()?;
        Ok((batch.images, batch.labels))
    };
    Ok((0..steps).map(batch).collect::<Result<_, _>>()?)
}
