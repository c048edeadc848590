//! The disk cache of programs over the devices of several processes.
//!
//! The compilers of such a program may communicate: if one process loaded the program while the
//! others compiled, those would wait for it. Therefore the processes vote. Each first tries to load
//! the program from its own cache, and then tells the others whether it has it. Only if all have
//! it do they use it. Otherwise all compile, and of the processes that share a cache folder one
//! writes. All see the same votes, so all decide alike.
//!
//! A vote that fails, because a process does not arrive in time or has died, ends with compiling,
//! and this process does not vote again: the cache costs at most one time-out.

use crate::core::Error;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// An exchange between some processes: passes bytes to all, and returns those of each.
pub(crate) trait Ballot {
    /// # Errors
    /// `Distributed` if a process does not arrive in time, or is lost.
    fn exchange(&self, topic: &str, mine: Vec<u8>) -> Result<BTreeMap<u32, Vec<u8>>, Error>;
}

/// A program as one process sees it.
pub(crate) trait SharedProgram {
    type Loaded;
    type Failure;
    /// Loads the program from this process's cache, if it is there and the plugin accepts it.
    fn load(&mut self) -> Option<Self::Loaded>;
    fn compile(&mut self) -> Result<Self::Loaded, Self::Failure>;
    /// Stores the program in this process's cache.
    fn store(&mut self, compiled: &Self::Loaded);
}

/// The processes that run a program, and the cache of this one.
pub(crate) struct Participant<'a> {
    pub(crate) index: u32,
    /// All processes with devices of the program, this one included.
    pub(crate) members: &'a [u32],
    /// A name of the program: equal in all processes, and different from that of other programs.
    pub(crate) topic: &'a str,
    /// The cache key and the identity of the folder. `None` if the cache is off.
    pub(crate) cache: Option<(String, String)>,
}

/// True once a vote of this process has failed.
#[derive(Debug)]
pub(crate) struct VotesFailed(AtomicBool);

impl VotesFailed {
    pub(crate) const fn new() -> VotesFailed {
        VotesFailed(AtomicBool::new(false))
    }
}

/// The vote of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Vote {
    /// True if the program was loaded.
    has_program: bool,
    /// The cache key and the identity of the folder; empty if the cache is off.
    key: String,
    folder: String,
}

impl Vote {
    fn encode(&self) -> Vec<u8> {
        format!("{}\n{}\n{}", u8::from(self.has_program), self.key, self.folder).into_bytes()
    }

    /// Decodes a vote. Anything else counts as a process without cache.
    fn decode(bytes: &[u8]) -> Vote {
        let text = String::from_utf8_lossy(bytes);
        let mut lines = text.split('\n');
        let has_program = lines.next() == Some("1");
        let mut line = || lines.next().unwrap_or_default().to_owned();
        Vote { has_program, key: line(), folder: line() }
    }
}

/// The decision of all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    /// Every process uses the program that it has loaded.
    Load,
    /// Every process compiles. `writes` is true in one process for each folder.
    Compile { writes: bool },
}

fn decide(votes: &BTreeMap<u32, Vote>, index: u32) -> Decision {
    let Some(mine) = votes.get(&index) else { return Decision::Compile { writes: false } };
    let is_equal = |vote: &Vote| vote.has_program && vote.key == mine.key;
    if mine.has_program && votes.values().all(is_equal) {
        return Decision::Load;
    }
    let shares = |vote: &Vote| vote.key == mine.key && vote.folder == mine.folder;
    let first = votes.iter().find(|(_, vote)| shares(vote)).map(|(index, _)| *index);
    Decision::Compile { writes: !mine.key.is_empty() && first == Some(index) }
}

