//! Packing keeps every token: random sequences, strategies and limits.

use oxidax::Error;
use oxidax::data::{HostArray, PackOptions, PackStrategy, Packed, Stream, TooLong};
use proptest::prelude::*;

/// Returns the sequences of packed rows, and checks segment ids, positions and padding.
fn unpacked(rows: &[Packed], length: usize, padding: i32) -> Vec<Vec<i32>> {
    let mut sequences = Vec::new();
    for row in rows {
        let [tokens, segments, positions] =
            [&row.tokens, &row.segment_ids, &row.positions].map(|a| a.to_vec::<i32>().unwrap());
        assert_eq!([tokens.len(), segments.len(), positions.len()], [length; 3]);
        let mut current: Vec<i32> = Vec::new();
        let mut last = 0;
        for at in 0..length {
            if segments[at] == 0 {
                assert_eq!((tokens[at], positions[at]), (padding, 0));
                assert!(segments[at..].iter().all(|&segment| segment == 0), "padding is last");
                continue;
            }
            if segments[at] != last {
                assert_eq!(segments[at], last + 1, "segments count from 1");
                last = segments[at];
                if !current.is_empty() {
                    sequences.push(std::mem::take(&mut current));
                }
            }
            assert_eq!(positions[at] as usize, current.len());
            current.push(tokens[at]);
        }
        assert!(!current.is_empty(), "a row has a sequence");
        sequences.push(current);
    }
    sequences
}

/// Returns the sequences that packing should contain.
fn expected(sequences: &[Vec<i32>], length: usize, too_long: TooLong) -> Vec<Vec<i32>> {
    let pieces = sequences.iter().flat_map(|sequence| match too_long {
        TooLong::Split => sequence.chunks(length).map(<[i32]>::to_vec).collect(),
        TooLong::Truncate => vec![sequence[..sequence.len().min(length)].to_vec()],
        TooLong::Error if sequence.len() <= length => vec![sequence.clone()],
        TooLong::Error => Vec::new(),
    });
    pieces.filter(|piece| !piece.is_empty()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_token_is_lost_or_repeated(
        lengths in prop::collection::vec(0usize..20, 0..60),
        length in 1usize..16,
        open_rows in 1usize..6,
        best in any::<bool>(),
        handling in 0..3,
    ) {
        let mut next = 0;
        let sequences: Vec<Vec<i32>> = lengths.iter().map(|&n| {
            next += n as i32;
            (next - n as i32..next).collect()
        }).collect();
        let strategy = if best { PackStrategy::BestFit } else { PackStrategy::FirstFit };
        let too_long = [TooLong::Error, TooLong::Truncate, TooLong::Split][handling as usize];
        let options = PackOptions { strategy, too_long, open_rows, padding: -7.0 };
        let arrays: Vec<Result<HostArray, Error>> =
            sequences.iter().map(|ids| HostArray::from_slice(ids, [ids.len()])).collect();
        let (mut rows, mut errors) = (Vec::new(), 0);
        for row in Stream::new(arrays).pack_with(length, options) {
            match row {
                Ok(row) => rows.push(row),
                Err(_) => errors += 1,
            }
        }
        let mut found = unpacked(&rows, length, -7);
        let mut expected = expected(&sequences, length, too_long);
        found.sort();
        expected.sort();
        prop_assert_eq!(found, expected);
        let refused = lengths.iter().filter(|&&n| n > length).count();
        prop_assert_eq!(errors, if too_long == TooLong::Error { refused } else { 0 });
    }
}

#[test]
fn packing_wastes_less_than_padding() {
    // Lengths of texts are skewed: most are short.
    let lengths = (0..2000u64).map(|n| 1 + (n * n * 7919 % 1013 * (n % 13)) as usize % 511);
    let lengths: Vec<usize> = lengths.collect();
    let tokens: usize = lengths.iter().sum();
    let rows = |strategy| {
        let texts: Vec<_> =
            lengths.iter().map(|&n| HostArray::from_slice(&vec![1i32; n], [n])).collect();
        let options = PackOptions { strategy, ..PackOptions::default() };
        Stream::new(texts).pack_with(512, options).count()
    };
    for strategy in [PackStrategy::FirstFit, PackStrategy::BestFit] {
        let used = tokens as f64 / (512 * rows(strategy)) as f64;
        assert!(used > 0.9, "{strategy:?}: {used} of the rows are tokens");
    }
}

#[test]
fn rows_are_batched_by_name() {
    let texts = [3, 2, 4, 1].map(|n| HostArray::from_slice(&vec![n as i32; n], [n]));
    let batch = Stream::new(texts).pack(5).batch(2).next().unwrap().unwrap();
    for array in [&batch.tokens, &batch.segment_ids, &batch.positions] {
        assert_eq!(array.shape().dims(), [2, 5]);
    }
}
