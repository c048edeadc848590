//! Prints the size of the code: the five largest files and the total.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::root;

/// Number of files that are printed.
const NAMED: usize = 5;

/// Prints the largest Rust files and the sum of all, as git knows them.
pub(crate) fn print() -> Result<()> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "*.rs"])
        .current_dir(root())
        .output()
        .context("starting git")?;
    ensure!(output.status.success(), "git ls-files failed ({})", output.status);
    let mut files = Vec::new();
    for path in String::from_utf8_lossy(&output.stdout).lines() {
        // A file that was deleted but not yet committed is listed all the same.
        if let Ok(text) = fs::read_to_string(root().join(path)) {
            files.push((text.lines().count(), path.to_owned()));
        }
    }
    files.sort_by(|a, b| b.cmp(a));
    for (lines, path) in files.iter().take(NAMED) {
        eprintln!("{lines:>7}  {path}");
    }
    let total: usize = files.iter().map(|(lines, _)| lines).sum();
    eprintln!("{total:>7}  lines in {} Rust files", files.len());
    Ok(())
}
