//! Saving by several processes, as threads that share a storage in memory. Which shards a process
//! writes is an input.

#![allow(clippy::unwrap_used, reason = "in a test, unwrapping is the assertion")]

use super::commit::{Commit, Prepared};
use super::contents::Contents;
use super::folder::Folder;
use super::group::{Group, solo};
use super::local_shards::{HostArray, LeafType, LocalShards};
use super::manifest::ShardedArray;
use super::memory_storage::Memory;
use super::snapshot::Snapshot;
use super::steps::StepFolder;
use crate::core::{Aval, DType, DistributedErrorKind, Error, Shape};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};

/// Threads that exchange messages as processes do.
#[derive(Default)]
struct Rounds {
    messages: BTreeMap<u64, BTreeMap<usize, Vec<u8>>>,
    dead: Option<usize>,
}

type Table = Arc<(Mutex<Rounds>, Condvar)>;

struct Process {
    index: usize,
    count: usize,
    table: Table,
    /// The number of the next exchange, and of the one before which this process dies.
    next: Mutex<u64>,
    dies_before: Option<u64>,
}

fn lost(index: usize) -> Error {
    Error::Distributed {
        kind: DistributedErrorKind::Lost,
        doing: "exchange".into(),
        message: format!("process {index} died"),
        processes: vec![index],
        help: None,
    }
}

impl Group for Process {
    fn index(&self) -> usize {
        self.index
    }

    fn count(&self) -> usize {
        self.count
    }

    fn name(&self, index: usize) -> String {
        format!("process {index}")
    }

    fn exchange(&self, message: Vec<u8>) -> Result<Vec<Vec<u8>>, Error> {
        let round = {
            let mut next = self.next.lock().unwrap();
            *next += 1;
            *next - 1
        };
        let (rounds, changed) = &*self.table;
        let mut rounds = rounds.lock().unwrap();
        if self.dies_before == Some(round) {
            rounds.dead = Some(self.index);
            changed.notify_all();
            return Err(lost(self.index));
        }
        rounds.messages.entry(round).or_default().insert(self.index, message);
        changed.notify_all();
        loop {
            let all = &rounds.messages[&round];
            if all.len() == self.count {
                return Ok(all.values().cloned().collect());
            }
            if let Some(dead) = rounds.dead {
                return Err(lost(dead));
            }
            rounds = changed.wait(rounds).unwrap();
        }
    }
}

const RUN: &str = "run";

/// Leaves of several dtypes: those cut by rows, by columns, a whole one of process 1, and a copy.
fn leaves() -> BTreeMap<String, LeafType> {
    let leaf = |name: &str, dtype, shape: &[usize]| {
        (name.to_owned(), LeafType { dtype, shape: shape.to_vec() })
    };
    BTreeMap::from([
        leaf("columns", DType::I4, &[3, 16]),
        leaf("copy", DType::U64, &[3]),
        leaf("packed", DType::F4E2M1FN, &[16, 6]),
        leaf("pairs", DType::C128, &[8, 2]),
        leaf("rows", DType::F32, &[64, 48]),
        leaf("whole", DType::BF16, &[5]),
    ])
}

/// Returns the host bytes of a leaf at a step.
fn bytes_of(name: &str, leaf: &LeafType, step: u64) -> Vec<u8> {
    let size: usize = leaf.shape.iter().product();
    let seed = name.len() as u64 * 31 + step;
    let bytes = (0..size * leaf.dtype.host_bytes()).map(|at| {
        let mixed = (at as u64 + seed).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        mixed as u8
    });
    let narrow = leaf.dtype.bits() < 8;
    bytes.map(|byte| if narrow { byte & 7 } else { byte }).collect()
}

/// Returns the indices of part `number` of `count` of a leaf, or `None` if it is not cut.
fn part_of(name: &str, shape: &[usize], number: usize, count: usize) -> Option<Vec<Range<usize>>> {
    let axis = match name {
        "columns" => 1,
        "packed" | "pairs" | "rows" => 0,
        _ => return None,
    };
    let mut index: Vec<Range<usize>> = shape.iter().map(|&size| 0..size).collect();
    let size = shape[axis] / count;
    index[axis] = number * size..(number + 1) * size;
    Some(index)
}

