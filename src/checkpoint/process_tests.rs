//! Saving and restoring by real processes, each of which has one device of a mesh.
//!
//! The CPU plugin compiles no program across processes, but it holds the shards of arrays on such a
//! mesh. Each process is this test binary, started again. It reads its part from its input.

#![allow(clippy::unwrap_used, reason = "in a test, unwrapping is the assertion")]
#![allow(clippy::print_stdout, reason = "a long run reports what it did")]

use super::{Folder, Snapshot};
use crate::core::{
    Array, Aval, DType, Device, Error, HostArray, Mesh, NamedSharding, PartitionSpec,
};
use crate::distributed::{self, ClusterConfig};
use crate::p;
use crate::parallel::make_array_from_callback;
use std::collections::{BTreeMap, HashSet};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::ops::Range;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Far longer than any step takes. A process that is silent for this long fails the test.
const HANGS: Duration = Duration::from_secs(180);
/// Time-out of exchanges that are expected to succeed.
const PATIENCE: Duration = Duration::from_secs(90);
/// Prefix of a process's lines, which distinguishes them from the harness's.
const MARK: &str = "@@ ";

type State = BTreeMap<String, Array>;

/// Returns the bytes of an element of a leaf at a step.
fn element(name: &str, step: u64, at: usize, dtype: DType) -> Vec<u8> {
    let seed = step.wrapping_mul(0x2545_F491_4F6C_DD1D) ^ name.len() as u64;
    let mixed = (at as u64 ^ seed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    match dtype {
        DType::I4 => vec![(mixed >> 60) as u8 & 7],
        _ => mixed.to_le_bytes()[8 - dtype.host_bytes()..].to_vec(),
    }
}

fn slice_of(name: &str, step: u64, aval: &Aval, index: &[Range<usize>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    aval.shape.for_each_run(index, 1, |offset, length| {
        bytes.extend((offset..offset + length).flat_map(|at| element(name, step, at, aval.dtype)));
    });
    bytes
}

/// The leaves and their shardings. `None` is a leaf of which each process has a copy.
fn leaves() -> Vec<(&'static str, Aval, Option<PartitionSpec>)> {
    vec![
        ("columns", Aval::new(DType::I4, [3, 16]), Some(p![None, "data"])),
        ("copy", Aval::new(DType::U32, [2]), None),
        ("replicated", Aval::new(DType::F32, [5]), Some(p![])),
        ("rows", Aval::new(DType::U64, [64, 32]), Some(p!["data"])),
        ("weights", Aval::new(DType::BF16, [128, 128]), Some(p!["data"])),
    ]
}

/// A mesh of one device per process, of which this process's is the CPU.
fn mesh(index: usize, count: usize) -> Mesh {
    let own = crate::parallel::local_devices().unwrap().swap_remove(0);
    let device = |process: usize| match process == index {
        true => own.clone(),
        false => Device::new(1000 + process as i32, process as i32, "cpu", "", false),
    };
    Mesh::new((0..count).map(device).collect::<Vec<_>>(), [("data", count)]).unwrap()
}

fn state(index: usize, count: usize, step: u64) -> State {
    let mesh = mesh(index, count);
    let array = |(name, aval, spec): (&str, Aval, Option<PartitionSpec>)| {
        let whole: Vec<Range<usize>> = aval.shape.iter().map(|&size| 0..size).collect();
        let array = match spec {
            None => {
                Array::from_bytes(&slice_of(name, step, &aval, &whole), aval.dtype, &aval.shape)
            }
            Some(spec) => {
                let sharding: NamedSharding = mesh.sharding(spec).unwrap();
                make_array_from_callback(&aval, &sharding, |index| {
                    let shape: Vec<usize> = index.iter().map(Range::len).collect();
                    HostArray::from_bytes(
                        slice_of(name, step, &aval, index),
                        aval.with_shape(shape),
                    )
                })
            }
        };
        (name.to_owned(), array.unwrap())
    };
    leaves().into_iter().map(array).collect()
}

/// Checks the bits of this process's shards.
#[track_caller]
fn expect_state(state: &State, step: u64) {
    for (name, aval, spec) in leaves() {
        let array = &state[name];
        assert_eq!(array.sharding().is_some(), spec.is_some());
        let shards = array.host_shards(&|_| true).unwrap();
        assert!(!shards.is_empty());
        for (index, bytes) in shards {
            assert!(bytes == slice_of(name, step, &aval, &index), "{name} at {step}: {index:?}");
        }
    }
}

/// Prints a line for the process that started this one.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    for line in text.lines() {
        // The harness has begun a line.
        writeln!(out, "\n{MARK}{line}").unwrap();
    }
    out.flush().unwrap();
}

