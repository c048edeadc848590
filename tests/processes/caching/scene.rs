//! Starting processes, and hearing what they say.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// The part that a process plays; unset in the process that runs the tests.
pub(crate) const PART: &str = "OXIDAX_TEST_PART";

/// What a process says begins so, among what the test harness says.
const MARK: &str = "@@ ";

/// Says something to the process that started this one.
#[allow(clippy::print_stdout, reason = "it is heard through a pipe")]
pub(crate) fn say(name: &str, value: impl std::fmt::Debug) {
    println!("\n{MARK}{name}={value:?}");
}

/// A user's cache, and the variables that his processes have.
pub(crate) struct User {
    pub(crate) cache: TempDir,
    variables: BTreeMap<String, String>,
}

/// What a process said, by name.
pub(crate) type Said = BTreeMap<String, String>;

impl User {
    /// One with an empty cache, in which everything is kept, however fast it compiles.
    pub(crate) fn new() -> User {
        let cache = tempfile::tempdir().unwrap();
        // The plugins of whoever runs the tests.
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
            .args(["--exact", "caching::parts::play", "--nocapture", "--test-threads=1"])
            .env_remove("XLA_FLAGS")
            .env_remove("OXIDAX_CPU_DEVICES")
            .envs(&self.variables)
            // The plugin greets nobody.
            .env("TF_CPP_MIN_LOG_LEVEL", "2")
            .env(PART, part)
            .stdout(Stdio::piped());
        command
    }

    /// Plays a part in a process of its own.
    #[track_caller]
    pub(crate) fn play(&self, part: &str) -> Said {
        self.play_at_once(part, 1).remove(0)
    }

    /// Plays a part in several processes at a time.
    #[track_caller]
    pub(crate) fn play_at_once(&self, part: &str, count: usize) -> Vec<Said> {
        let children: Vec<_> = (0..count).map(|_| self.command(part).spawn().unwrap()).collect();
        let said = children.into_iter().map(|child| {
            let output = child.wait_with_output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(output.status.success(), "{part}: {text}");
            let lines = text.lines().filter_map(|line| line.strip_prefix(MARK)?.split_once('='));
            lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
        });
        said.collect()
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

/// What is said of the disk, as `hits misses kept damaged`.
pub(crate) fn disk(said: &Said) -> [u64; 4] {
    ["hits", "misses", "kept", "damaged"].map(|name| said[name].parse().unwrap())
}

/// All but what is said of the disk.
pub(crate) fn answers(said: &Said) -> Said {
    let mut said = said.clone();
    said.retain(|name, _| name.chars().next().is_some_and(char::is_uppercase));
    said
}
