//! Kills of processes that load and compile programs together, with real processes, a real
//! coordinator and real cache folders. As in `shared_programs_tests`, the compiler is the test's.

#![allow(clippy::unwrap_used, reason = "in a test, unwrapping is the assertion")]
#![allow(clippy::print_stdout, reason = "a long run reports what it did")]

use super::session::session;
use super::shared_programs_tests::{MARK, Voters};
use super::{ClusterConfig, initialize, process_index, shutdown};
use crate::core::Error;
use crate::runtime::{
    Ballot, Participant, SharedProgram, TestProgram, VotesFailed, load_or_compile, process_count,
};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Time-out of the processes.
const PATIENCE: Duration = Duration::from_secs(60);
/// A process that is silent for this long waits for ever, because it exceeds its time-out.
const HANGS: Duration = Duration::from_secs(180);
const COUNT: usize = 4;
/// Programs of a process, of which the first `KNOWN` have been compiled before.
const EACH: usize = 5;
const KNOWN: usize = 2;

/// Prints a line for the process that started this one.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{MARK}{text}").unwrap();
    out.flush().unwrap();
}

/// Returns the next line of the process that started this one.
fn input() -> String {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

/// Returns the bytes of a compiled program. They are so many that writing them can be interrupted.
fn code(name: &str) -> Vec<u8> {
    let number: u64 = name.parse().unwrap();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(number);
    let block: Vec<u8> = (0..1 << 13).flat_map(|_| random.random::<u64>().to_le_bytes()).collect();
    [b"code".to_vec(), block.repeat(1 << 6)].concat()
}

/// Prints the steps of a process before it takes them.
struct Announced<'a> {
    name: &'a str,
    program: TestProgram<'a>,
}

impl SharedProgram for Announced<'_> {
    type Loaded = Vec<u8>;
    type Failure = String;

    fn load(&mut self) -> Option<Vec<u8>> {
        say(&format!("loading {}", self.name));
        self.program.load()
    }

    fn compile(&mut self) -> Result<Vec<u8>, String> {
        say(&format!("compiling {}", self.name));
        self.program.compile()
    }

    fn store(&mut self, compiled: &Vec<u8>) {
        say(&format!("storing {}", self.name));
        self.program.store(compiled);
    }
}

struct AnnouncedVote<'a>(&'a str, Voters);

impl Ballot for AnnouncedVote<'_> {
    fn exchange(&self, topic: &str, mine: Vec<u8>) -> Result<BTreeMap<u32, Vec<u8>>, Error> {
        say(&format!("voting {}", self.0));
        let votes = self.1.exchange(topic, mine);
        if votes.is_ok() {
            say(&format!("voted {}", self.0));
        }
        votes
    }
}

#[test]
#[ignore = "the body of the child processes"]
fn play() {
    let (folder, programs) = (PathBuf::from(input()), input());
    let config = ClusterConfig::new().initialization_timeout(PATIENCE).timeout(PATIENCE);
    if let Err(error) = initialize(config.shutdown_timeout(PATIENCE)) {
        // The coordinator was killed after it took this process in and before its answer arrived.
        assert!(error.to_string().contains("no coordinator"), "{error}");
        return say("missed .");
    }
    say("joined .");
    let members: Vec<u32> = (0..process_count() as u32).collect();
    let failed = VotesFailed::new();
    for name in programs.split(' ') {
        let compile = || {
            // Compilers wait for each other. One whose peer has died goes on alone.
            let place = format!("compilers of {name}");
            let met = session("compiling")
                .and_then(|all| all.meet("compiling", &place, &members, PATIENCE, Vec::new()));
            drop(met);
            Ok(code(name))
        };
        let program = TestProgram::new(Some(&folder), name, compile);
        let cache = program.cache();
        let index = process_index() as u32;
        let participant = Participant { index, members: &members, topic: name, cache };
        let ballot = AnnouncedVote(name, Voters(members.clone()));
        let mut program = Announced { name, program };
        let (loaded, from_disk) =
            load_or_compile(&participant, &ballot, &failed, &mut program).unwrap();
        assert!(loaded == code(name), "program {name} is damaged; loaded: {from_disk}");
        say(&format!("{} {name}", if from_disk { "loaded" } else { "compiled" }));
    }
    // It fails in the processes that have lost one.
    let left = shutdown();
    say(if left.is_ok() { "left ." } else { "lost ." });
}

