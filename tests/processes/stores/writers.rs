//! Two programs that save into one folder of an object store.
#![allow(clippy::print_stdout, reason = "the child processes report to their parent")]

use super::start;
use checkpoint::{Folder, Snapshot};
use oxidax::prelude::*;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

/// Names the steps that a child process saves.
const CHILD: &str = "OXIDAX_TEST_WRITER";
const TEST: &str = "stores::writers::the_program_that_opened_the_folder_first_is_told";

/// Saves the first step, waits for a line, and saves the second one.
fn save(place: &str, steps: [u64; 2]) -> Result<(), Error> {
    let state = ones([4]);
    let mut folder = Folder::open(place)?;
    folder.save(Snapshot::new(steps[0], &state))?;
    folder.wait()?;
    println!("\nsaved");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    folder.save(Snapshot::new(steps[1], &state))?;
    folder.close()
}

/// Starts a child process and waits until it has saved its first step.
fn start_child(
    place: &str,
    steps: [u64; 2],
    hosts: [&str; 2],
) -> (Child, impl Iterator<Item = String>) {
    let task = format!("{place} {} {}", steps[0], steps[1]);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", TEST, "--ignored", "--nocapture"])
        .env(CHILD, task)
        .env("AWS_ENDPOINT_URL", format!("http://{}", hosts[0]))
        .env("AWS_ACCESS_KEY_ID", "key")
        .env("AWS_SECRET_ACCESS_KEY", "secret")
        .env("STORAGE_EMULATOR_HOST", hosts[1])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == "saved"), "the child process ended early");
    (child, lines)
}

#[test]
#[ignore = "needs the servers that `cargo xtask stores` installs"]
fn the_program_that_opened_the_folder_first_is_told() {
    if let Ok(task) = std::env::var(CHILD) {
        let [place, first, second] = task.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{task}")
        };
        if let Err(error) = save(place, [first, second].map(|step| step.parse().unwrap())) {
            println!("{error}");
            std::process::exit(1);
        }
        return;
    }
    let (s3, gs) = (start::s3(), start::gs());
    let hosts = [s3.host.as_str(), &gs.host];
    for place in ["s3://numbers/run", "gs://numbers/run"] {
        let (mut first, lines) = start_child(place, [1, 3], hosts);
        let (mut second, _output) = start_child(place, [2, 4], hosts);
        writeln!(first.stdin.take().unwrap()).unwrap();
        let printed: Vec<String> = lines.collect();
        assert_eq!(first.wait().unwrap().code(), Some(1), "{printed:?}");
        let (before, after) = (first.id(), second.id());
        let both = |line: &&String| {
            line.contains(&format!("process {after} on host"))
                && line.contains(&format!("has opened the folder after process {before} on host"))
        };
        assert!(printed.iter().any(|line| both(&line)), "{printed:?}");
        writeln!(second.stdin.take().unwrap()).unwrap();
        assert!(second.wait().unwrap().success());
    }
}
