//! Items produced by each stage.

use crate::data::support::{messages, number, numbers_file, shown};
use expect_test::expect;
use oxidax::Error;
use oxidax::data::{
    self, BatchOptions, BatchPadding, Collate, HostArray, Instruments, InterleaveOptions,
    Parallelism, Record, Remainder, Source, Stream, Synthetic, Work,
};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug)]
struct Number(u32);

impl Collate for Number {
    type Batch = Vec<u32>;
    fn collate(examples: Vec<Number>) -> Result<Vec<u32>, Error> {
        Ok(examples.iter().map(|number| number.0).collect())
    }
}

fn failing(at: u32) -> Stream<Number> {
    Stream::new((0..7).map(move |number| {
        if number == at { Err(Error::Plugin(format!("no {number}"))) } else { Ok(Number(number)) }
    }))
}

fn read<T: Send + 'static>(stream: Stream<T>) -> Vec<T> {
    stream.collect::<Result<_, _>>().unwrap()
}

fn numbers(count: u32) -> Stream<u32> {
    Synthetic::new(count as usize, |index| Ok(index as u32)).stream()
}

#[test]
fn remainder_is_dropped_or_kept() {
    assert_eq!(shown(&mut failing(99).batch(3)), ["[0, 1, 2]", "[3, 4, 5]"]);
    assert_eq!(shown(&mut failing(99).batch(7)), ["[0, 1, 2, 3, 4, 5, 6]"]);
    assert!(shown(&mut failing(99).batch(8)).is_empty());
    let kept = shown(&mut failing(99).batch_with(3, BatchOptions { remainder: Remainder::Keep }));
    assert_eq!(kept, ["[0, 1, 2]", "[3, 4, 5]", "[6]"]);
    assert_eq!(
        shown(&mut failing(99).batch_with(7, BatchOptions { remainder: Remainder::Keep })).len(),
        1
    );
}

#[test]
fn errors_replace_their_batch() {
    let expected = ["[0, 1]", "error[plugin]: no 3", "[4, 5]"];
    assert_eq!(shown(&mut failing(3).batch(2)), expected);
    assert_eq!(Iterator::filter(failing(3).shuffle(10, 0), Result::is_err).count(), 1);
}

#[test]
fn empty_batches_are_refused_at_the_call() {
    let error = oxidax::catch(|| failing(99).batch(0)).unwrap_err().to_string();
    assert!(error.starts_with("error[value]: batch: "), "{error}");
    assert!(error.contains(file!()), "{error}");
}

#[test]
fn shuffling_permutes_by_seed() {
    let order = |capacity, seed| read(numbers(7).shuffle(capacity, seed));
    assert_eq!(order(100, 1), order(100, 1));
    assert_ne!(order(100, 1), order(100, 2));
    assert_eq!(order(1, 3), [0, 1, 2, 3, 4, 5, 6]);
    // Resuming draws the random numbers again, so a release with a different generator could not
    // read old positions.
    expect!["[3, 2, 0, 4, 5, 1, 6]"].assert_eq(&format!("{:?}", order(4, 1)));
    for seed in 0..20 {
        let mut sorted = order(3, seed);
        // An item appears only after the buffer has read it.
        assert!(sorted.iter().enumerate().all(|(at, &number)| number as usize <= at + 2));
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2, 3, 4, 5, 6]);
    }
}

#[test]
fn full_buffer_makes_orders_equally_likely() {
    let mut counts = BTreeMap::new();
    const SEEDS: u64 = 12_000;
    for seed in 0..SEEDS {
        *counts.entry(read(numbers(4).shuffle(4, seed))).or_insert(0u64) += 1;
    }
    assert_eq!(counts.len(), 24);
    let expected = SEEDS as f64 / 24.0;
    let chi: f64 = counts.values().map(|&n| (n as f64 - expected).powi(2) / expected).sum();
    // With 23 degrees of freedom, one set of seeds in a thousand exceeds 49.7.
    assert!(chi < 49.7, "chi squared {chi}");
}

#[test]
fn shuffling_below_repeat_differs_by_epoch() {
    let twice = read(numbers(40).shuffle(40, 1).repeat(2));
    assert_ne!(twice[..40], twice[40..]);
    assert_eq!(twice.iter().collect::<BTreeSet<_>>().len(), 40);
    // A repeat of a repeat continues counting epochs.
    let nested = read(numbers(40).shuffle(40, 1).repeat(2).repeat(2));
    let orders: BTreeSet<&[u32]> = nested.chunks(40).collect();
    assert_eq!(orders.len(), 4);
}

#[test]
fn parallel_results_keep_their_order() {
    let uneven = |n: u32| {
        let mut sum = n as u64;
        for step in 0..(n as u64 % 17) * 1000 {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(step));
        }
        Ok((n, sum))
    };
    let serial = read(numbers(2000).map(uneven));
    for workers in [1, 2, 5] {
        assert_eq!(read(numbers(2000).parallel_map(workers, uneven)), serial);
    }
}

#[test]
fn shards_divide_the_records() {
    let all: BTreeSet<u32> = (0..23).collect();
    for count in [1, 2, 5, 30] {
        let of_source = (0..count).flat_map(|index| {
            let source = Synthetic::new(23, |index| Ok(index as u32)).shuffled(4);
            read(source.shard(index, count).stream())
        });
        let of_source: Vec<u32> = of_source.collect();
        assert_eq!(of_source.len(), 23);
        assert_eq!(of_source.into_iter().collect::<BTreeSet<_>>(), all);
        let of_stream = (0..count).flat_map(|index| read(numbers(23).shard(index, count)));
        assert_eq!(of_stream.collect::<BTreeSet<_>>(), all);
    }
}

