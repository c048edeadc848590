//! Items before and after resuming equal the whole stream, for random pipelines and positions.

use crate::data::support::{
    ArrowLayout, arrow_bytes, gzipped, number, numbers_file, parquet_bytes, shown, tar_bytes,
};
use oxidax::Error;
use oxidax::data::{
    self, ArrowOptions, BatchOptions, BatchPadding, BucketSizes, File, HostArray,
    InterleaveOptions, MixEnd, MixOptions, OnError, PackOptions, PackStrategy, Parallelism,
    ParquetOptions, Position, RecordBatchShard, Remainder, RowGroupShard, Source, Stream,
    Synthetic, TooLong,
};
use proptest::prelude::*;
use std::path::Path;

/// The start of a pipeline.
#[derive(Clone, Debug)]
enum Start {
    Generator,
    Index { shuffled: bool, shards: usize },
    Files { cycle_length: usize, block_length: usize },
    Parquet { rows_per_group: usize, shards: usize },
    Arrow { layout: ArrowLayout, rows_per_batch: usize, shards: usize },
    Tar { gzip: bool },
}

/// A stage from arrays to arrays.
#[derive(Clone, Debug)]
enum Step {
    Map,
    ParallelMap(Parallelism),
    FailSome(i32),
    Filter(i32),
    Enumerate,
    Shuffle(usize, u64),
    Repeat(u64),
    Batch(usize, Remainder),
    CollatePadded(usize, Remainder),
    Bucket(usize, Remainder),
    BucketBySize([usize; 2], Remainder),
    MaxTokens(usize, Remainder),
    Pack { length: usize, options: PackOptions },
    Mix { weight: f64, options: MixOptions },
    Cache,
    CacheOnDisk,
    Take(u64),
    Skip(u64),
    Shard(usize, usize),
    OnError(u64),
    Prefetch(Parallelism),
}

fn array(n: i32) -> Result<HostArray, Error> {
    // Lengths from 1 to 4.
    let len = n.rem_euclid(4) as usize + 1;
    HostArray::from_slice(&vec![n; len], [len])
}

fn first(array: &HostArray) -> i32 {
    i32::from_ne_bytes(array.as_bytes()[..4].try_into().unwrap())
}

fn begun(start: &Start, count: i32) -> Stream<HostArray> {
    match *start {
        Start::Generator => {
            Stream::from_generator(move |epoch| (0..count).map(move |n| array(n + epoch as i32)))
        }
        Start::Index { shuffled, shards } => {
            let source = Synthetic::new(count as usize, |index| array(index as i32)).indexed();
            let source = if shuffled { source.shuffled(5) } else { source };
            source.shard(shards / 2, shards).stream()
        }
        Start::Parquet { rows_per_group, shards } => {
            let numbers: Vec<i64> = (0..i64::from(count)).collect();
            let file = File::in_memory("numbers.parquet", parquet_bytes(&numbers, rows_per_group));
            let row_groups = Some(RowGroupShard { index: shards / 2, count: shards });
            let options = ParquetOptions { row_groups, columns: Some(vec!["number".into()]) };
            data::parquet_with(file, options).map(|(n,): (i32,)| array(n))
        }
        Start::Arrow { layout, rows_per_batch, shards } => {
            let numbers: Vec<i64> = (0..i64::from(count)).collect();
            let file = File::in_memory("numbers", arrow_bytes(&numbers, rows_per_batch, layout));
            let record_batches = Some(RecordBatchShard { index: shards / 2, count: shards });
            let columns = Some(vec!["word".into(), "number".into()]);
            data::arrow_with(file, ArrowOptions { record_batches, columns }).map(
                |(word, n): (String, i32)| {
                    assert_eq!(word, format!("word {}", n % 5));
                    array(n)
                },
            )
        }
        Start::Tar { gzip } => {
            let bytes = tar_bytes(count);
            let bytes = if gzip { gzipped(&bytes) } else { bytes };
            data::webdataset(File::in_memory("numbers.tar", bytes))
                .map(|sample| array(sample.json("cls")?))
        }
        Start::Files { cycle_length, block_length } => {
            let turns = InterleaveOptions { cycle_length, block_length };
            let bounds = [0, count / 4, count / 3, count];
            let files = bounds.windows(2).map(|pair| numbers_file("numbers", pair[0]..pair[1]));
            data::interleave(files.map(data::tfrecord), turns).map(|bytes| array(number(bytes)?))
        }
    }
}

