//! Training that reads its data from a store and saves its checkpoints there.
#![allow(clippy::print_stdout, reason = "the child processes report to their parent")]

use super::proxy::Proxy;
use super::start;
use checkpoint::{Folder, Snapshot};
use data::{InterleaveOptions, TfRecordWriter};
use oxidax::prelude::*;
use oxidax::train::Metrics;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// Names what a child process does: a word and a folder or address.
const CHILD: &str = "OXIDAX_TEST_TRAINING";
const STEPS: u64 = 24;
/// The step at which an interrupted run ends, in the middle of a save or after it.
const INTERRUPTED: u64 = 13;
const EVERY: u64 = 4;
const BATCH: usize = 8;

#[derive(Tree)]
struct Run {
    model: nn::Linear,
    optimizer: optim::State,
}

fn optimizer() -> optim::Optimizer {
    optim::adam(0.03)
}

fn begin() -> Run {
    let model = nn::Linear::new(random::key(1), 4, 1);
    Run { optimizer: optimizer().init(&model), model }
}

fn step(run: Run, x: Array, y: Array) -> (Run, Array) {
    let loss = |model: &nn::Linear| nn::mean_squared_error(&model.forward(&x), &y);
    let (loss, gradient) = value_and_grad(loss)(&run.model);
    let (updates, optimizer) = optimizer().update(&gradient, &run.optimizer, &run.model);
    (Run { model: optim::apply_updates(&run.model, &updates), optimizer }, loss)
}

/// Writes the training data of a place: records of four inputs and a target.
fn write_data(place: &str) -> Result<(), Error> {
    let local = place.strip_prefix("file://").unwrap_or(place);
    if !local.contains("://") {
        std::fs::create_dir_all(format!("{local}/data")).unwrap();
    }
    for file in 0..3u8 {
        let mut writer = TfRecordWriter::create(format!("{place}/data/{file}.tfrecord"))?;
        for record in 0..20u8 {
            let x = [file * 40 + record, record * 3, 200 - record, file * 7];
            let y = x[0] / 2 + x[2] / 4;
            writer.write(&[x[0], x[1], x[2], x[3], y])?;
        }
        writer.finish()?;
    }
    Ok(())
}

/// Trains from the newest checkpoint of `{place}/{run}` to step `until`, and prints the losses.
fn train(place: &str, run: &str, until: u64) -> Result<(), Error> {
    let files = data::files(&format!("{place}/data/*.tfrecord"))?;
    let turns = InterleaveOptions { cycle_length: 2, block_length: 3 };
    let batches = || {
        let records = data::interleave(files.iter().map(data::tfrecord), turns);
        records.shuffle(40, 3).repeat_forever()
    };
    let mut folder = Folder::open(format!("{place}/{run}"))?.keep_last(2);
    let (mut run_state, mut records, mut done) = match folder.restore_latest(&begin())? {
        Some(restored) => {
            assert!(restored.skipped.is_empty(), "{:?}", restored.skipped);
            let records = batches().resume(&restored.position.unwrap())?;
            (restored.state, records, restored.step)
        }
        None => (begin(), batches(), 0),
    };
    println!("from {done}");
    let metrics = Metrics::new().from_step(done + 1);
    let metrics = metrics.csv(format!("{place}/{run}/metrics.csv"), ["loss"])?;
    let mut metrics = metrics.tensorboard(format!("{place}/{run}/events"))?;
    let step = jit(step);
    while done < until {
        let rows: Vec<Vec<u8>> = records.by_ref().take(BATCH).collect::<Result<_, _>>()?;
        let numbers = |range: std::ops::Range<usize>| -> Vec<f32> {
            rows.iter().flat_map(|row| &row[range.clone()]).map(|&x| f32::from(x) / 255.0).collect()
        };
        let x = Array::from_slice(&numbers(0..4), [BATCH, 4])?;
        let y = Array::from_slice(&numbers(4..5), [BATCH, 1])?;
        let loss;
        (run_state, loss) = step.call(run_state, x, y)?;
        done += 1;
        let loss = loss.item::<f32>()?;
        println!("loss {done} {:08x}", loss.to_bits());
        metrics.scalar(done, "loss", loss)?;
        metrics.flush()?;
        if done.is_multiple_of(EVERY) {
            folder.save(Snapshot::new(done, &run_state).position(records.position()))?;
        }
    }
    if until == STEPS {
        metrics.finish()?;
        let rows: data::Stream<(u64, f64, f32)> = data::csv(format!("{place}/{run}/metrics.csv"));
        let steps = rows.map(|(step, _, _)| Ok(step)).collect::<Result<Vec<_>, Error>>()?;
        assert_eq!(steps, (1..=STEPS).collect::<Vec<_>>(), "{place}/{run}");
        return folder.close();
    }
    // Ends the process while the last checkpoint is being written, or shortly after.
    std::process::exit(0)
}

