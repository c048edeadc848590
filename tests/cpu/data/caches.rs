//! Cache files: valid ones are read, all others are built again.

use crate::data::support::{number, numbers_file, shown};
use oxidax::Error;
use oxidax::data::{self, HostArray, Position, Record, Source, Stream, Synthetic};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A stream of 20 records, and the number of records that were decoded.
fn records() -> (Stream<Record>, Arc<AtomicUsize>) {
    let decoded = Arc::new(AtomicUsize::new(0));
    let counter = decoded.clone();
    let stream = data::tfrecord(numbers_file("numbers", 0..20)).map(move |bytes| {
        counter.fetch_add(1, Ordering::Relaxed);
        let n = number(bytes)?;
        let ids = HostArray::from_slice(&vec![n; n as usize % 5], [n as usize % 5])?;
        Ok(Record::new().with("ids", ids))
    });
    (stream, decoded)
}

/// Reads the stream through a cache file. Returns the items, and the number of decoded records.
fn read(path: &Path, version: &str) -> (Vec<String>, usize) {
    let (stream, decoded) = records();
    let items = shown(&mut stream.cache_on_disk(path, version));
    (items, decoded.load(Ordering::Relaxed))
}

fn expected() -> Vec<String> {
    shown(&mut records().0)
}

#[test]
fn second_run_decodes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/er/items.cache");
    assert_eq!(read(&path, "1"), (expected(), 20));
    assert_eq!(read(&path, "1"), (expected(), 0));
    // Another version, then another type of items, replace the file.
    assert_eq!(read(&path, "2"), (expected(), 20));
    assert_eq!(read(&path, "2"), (expected(), 0));
    let lengths = |path: &Path| {
        let (stream, decoded) = records();
        let lengths = stream.map(|record| Ok(record.get("ids")?.shape()[0]));
        let lengths: Result<Vec<usize>, Error> = lengths.cache_on_disk(path, "2").collect();
        (lengths.unwrap().len(), decoded.load(Ordering::Relaxed))
    };
    assert_eq!(lengths(&path), (20, 20));
    assert_eq!(lengths(&path), (20, 0));
    let files: Vec<_> = std::fs::read_dir(path.parent().unwrap()).unwrap().collect();
    assert_eq!(files.len(), 1, "temporary files are left: {files:?}");
}

#[test]
fn another_order_is_another_pipeline() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("order.cache");
    let numbers = |seed, shard| {
        let records = Synthetic::new(30, |n| Ok(n as u32)).shuffled(seed).shard(shard, 2);
        records.stream().cache_on_disk(&path, "1").collect::<Result<Vec<_>, _>>().unwrap()
    };
    let orders = [(1, 0), (1, 1), (2, 0)].map(|(seed, shard)| numbers(seed, shard));
    assert!(orders[0] != orders[1] && orders[0] != orders[2], "{orders:?}");
}

#[test]
fn files_that_are_cut_short_or_damaged_are_built_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("items.cache");
    read(&path, "1");
    let good = std::fs::read(&path).unwrap();
    for end in (0..good.len()).step_by(7) {
        std::fs::write(&path, &good[..end]).unwrap();
        assert_eq!(read(&path, "1"), (expected(), 20), "cut at {end}");
        assert_eq!(std::fs::read(&path).unwrap(), good);
    }
    for at in (0..good.len()).step_by(5) {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        std::fs::write(&path, &bad).unwrap();
        assert_eq!(read(&path, "1"), (expected(), 20), "damaged at {at}");
    }
}

#[test]
fn incomplete_and_faulty_epochs_are_not_stored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("items.cache");
    let mut stream = records().0.cache_on_disk(&path, "1");
    stream.next().unwrap().unwrap();
    drop(stream);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let failing = || {
        let numbers = Stream::from_generator(|_| (0..9u32).map(Ok));
        let numbers = numbers.map(|n| if n == 4 { Err(Error::data("t", "bad")) } else { Ok(n) });
        numbers.cache_on_disk(&path, "1").repeat(2)
    };
    assert_eq!(shown(&mut failing()).iter().filter(|item| item.contains("bad")).count(), 2);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn resumed_streams_use_the_file_or_build_it() {
    let folder = tempfile::tempdir().unwrap();
    for (number, stop) in [0, 1, 7, 19, 20, 33].into_iter().enumerate() {
        let path = folder.path().join(format!("{number}.cache"));
        let build = || records().0.cache_on_disk(&path, "1").repeat(2);
        let mut stream = build();
        let head: Vec<_> =
            stream.by_ref().take(stop).map(|i| format!("{:?}", i.unwrap())).collect();
        let position: Position = stream.position();
        drop(stream);
        for _ in 0..2 {
            // The file exists in the second round, and after an epoch.
            let tail = shown(&mut build().resume(&position).unwrap());
            assert_eq!([head.clone(), tail].concat(), [expected(), expected()].concat());
        }
    }
}

#[test]
fn threads_that_build_one_file_do_not_damage_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("items.cache");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..10).for_each(|_| assert_eq!(read(&path, "1").0, expected())));
        }
    });
    assert_eq!(read(&path, "1"), (expected(), 0));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn folder_that_cannot_be_written_is_one_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let items = shown(&mut records().0.cache_on_disk(file.join("items.cache"), "1"));
    assert!(items[0].starts_with("error[io]: "), "{}", items[0]);
    assert_eq!(items[1..], expected());
}

#[test]
fn addresses_of_objects_are_refused_and_file_addresses_are_paths() {
    let (items, _) = read(Path::new("gs://bucket/items.cache"), "1");
    // The error is an item, and the stream goes on without the file.
    let (error, rest) = items.split_first().unwrap();
    assert!(error.contains("gs://bucket/items.cache"), "{error}");
    assert!(error.contains("a cache must be a file on a disk"), "{error}");
    assert_eq!(rest, expected());
    let folder = tempfile::tempdir().unwrap();
    let address = format!("file://{}/items.cache", folder.path().display());
    assert_eq!(read(Path::new(&address), "1").0, expected());
    assert!(folder.path().join("items.cache").exists());
}