/// A line of a process: a step, and the program that it is for.
type Line = (String, String);

struct Actor {
    child: Child,
    said: Receiver<Line>,
    heard: Vec<Line>,
    was_killed: bool,
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
    fn start(index: usize, folder: &Path, address: &str, programs: &str) -> Actor {
        let play = "distributed::shared_programs_kills::play";
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", play, "--ignored", "--nocapture", "--test-threads=1"])
            .env("OXIDAX_COORDINATOR", address)
            .env("OXIDAX_PROCESSES", COUNT.to_string())
            .env("OXIDAX_PROCESS_ID", index.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        writeln!(input, "{}\n{programs}", folder.display()).unwrap();
        let (line, said) = channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for text in out.lines().map_while(Result::ok) {
                let Some(text) = text.strip_prefix(MARK) else { continue };
                // The last line of a killed process may be cut.
                let Some((step, program)) = text.split_once(' ') else { continue };
                if line.send((step.to_owned(), program.to_owned())).is_err() {
                    return;
                }
            }
        });
        Actor { child, said, heard: Vec::new(), was_killed: false }
    }

    /// Starts a generation of processes: process `i` has the folder `i`, or the last one.
    fn all(folders: &[PathBuf], programs: &[usize]) -> Vec<Actor> {
        let programs: Vec<String> = programs.iter().map(usize::to_string).collect();
        let (address, programs) = (address(), programs.join(" "));
        let folder = |index: usize| &folders[index.min(folders.len() - 1)];
        let start = |index| Actor::start(index, folder(index), &address, &programs);
        (0..COUNT).map(start).collect()
    }

    /// Waits for the next line; `None` if the process has ended.
    #[track_caller]
    fn line(&mut self) -> Option<&Line> {
        match self.said.recv_timeout(HANGS) {
            Ok(line) => {
                self.heard.push(line);
                self.heard.last()
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(error) => panic!("{error}: a process waits after {:?}", self.heard),
        }
    }

    /// Waits for a line, or for the end of the process.
    fn wait_for(&mut self, step: &str, program: &str) {
        while let Some((said, of)) = self.line() {
            if said == step && of == program {
                return;
            }
        }
    }

    fn kill(&mut self) {
        self.was_killed = true;
        self.child.kill().unwrap();
    }

    /// Waits for the end. A process that joined and was not killed has succeeded with all programs.
    #[track_caller]
    fn finish(&mut self, programs: &[usize]) {
        while self.line().is_some() {}
        let status = self.child.wait().unwrap();
        if self.was_killed && status.code().is_none() {
            return;
        }
        assert!(status.success(), "{status} after {:?}", self.heard);
        if self.has_missed() {
            return;
        }
        for program in programs {
            assert!(self.outcome(*program).is_some(), "{program} is not in {:?}", self.heard);
        }
    }

    /// Returns true if the process could not join because its coordinator did not answer.
    fn has_missed(&self) -> bool {
        self.heard.iter().any(|(said, _)| said == "missed")
    }

    fn has_said(&self, step: &str, program: usize) -> bool {
        let program = program.to_string();
        self.heard.iter().any(|(said, of)| said == step && *of == program)
    }

    /// Returns `loaded` or `compiled`, if the process has finished a program.
    fn outcome(&self, program: usize) -> Option<&'static str> {
        ["loaded", "compiled"].into_iter().find(|step| self.has_said(step, program))
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        // No process survives a failed assertion.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Returns the files of interrupted writes.
fn interrupted(folders: &[PathBuf]) -> usize {
    let entries = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(".new-")).count()
}

/// Checks that the processes that received the votes on a program decided alike, and that those who
/// share a folder did not write twice. Returns the programs that processes loaded.
#[track_caller]
fn check_decisions(actors: &[Actor], programs: &[usize], are_shared: bool) -> BTreeSet<usize> {
    let mut loaded = BTreeSet::new();
    for &program in programs {
        let voters = actors.iter().filter(|actor| actor.has_said("voted", program));
        let outcomes: BTreeSet<&str> = voters.filter_map(|actor| actor.outcome(program)).collect();
        assert!(outcomes.len() < 2, "program {program}: {outcomes:?}");
        let writers = actors.iter().filter(|actor| actor.has_said("storing", program)).count();
        assert!(!are_shared || writers < 2, "{writers} processes wrote program {program}");
        if outcomes.contains("loaded") {
            loaded.insert(program);
        }
    }
    loaded
}

