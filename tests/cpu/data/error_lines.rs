//! Errors of pipelines have the line of the program that added the stage.

use crate::data::support::{arrow_bytes, number, numbers_file, shown};
use expect_test::expect;
use oxidax::Error;
use oxidax::data::{
    self, ArrowOptions, BatchOptions, BatchPadding, CsvOptions, File, HostArray, InterleaveOptions,
    MixOptions, OnError, PackOptions, ParquetOptions, Remainder, Source, Stream, Synthetic,
    ToDevice,
};
use serde::Deserialize;
use std::fmt::Debug;

/// Returns the source text at the location with which an error ends.
fn code_at_the_end(error: &str) -> String {
    let (_, location) = error.rsplit_once("\n   --> ").unwrap_or(("", ""));
    let location = location.split("\n  help: ").next().unwrap_or_default();
    let [file, line, column] = location.split(':').collect::<Vec<_>>()[..] else {
        return format!("no location: {error}");
    };
    assert_eq!(file, file!(), "{error}");
    let number = |text: &str| text.parse::<usize>().unwrap() - 1;
    let line = include_str!("error_lines.rs").lines().nth(number(line)).unwrap();
    line[number(column)..].to_owned()
}

/// Checks that the first error of a stream has the line and column of a call of `stage`.
#[track_caller]
fn check<T: Debug>(stage: &str, mut stream: Stream<T>) {
    let error = stream.find_map(Result::err).unwrap_or_else(|| panic!("{stage} has no error"));
    checked(stage, &error.to_string());
}

#[track_caller]
fn checked(stage: &str, error: &str) {
    let code = code_at_the_end(error);
    assert!(code.starts_with(&format!("{stage}(")), "{stage}: {error}\n at: {code}");
}

fn numbers() -> Stream<usize> {
    Synthetic::new(9, Ok).stream()
}

fn arrays() -> Stream<HostArray> {
    numbers().map(|n| HostArray::from_slice(&vec![n as i32; n + 1], [n + 1]))
}

fn bad<T>(n: usize) -> Result<T, Error> {
    Err(Error::data("mine", n.to_string()))
}

fn panics<T>(_: usize) -> Result<T, Error> {
    panic!("mine")
}

#[test]
fn closures() {
    check("map", numbers().map(bad::<u8>));
    check("map", numbers().map(panics::<u8>));
    check("filter", numbers().filter(|_| panic!("mine")));
    for workers in [1, 3] {
        check("parallel_map", numbers().parallel_map(workers, bad::<u8>));
        check("parallel_map", numbers().parallel_map(workers, panics::<u8>));
    }
    // Errors of files in a closure, and of operations.
    check("map", numbers().map(|_| data::npy("no/such/file")));
    let records = || data::tfrecord(numbers_file("numbers", 0..9));
    check("parallel_map", records().parallel_map(2, |_| data::npy("no/such/file")));
    check(
        "map",
        records().map(|_| -> Result<u8, Error> { oxidax::core::throw(bad::<u8>(7).unwrap_err()) }),
    );
}

#[test]
fn stages_behind_keep_the_line() {
    check("map", numbers().map(bad::<u8>).prefetch(2).shuffle(3, 0).enumerate().take(9));
    check("map", numbers().map(bad::<usize>).parallel_map(2, Ok).skip(0).shard(0, 1).repeat(2));
    check("map", numbers().map(bad::<u8>).cache().on_error(OnError::Skip { at_most: 2 }));
    check("parallel_map", numbers().parallel_map(2, panics::<u8>).prefetch(1).prefetch(1));
    let streams = || [numbers().map(panics::<u8>)];
    check("map", data::mix(streams().map(|stream| (stream, 1.0)), MixOptions::default()));
    check("map", data::interleave(streams(), TURNS));
}

const TURNS: InterleaveOptions = InterleaveOptions { cycle_length: 2, block_length: 1 };

