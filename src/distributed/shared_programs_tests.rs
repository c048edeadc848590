//! The disk cache of programs over several processes, with real processes, a real coordinator and
//! real cache folders. The CPU plugin compiles nothing across processes, so the compiler is the
//! test's: it waits for the compilers of the other processes, as that of a plugin may.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use super::session::session;
use super::{ClusterConfig, initialize, process_index, shutdown};
use crate::core::Error;
use crate::runtime::{
    Ballot, Exchange, Participant, TestProgram, VotesFailed, load_or_compile, process_count,
};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const PART: &str = "OXIDAX_TEST_PART";
const FOLDER: &str = "OXIDAX_TEST_FOLDER";
pub(super) const MARK: &str = "@@ ";
const PATIENCE: Duration = Duration::from_secs(60);

/// Votes through the coordinator, as the runtime's do.
pub(super) struct Voters(pub(super) Vec<u32>);

impl Ballot for Voters {
    fn exchange(&self, topic: &str, mine: Vec<u8>) -> Result<BTreeMap<u32, Vec<u8>>, Error> {
        Exchange::meet(&*session(topic)?, topic, &self.0, mine)
    }
}

/// Not itself a test: compiles or loads two programs in a process that another test started.
#[test]
fn play() {
    let Ok(part) = std::env::var(PART) else { return };
    let timeout = if part == "absent" { Duration::from_secs(3) } else { PATIENCE };
    let config = ClusterConfig::new().initialization_timeout(PATIENCE).timeout(timeout);
    initialize(config).unwrap();
    let (index, count) = (process_index() as u32, process_count() as u32);
    let folder = std::env::var_os(FOLDER).map(PathBuf::from);
    let failed = VotesFailed::new();
    let members: Vec<u32> = (0..count).collect();
    for name in ["step", "evaluation"] {
        // The last process does not run this program.
        if part == "absent" && index + 1 == count {
            break;
        }
        let compile = || {
            let session = session("compiling")?;
            // Compilers that were left alone would wait here, and fail.
            let place = format!("compilers of {name}");
            let awaited = if part == "absent" { &members[..members.len() - 1] } else { &members };
            session.meet("compiling", &place, awaited, PATIENCE, Vec::new())?;
            Ok(format!("code of {name}").into_bytes())
        };
        let compile = || compile().map_err(|error: Error| error.to_string());
        let mut program = TestProgram::new(folder.as_deref(), name, compile);
        let cache = program.cache();
        let participant = Participant { index, members: &members, topic: name, cache };
        let ballot = Voters(members.clone());
        let (code, _) = load_or_compile(&participant, &ballot, &failed, &mut program).unwrap();
        assert_eq!(code, format!("code of {name}").as_bytes());
        println!("\n{MARK}{}", program.done.join(" "));
    }
    if part == "dies" {
        // The others are told, and nobody waits.
        if index + 1 == count {
            for other in 0..index {
                super::get(&format!("{other} is done")).unwrap();
            }
            std::process::abort();
        }
        // The reply may come after the end of the last process.
        drop(super::put(&format!("{index} is done"), b""));
        let mut program = TestProgram::new(folder.as_deref(), "last", || Ok(b"code".to_vec()));
        let cache = program.cache();
        let participant = Participant { index, members: &members, topic: "last", cache };
        let ballot = Voters(members.clone());
        load_or_compile(&participant, &ballot, &failed, &mut program).unwrap();
        println!("\n{MARK}{}", program.done.join(" "));
        drop(shutdown());
        return;
    }
    shutdown().unwrap();
}

/// Starts a process for each folder, and returns what each did for each program.
fn run(part: &str, folders: &[Option<&Path>]) -> Vec<Vec<String>> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let start = |(index, folder): (usize, &Option<&Path>)| -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "distributed::shared_programs_tests::play", "--nocapture"])
            .env(PART, part)
            .env("OXIDAX_COORDINATOR", &address)
            .env("OXIDAX_PROCESSES", folders.len().to_string())
            .env("OXIDAX_PROCESS_ID", index.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        match folder {
            Some(folder) => command.env(FOLDER, folder),
            None => command.env_remove(FOLDER),
        };
        command.spawn().unwrap()
    };
    let children: Vec<Child> = folders.iter().enumerate().map(start).collect();
    let last = children.len() - 1;
    let finish = |(index, child): (usize, Child)| {
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let error = String::from_utf8_lossy(&output.stderr);
        let may_die = part == "dies" && index == last;
        assert!(output.status.success() || may_die, "process {index}: {text}\n{error}");
        text.lines().filter_map(|line| line.strip_prefix(MARK)).map(str::to_owned).collect()
    };
    children.into_iter().enumerate().map(finish).collect()
}

#[test]
fn processes_that_share_a_folder_compile_once_and_then_load() {
    let folder = tempfile::tempdir().unwrap();
    let shared = [Some(folder.path()); 4];
    let first = run("programs", &shared);
    assert_eq!(first[0], ["compile store"; 2]);
    assert_eq!(first[1..], [["compile"; 2]; 3]);
    assert_eq!(run("programs", &shared), [["load"; 2]; 4]);
    // One process has another folder, and one has no cache.
    let other = tempfile::tempdir().unwrap();
    let mixed = [Some(folder.path()), Some(other.path()), None];
    let said = run("programs", &mixed);
    assert_eq!(said, [["load compile store"; 2], ["compile store"; 2], ["compile"; 2]]);
}

#[test]
fn a_process_that_does_not_vote_delays_the_others_once() {
    let folder = tempfile::tempdir().unwrap();
    let said = run("absent", &[Some(folder.path()); 3]);
    assert_eq!(said[..2], [["compile"; 2]; 2]);
    assert!(said[2].is_empty());
}

#[test]
fn a_process_that_dies_makes_the_others_compile() {
    let folder = tempfile::tempdir().unwrap();
    let said = run("dies", &[Some(folder.path()); 3]);
    assert_eq!(said[0], ["compile store", "compile store", "compile"]);
    assert_eq!(said[1], ["compile", "compile", "compile"]);
}