/// Saves steps of 20 MiB without end, each filled with its number, after checking the last one.
fn save_without_end(place: &str) -> Result<(), Error> {
    let mut folder = Folder::open(place)?.keep_last(2);
    let template = zeros([5 << 20]);
    let restored = folder.restore_latest(&template)?;
    let first = restored.map_or(0, |restored| {
        assert!(restored.skipped.is_empty(), "{:?}", restored.skipped);
        let wanted = restored.step as f32;
        assert!(restored.state.to_vec::<f32>().unwrap().iter().all(|&value| value == wanted));
        restored.step
    });
    println!("from {first}");
    for step in first + 1.. {
        folder.save(Snapshot::new(step, &full([5 << 20], step as f32)))?;
        folder.wait()?;
        println!("kept {step}");
    }
    Ok(())
}

/// Runs a test of this file as a child process with the variables of both servers.
fn child(test: &str, task: &str, s3: &str, gs: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", &format!("stores::training::{test}"), "--ignored", "--nocapture"])
        .env(CHILD, task)
        .env("AWS_ENDPOINT_URL", format!("http://{s3}"))
        .env("AWS_ACCESS_KEY_ID", "key")
        .env("AWS_SECRET_ACCESS_KEY", "secret")
        .env("STORAGE_EMULATOR_HOST", gs);
    command
}