/// Builds a pipeline whose cache files are in the folder `caches`.
fn built(start: &Start, count: i32, steps: &[Step], caches: &Path) -> Stream<HostArray> {
    let padding = |remainder| BatchPadding::with(-1.0).remainder(remainder);
    let some = |at: i32| {
        move |array: HostArray| {
            if first(&array) % 7 == at {
                Err(Error::data("test", format!("bad {}", first(&array))))
            } else {
                Ok(array)
            }
        }
    };
    steps.iter().enumerate().fold(begun(start, count), |stream, (at, step)| match *step {
        Step::Map => stream.map(|a| array(first(&a) + 1)),
        Step::ParallelMap(workers) => stream.parallel_map(workers, |a| array(first(&a) * 3)),
        Step::FailSome(at) => stream.map(some(at)),
        Step::Filter(at) => stream.filter(move |array| first(array) % 3 != at),
        Step::Enumerate => stream.enumerate().map(|(n, a)| array(n as i32 ^ first(&a))),
        Step::Shuffle(capacity, seed) => stream.shuffle(capacity, seed),
        Step::Repeat(epochs) => stream.repeat(epochs),
        Step::Batch(size, remainder) => stream.batch_with(size, BatchOptions { remainder }),
        Step::CollatePadded(size, remainder) => stream.pad_batch(size, padding(remainder)),
        Step::Bucket(size, remainder) => {
            stream.bucket_by_length(|a| a.shape()[0], &[1, 3], size, padding(remainder))
        }
        Step::BucketBySize(sizes, remainder) => {
            stream.bucket_by_length(|a| a.shape()[0], &[1, 3], sizes, padding(remainder))
        }
        Step::MaxTokens(tokens, remainder) => {
            let sizes = BucketSizes::MaxTokens(tokens);
            stream.bucket_by_length(|a| a.shape()[0], &[2, 4], sizes, padding(remainder))
        }
        Step::Pack { length, options } => stream.pack_with(length, options).map(|row| {
            let [tokens, segments, positions] =
                [row.tokens, row.segment_ids, row.positions].map(|a| a.to_vec::<i32>());
            let all = [tokens?, segments?, positions?].concat();
            HostArray::from_slice(&all, [all.len()])
        }),
        Step::Mix { weight, options } => {
            let other =
                Stream::from_generator(|epoch| (0..5).map(move |n| array(n * epoch as i32)));
            data::mix([(stream, 1.0), (other, weight)], options).take(50)
        }
        Step::Cache => stream.cache(),
        Step::CacheOnDisk => {
            let path = caches.join(format!("{at}.cache"));
            stream.cache_on_disk(path, &format!("{start:?} {count} {steps:?}"))
        }
        Step::Take(count) => stream.take(count),
        Step::Skip(count) => stream.skip(count),
        Step::Shard(index, count) => stream.shard(index % count, count),
        Step::OnError(at_most) => stream.on_error(OnError::Skip { at_most }),
        Step::Prefetch(count) => stream.prefetch(count),
    })
}

fn start() -> impl Strategy<Value = Start> {
    prop_oneof![
        Just(Start::Generator),
        (any::<bool>(), 1usize..4).prop_map(|(shuffled, shards)| Start::Index { shuffled, shards }),
        (1usize..4, 1usize..3)
            .prop_map(|(cycle_length, block_length)| Start::Files { cycle_length, block_length }),
        (1usize..20, 1usize..4)
            .prop_map(|(rows_per_group, shards)| Start::Parquet { rows_per_group, shards }),
        (prop_oneof![Just(ArrowLayout::File), Just(ArrowLayout::Stream)], 1usize..20, 1usize..4)
            .prop_map(|(layout, rows_per_batch, shards)| Start::Arrow {
                layout,
                rows_per_batch,
                shards
            }),
        any::<bool>().prop_map(|gzip| Start::Tar { gzip }),
    ]
}