/// Returns what process `index` of `count` writes.
fn shards(index: usize, count: usize, step: u64) -> LocalShards {
    let mut shards = LocalShards { leaves: leaves(), ..LocalShards::default() };
    for (name, leaf) in leaves() {
        let bytes = bytes_of(&name, &leaf, step);
        let Some(part) = part_of(&name, &leaf.shape, index, count) else {
            let owner = if name == "whole" { 1 % count } else { 0 };
            if name == "copy" {
                shards.copies.insert(name.clone(), crc32c::crc32c(&bytes));
            }
            if owner == index {
                shards.arrays.push(HostArray::new(name, leaf.aval(), bytes));
            }
            continue;
        };
        let shape: Vec<usize> = part.iter().map(Range::len).collect();
        let width = leaf.dtype.host_bytes();
        let elements = Shape::new(&leaf.shape).read_slice(&part, width, &bytes);
        let shard = format!("{name}@{index}");
        let starts = BTreeMap::from([(shard.clone(), part.iter().map(|r| r.start).collect())]);
        shards.sharded.insert(name, ShardedArray { shape: leaf.shape.clone(), starts });
        shards.arrays.push(HostArray::new(shard, Aval::new(leaf.dtype, shape), elements));
    }
    shards
}

fn prepared(shards: LocalShards) -> Prepared {
    Prepared { shards, position: None, notes: BTreeMap::new() }
}