/// Loads the program in all of its processes, or compiles it in all of them. The flag is true if it
/// was loaded.
///
/// # Errors
/// Errors of the compiler.
pub(crate) fn load_or_compile<P: SharedProgram>(
    participant: &Participant<'_>,
    ballot: &dyn Ballot,
    failed: &VotesFailed,
    program: &mut P,
) -> Result<(P::Loaded, bool), P::Failure> {
    let Participant { index, members, topic, cache } = participant;
    let votes = !failed.0.load(Ordering::Relaxed) && members.contains(index);
    let loaded = if votes && cache.is_some() { program.load() } else { None };
    let (key, folder) = cache.clone().unwrap_or_default();
    let decision = if votes {
        let vote = Vote { has_program: loaded.is_some(), key, folder };
        match ballot.exchange(topic, vote.encode()) {
            Ok(all) => {
                let all = all.iter().map(|(index, bytes)| (*index, Vote::decode(bytes))).collect();
                decide(&all, *index)
            }
            Err(error) => {
                failed.0.store(true, Ordering::Relaxed);
                tracing::warn!(
                    target: "oxidax::cache",
                    %error,
                    "the processes did not agree on a compiled program; this process compiles \
                     programs over several processes from now on"
                );
                Decision::Compile { writes: false }
            }
        }
    } else {
        Decision::Compile { writes: false }
    };
    match (decision, loaded) {
        (Decision::Load, Some(loaded)) => Ok((loaded, true)),
        (decision, unused) => {
            // Its memory on the devices is needed.
            drop(unused);
            let compiled = program.compile()?;
            if decision == (Decision::Compile { writes: true }) {
                program.store(&compiled);
            }
            Ok((compiled, false))
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use oxidax_cache::{About, CacheKeyBuilder, Lookup, Settings, Store};
    use std::path::Path;
    use std::sync::{Condvar, Mutex};
    use std::time::Duration;

    /// A program whose compiler is a closure, with a real cache folder.
    pub(crate) struct TestProgram<'a> {
        store: Option<Store>,
        key: oxidax_cache::CacheKey,
        compile: Box<dyn FnMut() -> Result<Vec<u8>, String> + 'a>,
        /// The steps that were taken: `load`, `compile`, `store`.
        pub(crate) done: Vec<&'static str>,
    }

    impl<'a> TestProgram<'a> {
        pub(crate) fn new(
            folder: Option<&Path>,
            name: &str,
            compile: impl FnMut() -> Result<Vec<u8>, String> + 'a,
        ) -> TestProgram<'a> {
            let store = folder.map(|f| Store::open(&Settings::in_folder(f)).unwrap().unwrap());
            let mut key = CacheKeyBuilder::new();
            key.part("program", name.as_bytes());
            TestProgram { store, key: key.finish(), compile: Box::new(compile), done: Vec::new() }
        }

        pub(crate) fn cache(&self) -> Option<(String, String)> {
            let store = self.store.as_ref()?;
            Some((self.key.to_string(), store.identity().unwrap()))
        }
    }

    impl SharedProgram for TestProgram<'_> {
        type Loaded = Vec<u8>;
        type Failure = String;

        fn load(&mut self) -> Option<Vec<u8>> {
            match self.store.as_ref()?.get(&self.key).unwrap() {
                // The plugin's check of a serialized program.
                Lookup::Found(entry) if entry.payload().starts_with(b"code") => {
                    self.done.push("load");
                    Some(entry.payload().to_vec())
                }
                _ => None,
            }
        }

        fn compile(&mut self) -> Result<Vec<u8>, String> {
            self.done.push("compile");
            (self.compile)()
        }

        fn store(&mut self, compiled: &Vec<u8>) {
            self.done.push("store");
            let about = About {
                name: "step".into(),
                platform: "test".into(),
                compile_time: Duration::from_secs(1),
            };
            self.store.as_ref().unwrap().put(&self.key, &about, compiled).unwrap();
        }
    }

    /// A ballot box between threads.
    #[derive(Default)]
    struct BallotBox {
        present: Mutex<BTreeMap<String, BTreeMap<u32, Vec<u8>>>>,
        changed: Condvar,
    }

    struct Member<'a> {
        room: &'a BallotBox,
        index: u32,
    }

    impl Ballot for Member<'_> {
        fn exchange(&self, topic: &str, mine: Vec<u8>) -> Result<BTreeMap<u32, Vec<u8>>, Error> {
            let mut present = self.room.present.lock().unwrap();
            present.entry(topic.to_owned()).or_default().insert(self.index, mine);
            self.room.changed.notify_all();
            let waits =
                |present: &mut BTreeMap<String, BTreeMap<u32, Vec<u8>>>| present[topic].len() < 3;
            let present = self.room.changed.wait_while(present, waits).unwrap();
            Ok(present[topic].clone())
        }
    }

    /// Nobody else arrives.
    struct Nobody;

    impl Ballot for Nobody {
        fn exchange(&self, _: &str, _: Vec<u8>) -> Result<BTreeMap<u32, Vec<u8>>, Error> {
            Err(Error::Plugin("process 1 did not arrive".into()))
        }
    }

    /// Runs a program in three processes with these cache folders. The compilers wait for each
    /// other, as those of GPUs may.
    fn run(round: &str, folders: [Option<&Path>; 3]) -> [Vec<&'static str>; 3] {
        let (room, compilers) = (BallotBox::default(), std::sync::Barrier::new(3));
        let play = |index: u32| {
            let compile = || {
                compilers.wait();
                Ok(b"code of the step".to_vec())
            };
            let mut program = TestProgram::new(folders[index as usize], "step", compile);
            let participant =
                Participant { index, members: &[0, 1, 2], topic: round, cache: program.cache() };
            let member = Member { room: &room, index };
            let failed = VotesFailed::new();
            let (code, from_disk) =
                load_or_compile(&participant, &member, &failed, &mut program).unwrap();
            assert_eq!(code, b"code of the step");
            assert_eq!(from_disk, !program.done.contains(&"compile"));
            program.done
        };
        std::thread::scope(|scope| {
            [0, 1, 2].map(|index| scope.spawn(move || play(index))).map(|t| t.join().unwrap())
        })
    }

    #[test]
    fn one_process_per_folder_writes_and_then_all_load() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [shared, own] = folders.each_ref().map(|folder| Some(folder.path()));
        let of = [shared, own, shared];
        assert_eq!(
            run("1", of),
            [vec!["compile", "store"], vec!["compile", "store"], vec!["compile"]]
        );
        assert_eq!(run("2", of), [["load"]; 3]);
    }

    #[test]
    fn a_process_without_the_program_makes_all_compile() {
        let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let paths = folders.each_ref().map(|folder| Some(folder.path()));
        run("1", paths);
        // A new host, or a damaged entry.
        for entry in std::fs::read_dir(folders[1].path()).unwrap() {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
        let load = vec!["load", "compile", "store"];
        assert_eq!(run("2", paths), [load.clone(), vec!["compile", "store"], load]);
        assert_eq!(run("3", paths), [["load"]; 3]);
        // The cache of process 2 is off.
        let off = [paths[0], paths[1], None];
        let load = vec!["load", "compile", "store"];
        assert_eq!(run("4", off), [load.clone(), load, vec!["compile"]]);
        assert_eq!(run("5", [None; 3]), [["compile"]; 3]);
    }

    #[test]
    fn a_failed_vote_is_the_last() {
        let folder = tempfile::tempdir().unwrap();
        let failed = VotesFailed::new();
        for _ in 0..2 {
            let mut program = TestProgram::new(Some(folder.path()), "s", || Ok(b"code".to_vec()));
            let cache = program.cache();
            let participant = Participant { index: 0, members: &[0, 1], topic: "t", cache };
            let (_, from_disk) =
                load_or_compile(&participant, &Nobody, &failed, &mut program).unwrap();
            assert_eq!((from_disk, program.done), (false, vec!["compile"]));
            assert!(failed.0.load(Ordering::Relaxed));
        }
    }

    #[test]
    fn errors_of_the_compiler_are_returned_and_nothing_is_stored() {
        struct Alone;
        impl Ballot for Alone {
            fn exchange(&self, _: &str, mine: Vec<u8>) -> Result<BTreeMap<u32, Vec<u8>>, Error> {
                Ok([(0, mine.clone()), (1, mine)].into())
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let mut program = TestProgram::new(Some(folder.path()), "s", || Err("no".to_owned()));
        let cache = program.cache();
        let participant = Participant { index: 0, members: &[0, 1], topic: "t", cache };
        let failed = VotesFailed::new();
        assert_eq!(load_or_compile(&participant, &Alone, &failed, &mut program), Err("no".into()));
        assert_eq!(program.done, ["compile"]);
    }

    #[test]
    fn votes_decide_alike_everywhere() {
        let vote = |has_program: bool, key: &str, folder: &str| Vote {
            has_program,
            key: key.to_owned(),
            folder: folder.to_owned(),
        };
        let all = |votes: &[Vote]| -> BTreeMap<u32, Vote> {
            votes.iter().cloned().zip(4..).map(|(vote, index)| (index, vote)).collect()
        };
        let with = all(&[vote(true, "k", "f"), vote(true, "k", "g")]);
        assert_eq!([4, 5].map(|index| decide(&with, index)), [Decision::Load; 2]);
        // Two builds of the plugin have two keys, and both write.
        let builds = all(&[vote(true, "k", "f"), vote(true, "l", "f")]);
        let writes = Decision::Compile { writes: true };
        assert_eq!([4, 5].map(|index| decide(&builds, index)), [writes; 2]);
        let off = all(&[vote(true, "k", "f"), Vote::decode(b"\xFF")]);
        let silent = Decision::Compile { writes: false };
        assert_eq!([4, 5, 6].map(|index| decide(&off, index)), [writes, silent, silent]);
        for vote in [vote(true, "k", "f"), vote(false, "", "")] {
            assert_eq!(Vote::decode(&vote.encode()), vote);
        }
    }
}
