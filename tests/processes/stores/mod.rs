//! Data, metrics and checkpoints in object stores, read and written by a process with the variables
//! of the cloud's tools. `cargo xtask stores` installs the servers and runs these tests.

#[allow(dead_code, reason = "the tests of the crate use the rest")]
#[path = "../../../crates/storage/tests/servers/proxy.rs"]
mod proxy;
#[path = "../../../crates/storage/tests/servers/start.rs"]
mod start;
mod training;
mod writers;

use oxidax::data::{self, InterleaveOptions, Source as _, Stream, TfRecordWriter, TfRecords};
use oxidax::train::Metrics;
use oxidax::{Error, data::Position};
use oxidax_storage::Storage;
use std::process::Command;

/// Folder of the child process.
const FOLDER: &str = "OXIDAX_TEST_STORES";

#[test]
#[ignore = "needs the servers that `cargo xtask stores` installs"]
fn every_store_gives_equal_elements_and_positions() {
    if let Ok(folder) = std::env::var(FOLDER) {
        return compare(&folder);
    }
    let (s3, gs) = (start::s3(), start::gs());
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "stores::every_store_gives_equal_elements_and_positions"])
        .args(["--ignored", "--nocapture"])
        .env(FOLDER, folder.path())
        .env("AWS_ENDPOINT_URL", format!("http://{}", s3.host))
        .env("AWS_ACCESS_KEY_ID", "key")
        .env("AWS_SECRET_ACCESS_KEY", "secret")
        .env("STORAGE_EMULATOR_HOST", &gs.host)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
}

fn compare(folder: &str) {
    let places = [
        folder.to_owned(),
        format!("file://{folder}/address"),
        "s3://numbers".into(),
        "gs://numbers".into(),
    ];
    let mut seen = Vec::new();
    for place in &places {
        write(place).unwrap();
        let all: Vec<Vec<u8>> = pipeline(place).unwrap().collect::<Result<_, _>>().unwrap();
        let mut first = pipeline(place).unwrap();
        let start: Vec<_> = first.by_ref().take(3).collect::<Result<_, _>>().unwrap();
        let position = serde_json::to_string(&first.position()).unwrap();
        let saved: Position = serde_json::from_str(&position).unwrap();
        let rest = pipeline(place).unwrap().resume(&saved).unwrap();
        let rest: Vec<_> = rest.collect::<Result<_, _>>().unwrap();
        assert_eq!([start, rest].concat(), all, "{place}");
        let random = TfRecords::open(format!("{place}/train/1.tfrecord")).unwrap();
        let third = random.get(2).unwrap();
        seen.push((all, position, third, metrics(place).unwrap()));
        many_events(place).unwrap();
    }
    for (place, other) in places.iter().zip(&seen) {
        assert_eq!(*other, seen[0], "{place}");
    }
    assert_eq!(seen[0].0.len(), 100);
    let missing = data::files("s3://numbers/none/*.csv").unwrap_err().to_string();
    assert_eq!(missing, "error[io]: s3://numbers/none/*.csv: no object matches");
    let missing = data::tfrecord("gs://numbers/none").next().unwrap().unwrap_err().to_string();
    let expected = "error[io]: gs://numbers/none: opening: it does not exist";
    assert!(missing.starts_with(expected), "{missing}");
}

fn write(place: &str) -> Result<(), Error> {
    let local = place.strip_prefix("file://").unwrap_or(place);
    if !local.contains("://") {
        std::fs::create_dir_all(format!("{local}/train")).unwrap();
    }
    for file in 0..4u8 {
        let mut writer = TfRecordWriter::create(format!("{place}/train/{file}.tfrecord"))?;
        for record in 0..25u8 {
            writer.write(&[file, record, 7])?;
        }
        writer.finish()?;
    }
    Ok(())
}

fn pipeline(place: &str) -> Result<Stream<Vec<u8>>, Error> {
    let files = data::files(&format!("{place}/train/*.tfrecord"))?;
    assert_eq!(files.len(), 4);
    let turns = InterleaveOptions { cycle_length: 2, block_length: 3 };
    let records = data::interleave(files.iter().map(data::tfrecord), turns).shuffle(20, 5);
    Ok(records)
}

/// Writes metrics twice, the second time resumed, and returns the rows without times.
fn metrics(place: &str) -> Result<Vec<String>, Error> {
    for (first, steps) in [(0, 0..6u64), (4, 4..9)] {
        let metrics = Metrics::new().from_step(first);
        let metrics = metrics.csv(format!("{place}/run/metrics.csv"), ["loss"])?;
        let mut metrics = metrics.tensorboard(format!("{place}/run/events"))?;
        for step in steps {
            metrics.scalar(step, "loss", step as f32 + first as f32)?;
            metrics.flush()?;
        }
        metrics.finish()?;
    }
    let events = data::files(&format!("{place}/run/events/events.out.tfevents.*"))?;
    let counts = events.iter().map(|file| data::tfrecord(file).map(|record| Ok(record.len())));
    let counts = counts.map(|records| records.collect::<Result<Vec<_>, _>>().map(|all| all.len()));
    let mut rows: Vec<String> = counts
        .map(|count| count.map(|count| format!("{count} events")))
        .collect::<Result<_, _>>()?;
    // The steps are numbers; the times differ.
    let csv: Stream<(u64, f64, f32)> = data::csv(format!("{place}/run/metrics.csv"));
    for row in csv {
        let (step, _, loss) = row?;
        rows.push(format!("{step} {loss}"));
    }
    assert_eq!(rows.len(), 2 + 9, "{place}: {rows:?}");
    Ok(rows)
}

/// Writes more than 1 MiB of events: one file on a disk, several objects in a store.
fn many_events(place: &str) -> Result<(), Error> {
    const EVENTS: usize = 30_000;
    let mut metrics = Metrics::new().tensorboard(format!("{place}/many"))?;
    for step in 0..EVENTS as u64 {
        metrics.scalar(step, "loss of the training set", step as f32)?;
    }
    metrics.finish()?;
    let files = data::files(&format!("{place}/many/events.out.tfevents.*"))?;
    let is_local = place.starts_with(['/', 'f']);
    assert!(if is_local { files.len() == 1 } else { files.len() >= 2 }, "{files:?}");
    let events = files.iter().map(|file| data::tfrecord(file).count());
    // Each file begins with its version.
    assert_eq!(events.sum::<usize>(), EVENTS + files.len(), "{place}");
    // TensorBoard reads folders and S3 by itself, and copies of other stores.
    let (own, copy) = (format!("{place}/many"), tempfile::tempdir().unwrap());
    let store = Storage::from_env().at(&own).unwrap();
    for object in store.list().unwrap() {
        let bytes = store.join(&object.name).read().unwrap();
        std::fs::write(copy.path().join(&object.name), bytes).unwrap();
    }
    let copy = copy.path().to_str().unwrap();
    let is_read_by_address = place.starts_with("s3://");
    for folder in [Some(copy), is_read_by_address.then_some(&own)].into_iter().flatten() {
        let output = Command::new(start::program("python"))
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/python-compat/event_objects.py"))
            .args([folder, &EVENTS.to_string()])
            .env("S3_ENDPOINT", std::env::var("AWS_ENDPOINT_URL").unwrap())
            .env("AWS_DEFAULT_REGION", "us-east-1")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