/// Saves a step by `views.len()` processes, and returns the outcome of each.
fn save_with(
    views: &[Memory],
    step: u64,
    dies: Option<(usize, u64)>,
    prepare: impl Fn(usize) -> Result<Prepared, Error> + Sync,
) -> Vec<Result<(), String>> {
    let table = Table::default();
    std::thread::scope(|scope| {
        let start = |(index, memory): (usize, &Memory)| {
            let steps = StepFolder::new(Arc::new(memory.clone()), Path::new(RUN));
            let dies_before = dies.filter(|(victim, _)| *victim == index).map(|(_, at)| at);
            let (count, table, next) = (views.len(), table.clone(), Mutex::new(0));
            let group = Arc::new(Process { index, count, table, next, dies_before });
            let commit = Commit { steps, group, lock: None, step, chunk_bytes: 64 };
            let prepare = &prepare;
            scope.spawn(move || commit.run(prepare(index), || Ok(())).map_err(|e| e.to_string()))
        };
        let threads: Vec<_> = views.iter().enumerate().map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn save(memory: &Memory, step: u64, count: usize) {
    let views = vec![memory.clone(); count];
    let saved = save_with(&views, step, None, |index| Ok(prepared(shards(index, count, step))));
    assert!(saved.iter().all(Result::is_ok), "{saved:?}");
}

fn steps_of(memory: &Memory) -> Vec<u64> {
    StepFolder::new(Arc::new(memory.clone()), Path::new(RUN)).list().unwrap()
}

fn open(memory: &Memory, step: u64) -> Result<Contents, String> {
    let storage: Arc<dyn super::storage::Storage> = Arc::new(memory.clone());
    let path = StepFolder::new(storage.clone(), Path::new(RUN)).path(step);
    Contents::checkpoint(&storage, &path).map_err(|fault| fault.error.to_string())
}

/// Checks that all slices for `count` processes equal what was saved.
#[track_caller]
fn expect_saved(memory: &Memory, step: u64, count: usize) {
    let contents = open(memory, step).unwrap();
    assert_eq!(contents.names().collect::<std::collections::BTreeSet<_>>().len(), leaves().len());
    for (name, leaf) in leaves() {
        let bytes = bytes_of(&name, &leaf, step);
        let read = contents.read(&name).unwrap_or_else(|fault| panic!("{}", fault.error));
        assert!(read == bytes, "{name}");
        for number in 0..count {
            let Some(part) = part_of(&name, &leaf.shape, number, count) else { continue };
            let width = leaf.dtype.host_bytes();
            let expected = Shape::new(&leaf.shape).read_slice(&part, width, &bytes);
            let read = contents.read_slice(&name, &part);
            let read = read.unwrap_or_else(|fault| panic!("{}", fault.error));
            assert!(read == expected, "part {number} of {count} of {name}");
        }
    }
}

fn root(memory: &Memory) {
    super::storage::Storage::create_folders(memory, Path::new(RUN)).unwrap();
}

/// Returns the paths of files without those of visible steps.
fn leftovers(memory: &Memory) -> Vec<PathBuf> {
    let steps = StepFolder::new(Arc::new(memory.clone()), Path::new(RUN));
    let visible: Vec<PathBuf> = steps_of(memory).into_iter().map(|step| steps.path(step)).collect();
    // The name of the program that opened the folder last stays.
    let is_left = |path: &PathBuf| {
        !visible.iter().any(|step| path.starts_with(step)) && !path.ends_with(".writer")
    };
    memory.paths().into_iter().filter(is_left).collect()
}

#[test]
fn saved_by_any_number_of_processes_and_read_by_any_other() {
    for renames in [true, false] {
        for writers in [1, 2, 4, 8] {
            let memory = Memory::new(renames);
            root(&memory);
            save(&memory, 7, writers);
            for readers in [1, 2, 4, 8] {
                expect_saved(&memory, 7, readers);
            }
            assert_eq!(leftovers(&memory), [] as [PathBuf; 0]);
            // The step is replaced.
            save(&memory, 7, 2);
            expect_saved(&memory, 7, 8);
            assert_eq!((steps_of(&memory), leftovers(&memory).len()), (vec![7], 0));
        }
    }
}

#[test]
fn only_the_needed_bytes_are_read() {
    let memory = Memory::new(true);
    root(&memory);
    for writers in [1, 4] {
        save(&memory, writers as u64, writers);
        let contents = open(&memory, writers as u64).unwrap();
        memory.take_read();
        let leaf = &leaves()["rows"];
        let whole = (64 * 48 * 4) as u64;
        for part in [vec![8..16, 0..48], vec![0..64, 0..6], vec![63..64, 47..48]] {
            drop(contents.read_slice("rows", &part));
            // Each run of bytes is completed to parts of 64 bytes.
            let runs = if part[1].len() == 48 { 1 } else { part[0].len() as u64 };
            let run = (part[0].len() * part[1].len() * 4) as u64 / runs;
            let read = memory.take_read();
            assert!(read <= runs * (run.next_multiple_of(64) + 64), "{part:?}: {read} bytes");
            assert!(read < whole / 2, "{part:?}: {read} of {whole} bytes");
        }
        assert_eq!(leaf.shape, [64, 48]);
    }
}

#[test]
fn changed_parts_are_noticed_when_they_are_read() {
    let memory = Memory::new(true);
    root(&memory);
    save(&memory, 1, 1);
    let path = Path::new(RUN).join("step-000000001/arrays.safetensors");
    let contents = open(&memory, 1).unwrap();
    let header = u64::from_le_bytes(memory_bytes(&memory, &path)[..8].try_into().unwrap());
    let rows = contents.entry("rows").unwrap();
    let at = 8 + header as usize + rows.start as usize + 5 * 48 * 4;
    memory.change(&path, |bytes| bytes[at] ^= 1);
    let contents = open(&memory, 1).unwrap();
    assert!(contents.read_slice("rows", &[32..64, 0..48]).is_ok());
    for slice in [[0..8, 0..48], [0..64, 0..1]] {
        let fault = contents.read_slice("rows", &slice).err().unwrap();
        assert!(fault.damage && fault.error.to_string().contains("`rows@0`"), "{}", fault.error);
    }
    assert!(contents.read("rows").is_err_and(|fault| fault.damage));
}

fn memory_bytes(memory: &Memory, path: &Path) -> Vec<u8> {
    let mut copy = Vec::new();
    memory.change(path, |bytes| copy = bytes.clone());
    copy
}

#[test]
fn full_disk_of_one_process_fails_all() {
    for renames in [true, false] {
        for (victim, room) in [(0, 0), (0, 6100), (2, 0), (2, 2000), (3, 4000)] {
            let memory = Memory::new(renames);
            root(&memory);
            save(&memory, 1, 4);
            let mut views = vec![memory.clone(); 4];
            views[victim] = memory.with_room(room);
            for step in [1, 2] {
                let saved =
                    save_with(&views, step, None, |index| Ok(prepared(shards(index, 4, step + 8))));
                for (index, outcome) in saved.iter().enumerate() {
                    let error = outcome.as_ref().err().unwrap_or_else(|| {
                        panic!("process {index} saved, {victim} had {room} bytes, {renames}")
                    });
                    assert!(error.contains("no storage space"), "{error}");
                    let names = error.contains(&format!("on process {victim}: "));
                    assert!(names || index == victim, "{error}");
                }
                assert_eq!((steps_of(&memory), leftovers(&memory)), (vec![1], vec![]));
                expect_saved(&memory, 1, 4);
            }
            save(&memory, 2, 4);
            assert_eq!(steps_of(&memory), [1, 2]);
        }
    }
}

#[test]
fn death_of_a_process_fails_the_others() {
    for renames in [true, false] {
        for (victim, exchange) in (0..4).flat_map(|victim| (0..3).map(move |at| (victim, at))) {
            let memory = Memory::new(renames);
            root(&memory);
            save(&memory, 1, 4);
            let dies = Some((victim, exchange));
            let views = vec![memory.clone(); 4];
            let saved = save_with(&views, 2, dies, |index| Ok(prepared(shards(index, 4, 2))));
            for outcome in saved {
                assert_eq!(
                    outcome.unwrap_err(),
                    format!("error[distributed]: exchange: process {victim} died")
                );
            }
            // Before the last exchange process 0 has already made the step visible.
            let steps = steps_of(&memory);
            assert!(steps == [1] || steps == [1, 2] && exchange == 2, "{steps:?}");
            let storage: Arc<dyn super::storage::Storage> = Arc::new(memory.clone());
            drop(Folder::open_in(storage, solo(), Path::new(RUN)).unwrap());
            assert_eq!(leftovers(&memory), [] as [PathBuf; 0]);
            steps.iter().for_each(|&step| expect_saved(&memory, step, 2));
        }
    }
}

#[test]
fn error_before_writing_reaches_all() {
    let memory = Memory::new(true);
    root(&memory);
    let saved = save_with(&vec![memory.clone(); 3], 1, None, |index| match index {
        1 => Err(Error::Runtime {
            doing: "reading an array".into(),
            code: None,
            message: "the computation failed".into(),
            help: None,
            loc: crate::core::Loc::UNKNOWN,
        }),
        _ => Ok(prepared(shards(index, 3, 1))),
    });
    for (index, outcome) in saved.into_iter().enumerate() {
        let error = outcome.unwrap_err();
        assert!(error.contains("the computation failed"), "{error}");
        assert!(index == 1 || error.contains("on process 1: "), "{error}");
    }
    assert_eq!(memory.paths(), [] as [PathBuf; 0]);
}

/// Saves a step of which process 1 of 2 contributes something else.
fn contradiction(change: impl Fn(&mut Prepared) + Sync) -> String {
    let memory = Memory::new(true);
    root(&memory);
    save(&memory, 1, 2);
    let saved = save_with(&vec![memory.clone(); 2], 2, None, |index| {
        let mut prepared = prepared(shards(index, 2, 2));
        if index == 1 {
            change(&mut prepared);
        }
        Ok(prepared)
    });
    assert_eq!((steps_of(&memory), leftovers(&memory)), (vec![1], vec![]));
    let errors: Vec<String> = saved.into_iter().map(Result::unwrap_err).collect();
    assert!(errors[1].contains("on process 0: "), "{}", errors[1]);
    errors.into_iter().next().unwrap()
}

#[test]
fn incomplete_and_contradictory_shards_are_refused() {
    let find = |prepared: &mut Prepared, name: &str| {
        prepared.shards.arrays.iter().position(|array| array.name == name).unwrap()
    };
    let error = contradiction(|prepared| {
        let at = find(prepared, "rows@1");
        prepared.shards.arrays.remove(at);
        prepared.shards.sharded.remove("rows");
    });
    assert!(error.contains("`rows`: they have 1536 elements, f32[64, 48] has 3072"), "{error}");
    let error = contradiction(|prepared| {
        let starts = &mut prepared.shards.sharded.get_mut("rows").unwrap().starts;
        starts.insert("rows@1".into(), vec![16, 0]);
    });
    assert!(error.contains("`rows@0` and `rows@1` overlap"), "{error}");
    let error = contradiction(|prepared| {
        let at = find(prepared, "whole");
        prepared.shards.arrays.remove(at);
    });
    assert!(error.contains("leaf `whole` (bf16[5]) was not written"), "{error}");
    let error = contradiction(|prepared| {
        let extra = Aval::new(DType::U8, [1]);
        prepared.shards.arrays.push(HostArray::new("extra".into(), extra, vec![1]));
    });
    assert!(error.contains("`extra` was written and is not a leaf"), "{error}");
    let error = contradiction(|prepared| {
        let copy = LeafType { dtype: DType::U64, shape: vec![3] };
        let bytes = bytes_of("copy", &copy, 2);
        prepared.shards.arrays.push(HostArray::new("copy".into(), copy.aval(), bytes));
    });
    assert!(error.contains("array `copy` is in two files"), "{error}");
    let error = contradiction(|prepared| {
        prepared.shards.copies.insert("copy".into(), 1);
    });
    assert!(error.contains("leaf `copy` has different elements on process 0 and"), "{error}");
    let error = contradiction(|prepared| {
        prepared.shards.leaves.get_mut("rows").unwrap().dtype = DType::I32;
    });
    let expected = "leaf `rows` is f32[64,48] on process 0 and i32[64,48] on process 1";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn processes_at_different_steps_are_named() {
    let memory = Memory::new(true);
    root(&memory);
    let table = Table::default();
    let outcomes: Vec<Result<(), Error>> = std::thread::scope(|scope| {
        let threads = [0, 1].map(|index| {
            let steps = StepFolder::new(Arc::new(memory.clone()), Path::new(RUN));
            let (table, next) = (table.clone(), Mutex::new(0));
            let group = Process { index, count: 2, table, next, dies_before: None };
            let (group, step) = (Arc::new(group), index as u64 + 5);
            let commit = Commit { steps, group, lock: None, step, chunk_bytes: 64 };
            scope.spawn(move || commit.run(Ok(prepared(shards(index, 2, 1))), || Ok(())))
        });
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let error = outcomes[0].as_ref().unwrap_err().to_string();
    assert!(
        error.contains("saving step 5: beginning: process 1 is at `saving step 6: beginning`"),
        "{error}"
    );
    assert!(outcomes[1].is_err());
    assert_eq!(memory.paths(), [] as [PathBuf; 0]);
}

#[cfg(feature = "data")]
mod on_cpu {
    use super::*;
    use crate::data::{Position, Stream};

    fn position(read: usize) -> Position {
        let mut stream = Stream::new((0..9).map(Ok));
        stream.by_ref().take(read).for_each(drop);
        stream.position()
    }

    fn save_positions(read: [usize; 2]) -> Memory {
        let memory = Memory::new(true);
        root(&memory);
        let saved = save_with(&vec![memory.clone(); 2], 1, None, |index| {
            let bytes = vec![1, 2, 3, 4];
            let leaf = LeafType { dtype: DType::F32, shape: vec![1] };
            let leaves = BTreeMap::from([("array".to_owned(), leaf.clone())]);
            let array = HostArray::new("array".into(), leaf.aval(), bytes);
            let arrays = if index == 0 { vec![array] } else { Vec::new() };
            let shards = LocalShards { arrays, leaves, ..LocalShards::default() };
            let position = Some(position(read[index]));
            Ok(Prepared { shards, position, notes: BTreeMap::new() })
        });
        assert!(saved.iter().all(Result::is_ok), "{saved:?}");
        memory
    }

    #[test]
    fn positions_of_processes_are_not_mixed_up() {
        let restore = |memory: &Memory| {
            let storage: Arc<dyn crate::checkpoint::storage::Storage> = Arc::new(memory.clone());
            let mut folder = Folder::open_in(storage, solo(), Path::new(RUN)).unwrap();
            folder.restore_latest(&crate::prelude::ones([1])).map(Option::unwrap)
        };
        let equal = restore(&save_positions([3, 3])).unwrap();
        assert_eq!(equal.position, Some(position(3)));
        let error = restore(&save_positions([3, 4])).unwrap_err().to_string();
        assert!(error.contains("the 2 processes that saved it had different positions"), "{error}");
    }

    #[test]
    fn a_program_whose_folder_another_one_opened_is_told_and_changes_nothing() {
        let memory = Memory::new(false);
        let storage: Arc<dyn crate::checkpoint::storage::Storage> = Arc::new(memory.clone());
        let state = crate::prelude::ones([3]);
        let open = || Folder::open_in(storage.clone(), solo(), Path::new(RUN)).unwrap();
        let mut first = open().keep_last(1);
        first.save(Snapshot::new(1, &state)).unwrap();
        first.wait().unwrap();
        let mut second = open();
        second.save(Snapshot::new(2, &state)).unwrap();
        second.wait().unwrap();
        // The second program is in the middle of step 3.
        let unfinished = Path::new(RUN).join("step-000000003/arrays.0123456789abcdef.safetensors");
        super::super::storage::Storage::put(&memory, &unfinished, b"x").unwrap();
        let before = memory.paths();
        first.save(Snapshot::new(3, &state)).unwrap();
        let errors = [first.wait(), first.remove_after(1)];
        for error in errors.map(|outcome| outcome.unwrap_err().to_string()) {
            let own = format!("process {} on host `", std::process::id());
            assert_eq!(error.matches(&own).count(), 2, "{error}");
            assert!(error.contains("only one program can save into it\n  help: end"), "{error}");
        }
        assert_eq!(memory.paths(), before);
        // Reading is still possible, and the second program continues.
        assert_eq!(first.restore_latest(&state).unwrap().unwrap().step, 2);
        second.save(Snapshot::new(3, &state)).unwrap();
        second.wait().unwrap();
        assert_eq!(second.steps().unwrap(), [1, 2, 3]);
        // A name that somebody deleted is written again.
        let name = Path::new(RUN).join(".writer");
        super::super::storage::Storage::remove(&memory, &name).unwrap();
        second.save(Snapshot::new(4, &state)).unwrap();
        second.close().unwrap();
        assert!(memory.paths().contains(&name));
    }

    #[test]
    fn a_storage_without_renaming_keeps_the_steps_of_a_run() {
        let memory = Memory::new(false);
        let storage: Arc<dyn crate::checkpoint::storage::Storage> = Arc::new(memory.clone());
        let state = |step: u64| crate::prelude::full([3], step as f32);
        let mut folder =
            Folder::open_in(storage.clone(), solo(), Path::new(RUN)).unwrap().keep_last(2);
        for step in [1, 2, 3, 3] {
            folder.save(Snapshot::new(step, &state(step))).unwrap();
        }
        folder.wait().unwrap();
        assert_eq!(folder.steps().unwrap(), [2, 3]);
        // Two steps of two files, and the name of the program.
        assert_eq!(memory.paths().len(), 5, "{:?}", memory.paths());
        // Killed while step 4 was written, step 3 replaced, and step 1 removed.
        let put = |path: &str| {
            let path = Path::new(RUN).join(path);
            super::super::storage::Storage::put(&memory, &path, b"x").unwrap();
        };
        put("step-000000004/arrays.0123456789abcdef.safetensors");
        put("step-000000003/arrays.0123456789abcdef.safetensors");
        put("step-000000001/arrays.0123456789abcdef.safetensors");
        assert_eq!(folder.steps().unwrap(), [2, 3]);
        folder.close().unwrap();
        let mut folder = Folder::open_in(storage, solo(), Path::new(RUN)).unwrap();
        // Two steps of two files, and the name of the program.
        assert_eq!(memory.paths().len(), 5, "{:?}", memory.paths());
        let restored = folder.restore_latest(&state(0)).unwrap().unwrap();
        assert_eq!(restored.step, 3);
        assert_eq!(restored.state.to_vec::<f32>().unwrap(), [3.0; 3]);
        folder.remove_after(2).unwrap();
        assert_eq!((folder.steps().unwrap(), memory.paths().len()), (vec![2], 3));
    }
}
