//! `cargo xtask fuzz`: checks new random programs, and mutated files of weights.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};

use crate::root;

/// Reads `count` mutated copies of the recorded files of each format of weights.
pub(crate) fn run_weights(count: u64, first: Option<u64>) -> Result<()> {
    let first = first.unwrap_or(0);
    let end =
        first.checked_add(count).context("--first and --count add up to more than 64 bits")?;
    eprintln!("seeds {first}..{end} for each format");
    let status = Command::new("cargo")
        .args(["test", "--release", "-p", "oxidax-weights", "--test", "files"])
        .args(["--", "mutated", "--nocapture", "--test-threads", "1"])
        .env("OXIDAX_FUZZ_WEIGHTS", format!("{first}..{end}"))
        .current_dir(root())
        .status()
        .context("starting cargo test")?;
    ensure!(status.success(), "seeds {first}..{end}: a reader failed ({status})");
    Ok(())
}

/// Checks `count` programs, beginning with seed `first`, which the clock chooses by default. A
/// failing program is printed as the line to add to `tests/cpu/random_programs/found.jsonl`.
pub(crate) fn run(count: u64, first: Option<u64>) -> Result<()> {
    let first = match first {
        Some(first) => first,
        // The seeds of the fixed list are the smallest ones.
        None => SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() << 20,
    };
    let end =
        first.checked_add(count).context("--first and --count add up to more than 64 bits")?;
    eprintln!("seeds {first}..{end}");
    let status = Command::new("cargo")
        .args([
            "test",
            "--release",
            "--test",
            "cpu",
            "random_programs::on_cpu::properties_hold",
            "--",
            "--nocapture",
        ])
        .env("OXIDAX_FUZZ", format!("{first}..{end}"))
        .current_dir(root())
        .status()
        .context("starting cargo test")?;
    ensure!(status.success(), "seeds {first}..{end}: not every property holds ({status})");
    eprintln!("{count} programs, every property holds");
    Ok(())
}
