//! Starting test processes and reading their output.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The part that a process plays. Unset in the process that runs the tests.
pub(crate) const PART: &str = "OXIDAX_TEST_PART";

/// Prefix of a process's lines, which distinguishes them from the harness's.
const MARK: &str = "@@ ";

/// Far longer than any step takes. A process that is silent for this long fails the test.
const HANGS: Duration = Duration::from_secs(120);

/// Returns an unused address on this host.
pub(crate) fn address() -> String {
    static GIVEN: Mutex<Option<HashSet<u16>>> = Mutex::new(None);
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        if given.get_or_insert_default().insert(port) {
            return format!("127.0.0.1:{port}");
        }
    }
}

/// Prints a line for the process that started this one.
pub(crate) fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    // Starts a new line: the harness prints the test's name first.
    for line in text.lines() {
        writeln!(out, "\n{MARK}{line}").unwrap();
    }
    out.flush().unwrap();
}

/// Waits for the signal of the process that started this one.
pub(crate) fn wait_for_go() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
}

/// A process that plays a part.
pub(crate) struct Actor {
    child: Child,
    said: Receiver<String>,
    name: String,
}

impl Actor {
    /// Starts a process as `index` of `count`, with the coordinator at `address`.
    pub(crate) fn start(part: &str, address: &str, count: usize, index: usize) -> Actor {
        let (count, index) = (count.to_string(), index.to_string());
        let variables = [
            ("OXIDAX_COORDINATOR", address),
            ("OXIDAX_PROCESSES", &count),
            ("OXIDAX_PROCESS_ID", &index),
        ];
        Actor::start_in(part, &variables)
    }

    /// Starts a process with these environment variables.
    pub(crate) fn start_in(part: &str, variables: &[(&str, &str)]) -> Actor {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "distributed::parts::play", "--nocapture", "--test-threads=1"])
            .env(PART, part)
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
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
        Actor { child, said, name: format!("{part} with {variables:?}") }
    }

    /// Starts all processes of one part.
    pub(crate) fn all(part: &str, address: &str, count: usize) -> Vec<Actor> {
        (0..count).map(|index| Actor::start(part, address, count, index)).collect()
    }

    /// Returns the next line.
    pub(crate) fn line(&mut self) -> String {
        match self.said.recv_timeout(HANGS) {
            Ok(line) => line,
            Err(error) => panic!("{}: {error}", self.name),
        }
    }

    /// Returns the next line if one was printed since the last call.
    pub(crate) fn line_if_any(&mut self) -> Option<String> {
        self.said.try_recv().ok()
    }

    /// Waits until the process prints `text`.
    #[track_caller]
    pub(crate) fn expect(&mut self, text: &str) {
        let line = self.line();
        assert_eq!(line, text, "{}", self.name);
    }

    /// Signals the process to continue.
    pub(crate) fn go(&mut self) {
        // The process may have ended.
        drop(writeln!(self.child.stdin.as_mut().unwrap()));
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Stops the process with a signal, without ending it.
    pub(crate) fn stop(&self) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-STOP", &pid]).status().unwrap();
        assert!(sent.success());
    }

    /// Announces the end of the process, as cloud providers do.
    pub(crate) fn terminate(&self) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status().unwrap();
        assert!(sent.success());
    }

    /// Kills the process.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Returns the rest of the output, and checks that the process ends successfully.
    #[track_caller]
    pub(crate) fn rest(mut self) -> String {
        let mut lines = Vec::new();
        loop {
            match self.said.recv_timeout(HANGS) {
                Ok(line) => lines.push(line),
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
                Err(error) => panic!("{} said {lines:?}, and then: {error}", self.name),
            }
        }
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{} said {lines:?} and ended with {status}", self.name);
        lines.join("\n")
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        // No process survives a failed assertion.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