fn pack_options() -> impl Strategy<Value = PackOptions> {
    let strategy = prop_oneof![Just(PackStrategy::FirstFit), Just(PackStrategy::BestFit)];
    let too_long = prop_oneof![Just(TooLong::Error), Just(TooLong::Truncate), Just(TooLong::Split)];
    (strategy, too_long, 1usize..5).prop_map(|(strategy, too_long, open_rows)| PackOptions {
        strategy,
        too_long,
        open_rows,
        padding: -1.0,
    })
}

fn parallelism(least: usize) -> impl Strategy<Value = Parallelism> {
    prop_oneof![
        (least..5).prop_map(Parallelism::Fixed),
        Just(Parallelism::Auto),
        (1usize..4).prop_map(Parallelism::AutoUpTo),
    ]
}

fn mix_end() -> impl Strategy<Value = MixEnd> {
    prop_oneof![Just(MixEnd::FirstExhausted), Just(MixEnd::AllExhausted), Just(MixEnd::Repeat)]
}

fn step() -> impl Strategy<Value = Step> {
    let remainder = || prop_oneof![Just(Remainder::Drop), Just(Remainder::Keep)];
    prop_oneof![
        Just(Step::Map),
        parallelism(1).prop_map(Step::ParallelMap),
        (0..7).prop_map(Step::FailSome),
        (0..3).prop_map(Step::Filter),
        Just(Step::Enumerate),
        (0usize..20, 0u64..3).prop_map(|(capacity, seed)| Step::Shuffle(capacity, seed)),
        (0u64..4).prop_map(Step::Repeat),
        (1usize..5, remainder()).prop_map(|(size, rest)| Step::Batch(size, rest)),
        (1usize..5, remainder()).prop_map(|(size, rest)| Step::CollatePadded(size, rest)),
        (1usize..5, remainder()).prop_map(|(size, rest)| Step::Bucket(size, rest)),
        ((1usize..5, 1usize..5), remainder())
            .prop_map(|((a, b), rest)| Step::BucketBySize([a, b], rest)),
        (4usize..20, remainder()).prop_map(|(tokens, rest)| Step::MaxTokens(tokens, rest)),
        (1usize..9, pack_options()).prop_map(|(length, options)| Step::Pack { length, options }),
        (0.1..3.0f64, 0u64..3, mix_end()).prop_map(|(weight, seed, end)| Step::Mix {
            weight,
            options: MixOptions { seed, end },
        }),
        Just(Step::Cache),
        Just(Step::CacheOnDisk),
        (0u64..60).prop_map(Step::Take),
        (0u64..10).prop_map(Step::Skip),
        (0usize..3, 1usize..4).prop_map(|(index, count)| Step::Shard(index, count)),
        (0u64..9).prop_map(Step::OnError),
        parallelism(0).prop_map(Step::Prefetch),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn head_and_resumed_tail_equal_the_whole(
        start in start(),
        count in 0i32..40,
        steps in prop::collection::vec(step(), 0..7),
        stops in [0.0..1.0f64, 0.0..1.0f64],
    ) {
        let caches = tempfile::tempdir().unwrap();
        let build = || built(&start, count, &steps, caches.path());
        let whole = shown(&mut build());
        prop_assert_eq!(&shown(&mut build()), &whole, "two runs differ");
        let mut stops = stops.map(|stop| (stop * (whole.len() + 1) as f64) as usize);
        stops.sort_unstable();

        let mut stream = build();
        let mut given = Vec::new();
        for stop in stops {
            while given.len() < stop {
                let item = stream.next().unwrap();
                given.push(item.map_or_else(|e| e.to_string(), |array| format!("{array:?}")));
            }
            let stored = serde_json::to_string(&stream.position()).unwrap();
            let position: Position = serde_json::from_str(&stored).unwrap();
            stream = build().resume(&position).unwrap();
        }
        given.extend(shown(&mut stream));
        prop_assert_eq!(given, whole);
    }
}

#[test]
fn workers_and_depths_may_change() {
    let build = |workers, depth| {
        let records = Synthetic::new(500, |index| Ok(index as u64)).shuffled(1).stream().repeat(2);
        let mapped = match workers {
            0 => records.map(|n| Ok(n * n)),
            workers => records.parallel_map(workers, |n| Ok(n * n)),
        };
        mapped.shuffle(50, 3).prefetch(depth)
    };
    let whole: Vec<u64> = build(0, 1).collect::<Result<_, _>>().unwrap();
    let mut stream = build(3, 4);
    let head: Vec<u64> = stream.by_ref().take(333).collect::<Result<_, _>>().unwrap();
    let tail = build(0, 0).resume(&stream.position()).unwrap();
    let tail: Vec<u64> = tail.collect::<Result<_, _>>().unwrap();
    assert_eq!([head, tail].concat(), whole);
}

#[test]
fn positions_are_small() {
    let build = || {
        let files = (0..8).map(|n| numbers_file("numbers", 1000 * n..1000 * (n + 1)));
        let turns = InterleaveOptions { cycle_length: 4, block_length: 1 };
        data::interleave(files.map(data::tfrecord), turns)
            .shuffle(1000, 0)
            .repeat_forever()
            .parallel_map(2, |bytes| array(number(bytes)?))
            .pad_batch(8, BatchPadding::with(0.0))
            .prefetch(2)
    };
    let mut stream = build();
    for _ in 0..700 {
        stream.next().unwrap().unwrap();
    }
    let stored = serde_json::to_string(&stream.position()).unwrap();
    assert!(stored.len() < 400, "{} bytes: {stored}", stored.len());
}

#[test]
fn mismatched_positions_are_refused() {
    let numbers = |len: usize| Synthetic::new(len, Ok).shuffled(1).stream();
    let mut stream = numbers(20).shuffle(5, 9);
    stream.next();
    let position = stream.position();
    let refused = |stream: Stream<usize>| stream.resume(&position).unwrap_err().to_string();
    for (stream, expected) in [
        (numbers(20), "stage 0 of the position is `shuffle`, of this pipeline `index`"),
        (numbers(20).shuffle(6, 9), "the capacity of `shuffle` was 5, in this pipeline it is 6"),
        (numbers(20).shuffle(5, 8), "the seed of `shuffle` was 9, in this pipeline it is 8"),
        (
            numbers(21).shuffle(5, 9),
            "the number of records of `index` was 20, in this pipeline it is 21",
        ),
    ] {
        let error = refused(stream);
        assert!(error.starts_with("error[data]: resume: "), "{error}");
        assert!(error.contains(expected), "{error}");
    }
    let iterator = |count: u32| Stream::new((0..count).map(Ok)).shuffle(4, 0);
    let mut stream = iterator(30);
    (0..20).for_each(|_| drop(stream.next()));
    let error = iterator(9).resume(&stream.position()).unwrap_err().to_string();
    assert!(
        error.contains("there are only 9") || error.contains("the data has changed"),
        "{error}"
    );
}

#[test]
fn corrupt_positions_do_not_panic() {
    let build = || {
        let turns = InterleaveOptions { cycle_length: 2, block_length: 1 };
        let streams = (0..3).map(|_| Synthetic::new(9, |n| array(n as i32)).stream());
        data::interleave(streams, turns).shuffle(4, 0).bucket_by_length(
            |array| array.shape()[0],
            &[4],
            2,
            BatchPadding::with(0.0),
        )
    };
    let mut stream = build();
    stream.next();
    let stored = serde_json::to_value(stream.position()).unwrap();
    let mut seen = 0;
    for stage in 0..stored.as_array().unwrap().len() {
        for at in 0..stored[stage][1].as_array().unwrap().len() {
            for number in [0, 1, 7, 1 << 20] {
                let mut changed = stored.clone();
                changed[stage][1][at] = number.into();
                let position: Position = serde_json::from_value(changed).unwrap();
                if let Err(error) = build().resume(&position) {
                    assert!(error.to_string().starts_with("error[data]: resume: "), "{error}");
                    seen += 1;
                }
            }
        }
    }
    assert!(seen > 20, "only {seen} of the changes were detected");
}