#[test]
fn batches() {
    let keep = BatchOptions { remainder: Remainder::Keep };
    check("batch", arrays().batch(2));
    check("batch", arrays().parallel_map(2, Ok).batch(2).prefetch(1));
    check("batch_with", arrays().batch_with(2, keep));
    let padding = || BatchPadding::with(0.0);
    check("pad_batch", arrays().pad_batch(2, padding().length(1)));
    let mixed = arrays().map(|array| match array.shape()[0] {
        2 => HostArray::from_slice(&[0.5f32], [1]),
        _ => Ok(array),
    });
    check("bucket_by_length", mixed.bucket_by_length(|a| a.shape()[0], &[99], 2, padding()));
    check("bucket_by_length", arrays().bucket_by_length(|a| a.shape()[0], &[3], 2, padding()));
    check("bucket_by_length", arrays().bucket_by_length(|_| panic!("mine"), &[3], 2, padding()));
    check("pack", arrays().pack(4));
    check("pack_with", arrays().pack_with(4, PackOptions::default()).prefetch(1));
}

#[test]
fn transfers() {
    #[derive(Debug)]
    struct Stuck(bool);
    impl ToDevice for Stuck {
        type Device = u8;
        fn to_device(self) -> Result<u8, Error> {
            if self.0 { panics(0) } else { bad(0) }
        }
    }
    for panics in [false, true] {
        check("to_device", numbers().map(move |_| Ok(Stuck(panics))).to_device(2));
        let stuck = numbers().map(move |_| Ok(Stuck(panics)));
        check("to_device_with", stuck.to_device_with(0, Default::default()));
    }
}

#[derive(Debug)]
struct Panics;

impl<'de> Deserialize<'de> for Panics {
    fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Panics, D::Error> {
        panic!("mine")
    }
}

#[test]
fn sources() {
    type Row = (u8, u8);
    let none = "no/such/file";
    check("data::tfrecord", data::tfrecord(none));
    check("data::csv::<Row>", data::csv::<Row>(none).prefetch(2).map(Ok));
    check("data::csv_with::<Row>", data::csv_with::<Row>(none, CsvOptions::default()));
    check("data::jsonl::<Row>", data::jsonl::<Row>(none));
    check("data::parquet::<Row>", data::parquet::<Row>(none));
    check("data::parquet_with::<Row>", data::parquet_with::<Row>(none, ParquetOptions::default()));
    check("data::arrow::<Row>", data::arrow::<Row>(none));
    check("data::arrow_with::<Row>", data::arrow_with::<Row>(none, ArrowOptions::default()));
    check("data::webdataset", data::webdataset(none));
    let file = || File::in_memory("one", b"a,b\n1,two\n".as_slice());
    check("data::csv::<Row>", data::csv::<Row>(file()));
    check("data::csv::<Panics>", data::csv::<Panics>(file()));
    check("data::jsonl::<Row>", data::jsonl::<Row>(file()).prefetch(1));
    let rows = File::in_memory("rows", arrow_bytes(&[1], 1, super::support::ArrowLayout::File));
    check("data::arrow::<Panics>", data::arrow::<Panics>(rows));
    check("stream", Synthetic::new(9, bad::<u8>).shuffled(1).stream());
    check("stream", Synthetic::new(9, panics::<u8>).stream().map(Ok).prefetch(2));
    check("Stream::new", Stream::new((0..9).map(panics::<u8>)));
    check("Stream::new", Stream::new((0..9).map(bad::<u8>)).prefetch(2));
    let epochs = |epoch: u64| match epoch {
        0 => 0..3,
        _ => panic!("mine"),
    };
    check("Stream::from_generator", Stream::from_generator(move |n| epochs(n).map(Ok)).repeat(2));
    check("Stream::new", Stream::new((0..2).map(Ok)).repeat(2));
    let futile = numbers().map(bad::<u8>).repeat_forever();
    checked("repeat_forever", &futile.last().unwrap().unwrap_err().to_string());
}

