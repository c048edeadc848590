//! Runs the binary as a new user.

use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

/// A user with an empty home folder and no tools on the search path.
pub(crate) struct User {
    home: TempDir,
}

/// The result of a command.
pub(crate) struct Outcome {
    pub(crate) succeeded: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl User {
    pub(crate) fn new() -> User {
        User { home: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub(crate) fn oxidax(&self, arguments: &[&str]) -> Outcome {
        self.oxidax_with(arguments, &[])
    }

    pub(crate) fn oxidax_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Outcome {
        let output = Command::new(env!("CARGO_BIN_EXE_oxidax"))
            .args(arguments)
            .current_dir(self.home.path())
            .env_clear()
            .env("HOME", self.home.path())
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        Outcome {
            succeeded: output.status.success(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}