/// Steps of a process at which it or another one is killed.
const STEPS: [&str; 5] = ["joined", "loading", "voting", "compiling", "storing"];

/// Kills one or all of four processes at random instants. The survivors go on, and so does the next
/// generation of four.
fn kill(kills: usize, seed: u64, are_shared: bool) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let dir = tempfile::tempdir().unwrap();
    let count = if are_shared { 1 } else { COUNT };
    let folders: Vec<PathBuf> =
        (0..count).map(|index| dir.path().join(index.to_string())).collect();
    let whole = |programs: &[usize]| {
        let mut actors = Actor::all(&folders, programs);
        for actor in &mut actors {
            actor.finish(programs);
            assert_eq!(actor.heard.last().unwrap().0, "left");
        }
        let voted = |program: &usize| actors.iter().all(|a| a.has_said("voted", *program));
        assert!(programs.iter().all(voted));
        check_decisions(&actors, programs, are_shared)
    };
    assert!(whole(&(0..KNOWN).collect::<Vec<_>>()).is_empty());
    // The step at which each victim died.
    let mut died: BTreeMap<&str, usize> = BTreeMap::new();
    for round in 0..kills {
        let first = round * (EACH - KNOWN);
        let programs: Vec<usize> = (first..first + EACH).collect();
        let step = STEPS[round % STEPS.len()];
        let program = match step {
            "joined" => ".".to_owned(),
            // A known program is not compiled.
            "compiling" | "storing" => (first + random.random_range(KNOWN..EACH)).to_string(),
            _ => (first + random.random_range(0..EACH)).to_string(),
        };
        // Process 0 writes to the shared folder.
        let only = step == "storing" && are_shared;
        let speaker = if only { 0 } else { random.random_range(0..COUNT) };
        let victims = match random.random_range(0..8) {
            0 => 0..COUNT,
            1..3 if step != "storing" => {
                let victim = random.random_range(0..COUNT);
                victim..victim + 1
            }
            _ => speaker..speaker + 1,
        };
        let mut actors = Actor::all(&folders, &programs);
        actors[speaker].wait_for(step, &program);
        // The instant is random, because a kill must be safe at any time.
        let longest = if step == "storing" { 10_000 } else { 1_000 };
        let later = random.random_range(0..longest);
        std::thread::sleep(Duration::from_micros(if round % 2 == 0 { 0 } else { later }));
        actors[victims.clone()].iter_mut().for_each(Actor::kill);
        actors.iter_mut().for_each(|actor| actor.finish(&programs));
        let missed = actors.iter().any(Actor::has_missed);
        assert!(!missed || actors[0].was_killed, "round {round}: the coordinator lives");
        for victim in &actors[victims] {
            let last = victim.heard.last().map_or("nothing", |(step, _)| step.as_str());
            *died
                .entry(STEPS.into_iter().find(|step| *step == last).unwrap_or("between"))
                .or_default() += 1;
        }
        check_decisions(&actors, &programs, are_shared);
        let loaded = whole(&programs);
        let known: BTreeSet<usize> = programs[..KNOWN].iter().copied().collect();
        assert!(loaded.is_superset(&known), "round {round}: {loaded:?} are loaded, not {known:?}");
    }
    let left = interrupted(&folders);
    println!("{kills} kills, by last step: {died:?}; {left} left a part of an entry");
    for step in &STEPS[1..] {
        assert!(died.contains_key(step), "nobody died {step}: {died:?}");
    }
    assert!(left > 0, "no kill interrupted a write: {died:?}");
}

#[test]
fn kills_of_processes_that_share_a_cache_folder_damage_nothing() {
    kill(15, 36, true);
}

#[test]
fn kills_of_processes_with_a_cache_folder_each_damage_nothing() {
    kill(10, 37, false);
}

#[test]
#[ignore = "ten minutes"]
fn two_hundred_kills_of_processes_with_a_cache_damage_nothing() {
    kill(150, 1, true);
    kill(50, 2, false);
}
