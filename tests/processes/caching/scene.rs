//! [`User`]: starts child processes with a cache folder, and collects their reports.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// Variable with the scenario of a child process; unset in the process that runs the tests.
pub(crate) const PART: &str = "OXIDAX_TEST_PART";

/// Prefix of reported lines, to tell them from the test harness's output.
const MARK: &str = "@@ ";

/// Reports a value to the parent process.
#[allow(clippy::print_stdout, reason = "the parent process reads it")]
pub(crate) fn report(name: &str, value: impl std::fmt::Debug) {
    println!("\n{MARK}{name}={value:?}");
}

/// A cache folder, and the environment of the processes that use it.
pub(crate) struct User {
    pub(crate) cache: TempDir,
    variables: BTreeMap<String, String>,
}

/// The values that a process reported, by name.
pub(crate) type Report = BTreeMap<String, String>;

impl User {
    /// Creates an empty cache that stores every program, however fast it compiles.
    pub(crate) fn new() -> User {
        let cache = tempfile::tempdir().unwrap();
        // The installed plugins are shared.
        let plugins = oxidax_cache::folder(|name| std::env::var_os(name)).unwrap().join("plugins");
        if plugins.exists() {
            std::os::unix::fs::symlink(plugins, cache.path().join("plugins")).unwrap();
        }
        let folder = cache.path().display().to_string();
        let variables = [
            ("OXIDAX_CACHE", folder.as_str()),
            ("OXIDAX_CACHE_MAX_BYTES", "1G"),
            ("OXIDAX_CACHE_MIN_SECONDS", "0"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        User { cache, variables: variables.into() }
    }

    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.variables.insert(name.to_owned(), value.to_owned());
    }

    fn command(&self, part: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "caching::parts::run_scenario", "--nocapture", "--test-threads=1"])
            .env_remove("XLA_FLAGS")
            .env_remove("OXIDAX_CPU_DEVICES")
            .envs(&self.variables)
            // Silences the plugin's log.
            .env("TF_CPP_MIN_LOG_LEVEL", "2")
            .env(PART, part)
            .stdout(Stdio::piped());
        command
    }

    /// Runs a scenario in a child process.
    #[track_caller]
    pub(crate) fn run(&self, part: &str) -> Report {
        self.run_at_once(part, 1).remove(0)
    }

    /// Runs a scenario in several processes at the same time.
    #[track_caller]
    pub(crate) fn run_at_once(&self, part: &str, count: usize) -> Vec<Report> {
        let children: Vec<_> = (0..count).map(|_| self.command(part).spawn().unwrap()).collect();
        let reports = children.into_iter().map(|child| {
            let output = child.wait_with_output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(output.status.success(), "{part}: {text}");
            let lines = text.lines().filter_map(|line| line.strip_prefix(MARK)?.split_once('='));
            lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
        });
        reports.collect()
    }

    pub(crate) fn programs(&self) -> PathBuf {
        self.cache.path().join("programs")
    }

    /// The files of all entries, the largest first.
    pub(crate) fn entries(&self) -> Vec<PathBuf> {
        let Ok(listing) = fs::read_dir(self.programs()) else { return Vec::new() };
        let mut paths: Vec<PathBuf> = listing.map(|entry| entry.unwrap().path()).collect();
        paths.retain(|path| path.extension().is_some_and(|ending| ending == "program"));
        paths.sort_by_key(|path| std::cmp::Reverse((size(path), path.clone())));
        paths
    }
}

fn size(path: &Path) -> u64 {
    path.metadata().unwrap().len()
}

/// Returns the counts of the disk cache: hits, misses, stored, damaged.
pub(crate) fn disk(report: &Report) -> [u64; 4] {
    ["hits", "misses", "stored", "damaged"].map(|name| report[name].parse().unwrap())
}

/// Returns the results of the computation, without the counts.
pub(crate) fn answers(report: &Report) -> Report {
    let mut report = report.clone();
    report.retain(|name, _| name.chars().next().is_some_and(char::is_uppercase));
    report
}