/// A function that is passed by name is called by the standard library.
#[test]
fn sources_in_a_list_have_the_line_of_the_next_stage() {
    let files = ["no", "file"];
    check("data::interleave", data::interleave(files.map(data::csv::<u8>), TURNS));
    let streams = files.iter().map(|file| data::csv::<u8>(*file));
    check("data::csv::<u8>", data::interleave(streams, TURNS));
}

#[test]
fn caches() {
    let folder = tempfile::tempdir().unwrap();
    let stream = numbers().map(|n| Ok(n as u64));
    check("cache_on_disk", stream.cache_on_disk(folder.path(), "1"));
}

#[test]
fn positions() {
    let refused = |built: Stream<usize>, other: Stream<usize>| {
        let mut built = built;
        built.by_ref().take(2).for_each(drop);
        other.resume(&built.position()).unwrap_err().to_string()
    };
    checked("shuffle", &refused(numbers().shuffle(3, 1), numbers().shuffle(4, 1).prefetch(1)));
    checked("take", &refused(numbers().skip(1), numbers().take(1).map(Ok).map(Ok).take(7)));
    let few = Stream::new((0..3).map(Ok));
    checked("Stream::new", &refused(Stream::new((0..9).map(Ok)).skip(3), few.skip(3)));
    let error = refused(numbers().enumerate().map(|(_, n)| Ok(n)), numbers().map(Ok));
    checked("stream", &error);
    let position = numbers().position();
    let mut stored = serde_json::to_value(&position).unwrap();
    stored.as_array_mut().unwrap().push(serde_json::json!(["more", [1]]));
    let position: data::Position = serde_json::from_value(stored).unwrap();
    checked("resume", &numbers().resume(&position).unwrap_err().to_string());
    let longer = Stream::new((0..3).map(Ok::<usize, Error>));
    checked("Stream::new", &longer.resume(&position).unwrap_err().to_string());
}

#[test]
fn printed_errors() {
    let fails = |bytes: Vec<u8>| match number(bytes)? {
        0 => Err(Error::data("decode", "no zero")),
        1 => panic!("mine"),
        2 => data::npy("no/such/file").map(drop),
        3 => oxidax::core::Array::from_slice(&[1, 2], [3]).map(drop),
        _ => Ok(()),
    };
    let file = numbers_file("numbers", 0..5);
    let mut stream = data::tfrecord(file).parallel_map(2, fails).prefetch(2);
    expect![[r#"
        error[data]: decode: numbers: at byte 0: no zero
           --> tests/cpu/data/error_lines.rs:214:43
        error[data]: map: numbers: at byte 20: the closure panicked: mine
           --> tests/cpu/data/error_lines.rs:214:43
        error[data]: map: numbers: at byte 40: error[io]: no/such/file: No such file or directory (os error 2)
           --> tests/cpu/data/error_lines.rs:214:43
        error[data]: map: numbers: at byte 60: error[shape]: from_slice: i32[3] takes 12 bytes (3 elements of 4), got 8
           --> tests/cpu/data/error_lines.rs:210:14
           --> tests/cpu/data/error_lines.rs:214:43
        ()"#]].assert_eq(&shown(&mut stream).join("\n"));
    let mut batches = arrays().batch(2);
    expect![[r#"
        error[data]: batch: example 0 is i32[1], example 1 is i32[2]
           --> tests/cpu/data/error_lines.rs:226:32
          help: `pad_batch` batches examples of different lengths"#]]
    .assert_eq(&batches.next().unwrap().unwrap_err().to_string());
    let mut packed = arrays().skip(6).pack(4);
    expect![[r#"
        error[data]: pack: a sequence of 7 tokens does not fit into a row of 4
           --> tests/cpu/data/error_lines.rs:232:39
          help: `TooLong::Split` or `TooLong::Truncate` accepts it"#]]
    .assert_eq(&packed.next().unwrap().unwrap_err().to_string());
}