/// Runs a child to its end and returns the lines that it printed.
fn lines(mut command: Command) -> Vec<String> {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}\n{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Returns the number after `word` in the first line that begins with it.
fn number(lines: &[String], word: &str) -> Option<u64> {
    let line = lines.iter().find_map(|line| line.strip_prefix(word))?;
    line.trim().parse().ok()
}

fn losses(lines: &[String]) -> BTreeMap<u64, String> {
    let losses = lines.iter().filter_map(|line| line.strip_prefix("loss "));
    losses
        .map(|line| {
            let (step, bits) = line.split_once(' ').unwrap();
            (step.parse().unwrap(), bits.to_owned())
        })
        .collect()
}

#[test]
#[ignore = "needs the servers that `cargo xtask stores` installs"]
fn training_is_equal_in_every_store() {
    if let Ok(task) = std::env::var(CHILD) {
        let [place, run, until] = task.split(' ').collect::<Vec<_>>()[..] else { panic!("{task}") };
        if run == "data" {
            return write_data(place).unwrap();
        }
        // The test harness has begun a line.
        println!();
        return train(place, run, until.parse().unwrap()).unwrap();
    }
    let (s3, gs) = (start::s3(), start::gs());
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    let run = |place: &str, run: &str, until: u64| {
        let task = format!("{place} {run} {until}");
        lines(child("training_is_equal_in_every_store", &task, &s3.host, &gs.host))
    };
    let mut first = None;
    let address = format!("file://{folder}/address");
    for place in [folder, &address, "s3://numbers", "gs://numbers/some/folder"] {
        run(place, "data", 0);
        let whole = losses(&run(place, "whole", STEPS));
        assert_eq!(whole.len() as u64, STEPS);
        let first = first.get_or_insert(whole.clone());
        assert_eq!(whole, *first, "{place}");
        let interrupted = losses(&run(place, "resumed", INTERRUPTED));
        assert!(interrupted.iter().all(|(step, loss)| whole[step] == *loss), "{place}");
        let resumed = run(place, "resumed", STEPS);
        let from = number(&resumed, "from ").unwrap();
        // `save` has waited for all saves but the last one.
        assert!(from == 8 || from == 12, "{place}: resumed at step {from}");
        let resumed = losses(&resumed);
        let expected: BTreeMap<u64, String> =
            whole.into_iter().filter(|(step, _)| *step > from).collect();
        assert_eq!(resumed, expected, "{place}");
    }
}

#[test]
#[ignore = "needs the servers that `cargo xtask stores` installs"]
fn only_needed_ranges_are_read() {
    let address = "s3://numbers/model.safetensors";
    let tree = || BTreeMap::from([("large", zeros([5 << 20])), ("small", full([250], 3.0))]);
    match std::env::var(CHILD).as_deref() {
        Ok("save") => return checkpoint::save(address, &tree()).unwrap(),
        Ok(_) => {
            let loaded = checkpoint::open(address).unwrap().only(["small"]).load(&tree()).unwrap();
            assert_eq!(loaded["small"].to_vec::<f32>().unwrap(), [3.0; 250]);
            return;
        }
        Err(_) => {}
    }
    let s3 = start::s3();
    let proxy = Proxy::start(&s3.host);
    for task in ["save", "load"] {
        proxy.requests();
        lines(child("only_needed_ranges_are_read", task, &proxy.host, ""));
    }
    let requests = proxy.requests();
    let reads: Vec<&String> = requests.iter().filter(|head| head.starts_with("GET ")).collect();
    let ranges = reads.iter().map(|head| {
        let head = head.to_ascii_lowercase();
        let range = head.split_once("\r\nrange: bytes=").unwrap().1.split("\r\n").next().unwrap();
        let (first, last) = range.split_once('-').unwrap();
        last.parse::<u64>().unwrap() + 1 - first.parse::<u64>().unwrap()
    });
    let ranges: Vec<u64> = ranges.collect();
    // The length of the header, the header, and the array of 1000 bytes.
    assert_eq!((ranges.len(), ranges[0], ranges[2]), (3, 8, 1000), "{requests:?}");
    assert!(ranges[1] < 1000, "{ranges:?}");
}

#[test]
#[ignore = "needs the servers that `cargo xtask stores` installs"]
fn killed_saves_lose_no_step() {
    if let Ok(place) = std::env::var(CHILD) {
        println!();
        return save_without_end(&place).unwrap();
    }
    let (s3, gs) = (start::s3(), start::gs());
    let (s3_proxy, gs_proxy) = (Proxy::start(&s3.host), Proxy::start(&gs.host));
    for (place, proxy, method) in
        [("s3://numbers/run", &s3_proxy, "PUT "), ("gs://numbers/run", &gs_proxy, "POST ")]
    {
        let mut kept = 0;
        // The requests that write: the name of the program, which is complete, then parts of the
        // arrays, the manifest, and the next step.
        for killed_at in 2..=9 {
            proxy.requests();
            let test = "killed_saves_lose_no_step";
            let mut command = child(test, place, &s3_proxy.host, &gs_proxy.host);
            let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
            let output = BufReader::new(process.stdout.take().unwrap());
            let reader = std::thread::spawn(move || {
                output.lines().map_while(Result::ok).collect::<Vec<String>>()
            });
            proxy.wait_for(method, killed_at);
            process.kill().unwrap();
            process.wait().unwrap();
            let lines = reader.join().unwrap();
            let from = number(&lines, "from ").unwrap();
            assert!(from >= kept, "{place}: step {from} restored, step {kept} was saved");
            let new = lines.iter().filter_map(|line| line.strip_prefix("kept "));
            // A truncated number is smaller.
            kept = new.filter_map(|step| step.parse().ok()).max().unwrap_or(0).max(from);
        }
        assert!(kept >= 2, "{place}: {kept} steps were saved");
    }
}