#[test]
fn interleaving_alternates_streams() {
    let streams = || {
        [0..3, 10..11, 20..20, 30..34].map(|n| Stream::from_generator(move |_| n.clone().map(Ok)))
    };
    let turns = |cycle_length, block_length| {
        read(data::interleave(streams(), InterleaveOptions { cycle_length, block_length }))
    };
    assert_eq!(turns(1, 1), [0, 1, 2, 10, 30, 31, 32, 33]);
    assert_eq!(turns(2, 1), [0, 10, 1, 30, 2, 31, 32, 33]);
    assert_eq!(turns(4, 2), [0, 1, 10, 30, 31, 2, 32, 33]);
    let none: [Stream<u32>; 0] = [];
    let turns = InterleaveOptions { cycle_length: 2, block_length: 1 };
    assert!(read(data::interleave(none, turns)).is_empty());
}

#[test]
fn files_are_interleaved() {
    let files = [numbers_file("a", 0..3), numbers_file("b", 10..13)];
    let turns = InterleaveOptions { cycle_length: 2, block_length: 1 };
    let stream = data::interleave(files.map(data::tfrecord), turns).map(number);
    assert_eq!(read(stream), [0, 10, 1, 11, 2, 12]);
}

#[test]
fn buckets_group_similar_lengths() {
    let texts = || {
        let lengths = [2usize, 7, 3, 8, 1, 20, 4, 5, 4];
        Stream::new(lengths.map(|n| HostArray::from_slice(&vec![n as i32; n], [n])))
    };
    let bucketed = |remainder| {
        let padding = BatchPadding::with(0.0).remainder(remainder);
        texts().bucket_by_length(|text| text.shape()[0], &[4, 8], 2, padding)
    };
    let shapes = |stream: Stream<HostArray>| -> Vec<String> {
        let shape = |batch: HostArray| format!("{:?}", batch.shape().to_vec());
        messages(&mut stream.map(move |batch| Ok(shape(batch))))
            .iter()
            .map(|text| text.trim_matches('"').to_owned())
            .collect()
    };
    let long = "error[data]: bucket_by_length: length 20 exceeds the last boundary, 8";
    assert_eq!(shapes(bucketed(Remainder::Drop)), ["[2, 4]", "[2, 8]", long, "[2, 4]"]);
    let kept = shapes(bucketed(Remainder::Keep));
    assert_eq!(kept, ["[2, 4]", "[2, 8]", long, "[2, 4]", "[1, 4]", "[1, 8]"]);
    let first = bucketed(Remainder::Drop).next().unwrap().unwrap();
    assert_eq!(first.to_vec::<i32>().unwrap(), [2, 2, 0, 0, 3, 3, 3, 0]);
    let error =
        oxidax::catch(|| texts().bucket_by_length(|_| 1, &[4, 4], 2, BatchPadding::with(0.0)));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("needs ascending boundaries, got [4, 4]"), "{error}");
}

#[test]
fn records_are_batched_by_field() {
    let record = |n: usize| {
        let image = HostArray::from_slice(&[n as f32; 4], [2, 2])?;
        Ok(Record::new()
            .with("image", image)
            .with("label", HostArray::from_slice(&[n as i32], [])?))
    };
    let batches = read(Synthetic::new(6, record).stream().batch(3));
    assert_eq!(batches[1].get("image").unwrap().aval().to_string(), "f32[3,2,2]");
    assert_eq!(batches[1].get("label").unwrap().to_vec::<i32>().unwrap(), [3, 4, 5]);
}

#[test]
fn numbers_continue_through_epochs() {
    let numbered = read(numbers(3).repeat(2).enumerate());
    assert_eq!(numbered.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn instruments_count_the_work_of_stages() {
    let stream = numbers(100)
        .filter(|n| n % 2 == 0)
        .parallel_map(2, |n| HostArray::from_slice(&[n], [1]))
        .batch(10)
        .prefetch(2);
    let instruments: Instruments = stream.instruments();
    assert_eq!(instruments.report().bottleneck(), None);
    assert_eq!(read(stream).len(), 5);
    let report = instruments.report();
    let items = |name: &str| report.stages.iter().find(|stage| stage.name == name).unwrap().items;
    assert_eq!((items("index"), items("filter"), items("map"), items("batch")), (100, 100, 50, 5));
    assert_eq!(report.items, 5);
    let work: Vec<Work> = report.stages.iter().map(|stage| stage.work).collect();
    assert_eq!(work, [Work::Source, Work::Decode, Work::Decode, Work::Batch]);
}

#[test]
fn automatic_choices_are_reported_and_keep_the_items() {
    let build = |workers: Parallelism, depth: Parallelism| {
        let numbers = Synthetic::new(5000, |index| Ok(index as u64)).stream();
        numbers.parallel_map(workers, |n| Ok(n * n)).prefetch(depth)
    };
    let fixed: Vec<u64> = build(1.into(), 1.into()).collect::<Result<_, _>>().unwrap();
    let stream = build(Parallelism::Auto, Parallelism::AutoUpTo(7));
    let instruments = stream.instruments();
    assert_eq!(stream.collect::<Result<Vec<u64>, _>>().unwrap(), fixed);
    let report = instruments.report();
    let map = report.stages.iter().find(|stage| stage.name == "map").unwrap();
    assert!(map.automatic && map.workers >= 1, "{report}");
    let queue = report.queues.iter().find(|queue| queue.name == "prefetch").unwrap();
    assert!(queue.automatic && (1..=7).contains(&queue.capacity), "{report}");
    // Every item and the end were pulled.
    assert_eq!(queue.pulls, 5001);
    assert!(queue.max_fill <= 7 && queue.mean_fill() <= 7.0, "{report}");
    assert!(report.to_string().contains("auto "), "{report}");
}
