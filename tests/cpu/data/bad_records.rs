//! Bad records, panics and abandoned streams: errors with their origin, and no hang.

use crate::data::support::{examples, messages, number, numbers_file, tfrecord_bytes};
use expect_test::expect;
use oxidax::Error;
use oxidax::data::{self, File, OnError, Source, Stream, Synthetic, TfExample};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn damaged(at: usize) -> File {
    let records: Vec<Vec<u8>> = (0..4i32).map(|n| n.to_le_bytes().to_vec()).collect();
    let mut bytes = tfrecord_bytes(&records);
    bytes[at] ^= 1;
    File::in_memory("four.tfrecord", bytes)
}

#[test]
fn reading_continues_after_damaged_bytes() {
    // Records take 20 bytes here: the second begins at 20, its bytes at 32.
    let found = messages(&mut data::tfrecord(damaged(33)).map(number));
    expect![[r#"
        0
        error[io]: four.tfrecord: at byte 20: the 4 bytes of the record have the checksum 0x88854b9e, stored is 0x6582151d
        2
        3"#]]
    .assert_eq(&found.join("\n"));
    let skipping = data::tfrecord(damaged(33)).on_error(OnError::Skip { at_most: 1 });
    let instruments = skipping.instruments();
    assert_eq!(skipping.count(), 3);
    assert_eq!(instruments.report().skipped(), 1);
}

#[test]
fn reading_ends_after_a_damaged_length() {
    let found = messages(&mut data::tfrecord(damaged(21)).map(number));
    expect![[r#"
        0
        error[io]: four.tfrecord: at byte 20: the checksum of the record's length is wrong; nothing after it can be read"#]]
    .assert_eq(&found.join("\n"));
}

#[test]
fn errors_of_closures_name_the_record() {
    let fails = |bytes: Vec<u8>| match number(bytes)? {
        1 => panic!("mine {}", 1),
        2 => Err(Error::data("decode", "no two")),
        n => Ok(n),
    };
    let expected = expect![[r#"
        0
        error[data]: map: numbers: at byte 20: the closure panicked: mine 1
        error[data]: decode: numbers: at byte 40: no two
        3
        4"#]];
    let file = || numbers_file("numbers", 0..5);
    expected.assert_eq(&messages(&mut data::tfrecord(file()).map(fails)).join("\n"));
    expected.assert_eq(&messages(&mut data::tfrecord(file()).parallel_map(3, fails)).join("\n"));
    let behind = data::tfrecord(file()).parallel_map(2, fails).prefetch(1);
    expected.assert_eq(&messages(&mut { behind }).join("\n"));
}

#[test]
fn origin_survives_shuffling() {
    let mut records: Vec<Vec<u8>> = examples(20).iter().map(TfExample::encode).collect();
    records[7] = vec![0xff; 9];
    let start: usize = records[..7].iter().map(|record| record.len() + 16).sum();
    let file = File::in_memory("examples", tfrecord_bytes(&records));
    let parsed = data::tfrecord(file).shuffle(20, 3).parallel_map(2, |b| TfExample::parse(&b));
    let errors: Vec<String> =
        parsed.filter_map(|item| item.err()).map(|error| error.to_string()).collect();
    let expected = format!(
        "error[data]: TfExample::parse: examples: at byte {start}: the 9 bytes are not a tf.train.Example: "
    );
    assert_eq!(errors.len(), 1);
    assert!(errors[0].starts_with(&expected), "{}", errors[0]);
    let mut filtered = data::tfrecord(numbers_file("n", 0..1)).filter(|_| panic!("no"));
    assert_eq!(
        messages(&mut filtered),
        ["error[data]: filter: n: at byte 0: the closure panicked: no"]
    );
}

#[test]
fn policy_limits_skipped_errors() {
    let odd = |n: usize| match n % 2 {
        0 => Ok(n),
        _ => Err(Error::data("test", format!("odd {n}"))),
    };
    let numbers = || Synthetic::new(10, Ok).stream().map(odd);
    let kept = |policy| messages(&mut numbers().on_error(policy));
    assert_eq!(kept(OnError::Stop), ["0", "error[data]: test: odd 1"]);
    assert_eq!(kept(OnError::Skip { at_most: 2 }), ["0", "2", "4", "error[data]: test: odd 5"]);
    assert_eq!(kept(OnError::Skip { at_most: 5 }), ["0", "2", "4", "6", "8"]);
}

#[test]
fn repeating_only_errors_ends() {
    let fails = |n: usize| -> Result<usize, Error> { Err(Error::data("test", n.to_string())) };
    let forever = Synthetic::new(2, fails).stream().repeat_forever();
    let found = messages(&mut forever.take(9));
    expect![[r#"
        error[data]: test: 0
        error[data]: test: 1
        error[data]: repeat: all 2 records of epoch 0 failed; no further epoch starts"#]]
    .assert_eq(&found.join("\n"));
    assert!(messages(&mut Synthetic::new(0, Ok).stream().repeat_forever()).is_empty());
    let once = Stream::new((0..2).map(Ok)).repeat(2);
    let found = messages(&mut { once });
    assert!(found[2].contains("an iterator cannot restart for epoch 1"), "{}", found[2]);
    assert_eq!(found.len(), 3);
}

#[test]
fn missing_file_is_a_single_error() {
    let found = messages(&mut data::tfrecord("no/such/file"));
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("error[io]: no/such/file: "), "{}", found[0]);
}

/// Counts its live clones: a thread that holds one has not ended.
fn alive(witness: &Arc<AtomicUsize>) -> usize {
    Arc::strong_count(witness) - 1
}

#[test]
fn dropping_a_pipeline_early_stops_its_threads() {
    let witness = Arc::new(AtomicUsize::new(0));
    let (made, mapped) = (witness.clone(), witness.clone());
    let endless = Stream::from_generator(move |_| {
        let made = made.clone();
        std::iter::repeat_with(move || Ok(made.fetch_add(1, Ordering::Relaxed)))
    });
    let mut stream = endless
        .parallel_map(3, move |n| {
            mapped.load(Ordering::Relaxed);
            Ok(n + 1)
        })
        .shuffle(10, 0)
        .prefetch(2)
        .map(Ok)
        .prefetch(2);
    for _ in 0..5 {
        stream.next().unwrap().unwrap();
    }
    assert!(alive(&witness) > 0);
    drop(stream);
    assert_eq!(alive(&witness), 0);
}

#[test]
fn work_in_flight_is_bounded() {
    let started = Arc::new(AtomicUsize::new(0));
    let (gate, counter) = (Arc::new(std::sync::Barrier::new(2)), started.clone());
    let (inside, read) = (gate.clone(), Arc::new(AtomicUsize::new(0)));
    let counted = read.clone();
    let endless =
        Stream::new(std::iter::repeat_with(move || Ok(counted.fetch_add(1, Ordering::Relaxed))));
    let mut stream = endless.parallel_map(2, move |n| {
        // The first item is blocked until the test has looked.
        if counter.fetch_add(1, Ordering::Relaxed) == 0 {
            inside.wait();
        }
        Ok(n)
    });
    let consumer = std::thread::spawn(move || {
        let first = stream.next();
        (first, stream)
    });
    gate.wait();
    let (first, stream) = consumer.join().unwrap();
    assert_eq!(first.unwrap().unwrap(), 0);
    // Two workers with two chunks each, dispatched twice, and the chunk that was taken.
    assert!(read.load(Ordering::Relaxed) <= 4 + 64 * 4 + 1, "{read:?}");
    drop(stream);
}

#[test]
fn zero_workers_and_lengths_are_refused() {
    let refused = |f: &dyn Fn() -> Stream<u32>| oxidax::catch(f).unwrap_err().to_string();
    let numbers = || Stream::new((0..3).map(Ok));
    let error = refused(&|| numbers().parallel_map(0, Ok));
    assert!(error.starts_with("error[value]: parallel_map: needs at least 1 worker"), "{error}");
    assert!(error.contains(file!()), "{error}");
    let turns = data::InterleaveOptions { cycle_length: 0, block_length: 1 };
    let error = refused(&|| data::interleave([numbers()], turns));
    assert!(error.starts_with("error[value]: interleave: "), "{error}");
    let error = refused(&|| numbers().shard(3, 3));
    assert!(error.starts_with("error[value]: shard: there is no shard 3 of 3"), "{error}");
}