fn input() -> String {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

fn join(address: &str, count: usize, index: usize, timeout: Duration) -> Result<(), Error> {
    if count == 1 {
        return Ok(());
    }
    let config = ClusterConfig::new().coordinator_address(address).num_processes(count);
    let config = config.process_id(index).initialization_timeout(PATIENCE).timeout(timeout);
    distributed::initialize(config.shutdown_timeout(PATIENCE))
}

/// Saves steps after the newest one, until it is killed or has saved `steps`.
fn save_steps(folder: &Path, index: usize, count: usize, steps: u64) -> Result<(), Error> {
    let mut folder = Folder::open(folder)?.keep_last(2);
    let restored = folder.restore_latest(&state(index, count, 0))?;
    let mut done = 0;
    if let Some(restored) = restored {
        assert!(restored.skipped.is_empty(), "{:?}", restored.skipped);
        expect_state(&restored.state, restored.step);
        done = restored.step;
    }
    say(&format!("from {done}"));
    for step in done + 1..=done + steps {
        folder.save(Snapshot::new(step, &state(index, count, step)))?;
        // This save has waited for the previous one.
        say(&format!("kept {}", step - 1));
    }
    folder.close()?;
    say(&format!("kept {}", done + steps));
    Ok(())
}

/// Process `late` saves step 2 only after a signal.
fn save_late(folder: &Path, index: usize, count: usize, late: usize) -> Result<(), Error> {
    let mut folder = Folder::open(folder)?;
    let save = |folder: &mut Folder, step| -> Result<(), Error> {
        folder.save(Snapshot::new(step, &state(index, count, step)))?;
        folder.wait()
    };
    save(&mut folder, 1)?;
    say("saved 1");
    if index == late {
        input();
    }
    say(&save(&mut folder, 2).unwrap_err().to_string());
    let patient = distributed::BarrierOptions { timeout: Some(PATIENCE), processes: None };
    distributed::barrier_with("after the error", patient)?;
    assert_eq!(folder.steps()?, [1]);
    // The processes have taken the same steps, so that the next save succeeds.
    save(&mut folder, 3)?;
    say("saved 3");
    folder.close()
}

fn restore(folder: &Path, index: usize, count: usize) -> Result<(), Error> {
    let mut folder = Folder::open(folder)?;
    let restored = folder.restore_latest(&state(index, count, 0))?.unwrap();
    expect_state(&restored.state, restored.step);
    say(&format!("restored {}", restored.step));
    folder.close()
}

mod on_cpu {
    use super::*;
    use rand::rngs::Xoshiro256PlusPlus;
    use rand::{RngExt, SeedableRng};

    /// The body of the child processes.
    #[test]
    #[ignore = "the body of the child processes"]
    fn play() {
        let (part, folder, address) = (input(), input(), input());
        let numbers = input();
        let numbers: Vec<usize> = numbers.split(' ').map(|text| text.parse().unwrap()).collect();
        let &[count, index, number] = &numbers[..] else { unreachable!() };
        let folder = Path::new(&folder);
        let timeout = if part == "save late" { Duration::from_secs(5) } else { PATIENCE };
        let joined = join(&address, count, index, timeout);
        let played = joined.and_then(|()| match part.as_str() {
            "save" => save_steps(folder, index, count, number as u64),
            "save late" => save_late(folder, index, count, number),
            "restore" => restore(folder, index, count),
            part => panic!("nobody plays `{part}`"),
        });
        let left = if count == 1 { Ok(()) } else { distributed::shutdown() };
        match played.and(left) {
            Ok(()) => say("done"),
            Err(error) => say(&error.to_string()),
        }
    }

    struct Actor {
        child: Child,
        input: ChildStdin,
        said: Receiver<String>,
        heard: Vec<String>,
    }

    /// Returns an unused address on this host.
    fn address() -> String {
        static GIVEN: Mutex<Option<HashSet<u16>>> = Mutex::new(None);
        let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            if given.get_or_insert_default().insert(port) {
                return format!("127.0.0.1:{port}");
            }
        }
    }

    impl Actor {
        fn start(part: &str, folder: &Path, address: &str, numbers: [usize; 3]) -> Actor {
            let test = "checkpoint::process_tests::on_cpu::play";
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut input = child.stdin.take().unwrap();
            let [count, index, number] = numbers;
            let folder = folder.display();
            writeln!(input, "{part}\n{folder}\n{address}\n{count} {index} {number}").unwrap();
            let (line, said) = channel();
            let out = BufReader::new(child.stdout.take().unwrap());
            std::thread::spawn(move || {
                for text in out.lines().map_while(Result::ok) {
                    if let Some(text) = text.strip_prefix(MARK)
                        && line.send(text.to_owned()).is_err()
                    {
                        return;
                    }
                }
            });
            Actor { child, input, said, heard: Vec::new() }
        }

        fn all(part: &str, folder: &Path, count: usize, number: usize) -> Vec<Actor> {
            let address = address();
            let start = |index| Actor::start(part, folder, &address, [count, index, number]);
            (0..count).map(start).collect()
        }

        /// Waits for the next line; `None` if the process has ended.
        fn line(&mut self) -> Option<String> {
            match self.said.recv_timeout(HANGS) {
                Ok(line) => {
                    self.heard.push(line.clone());
                    Some(line)
                }
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => None,
                Err(error) => panic!("after {:?}: {error}", self.heard),
            }
        }

        /// Waits for the end, and returns all lines.
        #[track_caller]
        fn rest(mut self) -> Vec<String> {
            while self.line().is_some() {}
            let status = self.child.wait().unwrap();
            let was_killed = status.code().is_none();
            assert!(status.success() || was_killed, "{status} after {:?}", self.heard);
            std::mem::take(&mut self.heard)
        }
    }

    impl Drop for Actor {
        fn drop(&mut self) {
            // No process survives a failed assertion.
            drop(self.child.kill());
            drop(self.child.wait());
        }
    }

    #[track_caller]
    fn play_all(part: &str, folder: &Path, count: usize, number: usize) -> Vec<Vec<String>> {
        Actor::all(part, folder, count, number).into_iter().map(Actor::rest).collect()
    }

    /// Returns the step that this process restores, after checking its bits.
    fn newest(folder: &Path) -> Option<u64> {
        let mut folder = Folder::open(folder).unwrap();
        let restored = folder.restore_latest(&state(0, 1, 0)).unwrap()?;
        assert!(restored.skipped.is_empty(), "{:?}", restored.skipped);
        expect_state(&restored.state, restored.step);
        Some(restored.step)
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name != ".lock").collect();
        names.sort();
        names
    }

    #[test]
    fn four_processes_save_and_others_restore() {
        let dir = tempfile::tempdir().unwrap();
        for said in play_all("save", dir.path(), 4, 3) {
            assert_eq!(said, ["from 0", "kept 0", "kept 1", "kept 2", "kept 3", "done"]);
        }
        assert_eq!(names(dir.path()), ["step-000000002", "step-000000003"]);
        let step = dir.path().join("step-000000003");
        let mut expected: Vec<String> =
            (0..4).map(|index| format!("arrays-{index:05}-of-00004.safetensors")).collect();
        expected.push("manifest.jsonl".into());
        assert_eq!(names(&step), expected);
        // Each process has written a part of every sharded leaf.
        for (index, file) in expected[..4].iter().enumerate() {
            let arrays = crate::checkpoint::arrays(step.join(file)).unwrap();
            for leaf in ["columns", "rows", "weights"] {
                assert!(arrays.contains_key(&format!("{leaf}@{index}")), "{file}: {arrays:?}");
            }
            assert_eq!(arrays.contains_key("copy"), index == 0);
        }
        for count in [1, 2, 8] {
            for said in play_all("restore", dir.path(), count, 0) {
                assert_eq!(said, ["restored 3", "done"]);
            }
        }
        assert_eq!(newest(dir.path()), Some(3));
        // A checkpoint of one process is restored by several.
        let alone = tempfile::tempdir().unwrap();
        play_all("save", alone.path(), 1, 1);
        for said in play_all("restore", alone.path(), 4, 0) {
            assert_eq!(said, ["restored 1", "done"]);
        }
        // A process that finds other bytes than were written keeps all from restoring the step.
        let file = step.join(&expected[2]);
        let mut bytes = std::fs::read(&file).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        std::fs::write(&file, bytes).unwrap();
        for said in play_all("restore", dir.path(), 4, 0) {
            assert_eq!(said, ["restored 2", "done"]);
        }
    }

    #[test]
    fn slow_process_is_named_and_the_next_save_succeeds() {
        let dir = tempfile::tempdir().unwrap();
        let mut actors = Actor::all("save late", dir.path(), 4, 2);
        for actor in &mut actors {
            assert_eq!(actor.line().as_deref(), Some("saved 1"));
        }
        for index in [0, 1, 3] {
            let error = actors[index].line().unwrap();
            assert!(error.contains("process 2 (") && error.contains("did not arrive"), "{error}");
        }
        writeln!(actors[2].input).unwrap();
        for actor in actors {
            let said = actor.rest();
            assert_eq!(said[said.len() - 2..], ["saved 3", "done"], "{said:?}");
        }
        assert_eq!(names(dir.path()), ["step-000000001", "step-000000003"]);
        assert_eq!(newest(dir.path()), Some(3));
    }

    /// Kills one or all of four processes at random instants, and checks that the newest step is
    /// intact and not older than any that a process has seen saved.
    fn kill(kills: usize, seed: u64) {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (mut interrupted, mut resumed) = (0, 0);
        let mut dir = tempfile::tempdir().unwrap();
        let mut kept = 0;
        for round in 0..kills {
            if random.random_range(0..8) == 0 {
                (dir, kept) = (tempfile::tempdir().unwrap(), 0);
            }
            let mut actors = Actor::all("save", dir.path(), 4, 100_000);
            // Mostly during saving, sometimes during start and cleanup.
            let lines = random.random_range(0..12usize).saturating_sub(2);
            let listened = random.random_range(0..4);
            for _ in 0..lines {
                actors[listened].line();
            }
            let longest = if lines == 0 { 300_000 } else { 20_000 };
            // The instant is random, because a kill must be safe at any time.
            std::thread::sleep(Duration::from_micros(random.random_range(0..longest)));
            let victim = random.random_range(0..5usize);
            for actor in actors.iter_mut().skip(victim % 4).take(if victim == 4 { 4 } else { 1 }) {
                actor.child.kill().unwrap();
            }
            for (index, actor) in actors.into_iter().enumerate() {
                let said = actor.rest();
                for line in &said {
                    let number = |prefix| line.strip_prefix(prefix).and_then(|n| n.parse().ok());
                    kept = kept.max(number("kept ").unwrap_or(0));
                    resumed += u64::from(index == 0 && number("from ").unwrap_or(0) > 0);
                }
                // The others end with an error: they never hang and never go on alone.
                let died = said.iter().any(|line| line.starts_with("error[distributed]"));
                assert!(
                    victim == 4 || victim == index || lines == 0 || died,
                    "round {round}, victim {victim}: process {index} said {said:?}"
                );
            }
            let left = names(dir.path()).iter().any(|name| name.starts_with('.'));
            interrupted += usize::from(left);
            let newest = newest(dir.path()).unwrap_or(0);
            assert!(newest >= kept, "round {round}: step {newest} is restored, {kept} was saved");
            assert!(names(dir.path()).iter().all(|name| name.starts_with("step-")));
            kept = newest;
        }
        println!("{kills} kills: {interrupted} left a part, {resumed} resumed from a step");
        assert!(interrupted >= kills / 20, "only {interrupted} of {kills} interrupted a save");
        assert!(resumed > kills as u64 / 3, "only {resumed} of {kills} resumed from a step");
    }

    #[test]
    fn twenty_kills_of_four_processes_lose_no_step() {
        kill(20, 17);
    }

    #[test]
    #[ignore = "ten minutes"]
    fn two_hundred_kills_of_four_processes_lose_no_step() {
        kill(200, 1);
    }
}
