//! `cargo xtask fuzz`: checks new random programs.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};

use crate::root;

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
