//! Checks that the library compiles without features and with each feature alone.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::root;

/// Runs `cargo check` without features and with each feature alone. `lints` checks all together.
pub(crate) fn check() -> Result<()> {
    let mut failed = Vec::new();
    for feature in [String::new()].into_iter().chain(library_features()?) {
        let arguments = ["--package", "oxidax", "--lib", "--no-default-features", "--features"];
        let output = Command::new("cargo")
            .args(["check", "--quiet"])
            .args(arguments)
            .arg(&feature)
            .current_dir(root())
            .output()
            .context("starting cargo check")?;
        // Flags that deny warnings would compile every dependency again.
        let messages = String::from_utf8_lossy(&output.stderr);
        let is_clean = output.status.success() && !messages.contains("warning");
        let shown = if feature.is_empty() { "no features" } else { &feature };
        eprintln!("{shown}: {}", if is_clean { "ok" } else { "FAILED" });
        if !is_clean {
            eprintln!("{messages}");
            failed.push(shown.to_owned());
        }
    }
    ensure!(failed.is_empty(), "the library does not compile with: {}", failed.join(", "));
    Ok(())
}

/// Returns the features of the root package.
fn library_features() -> Result<Vec<String>> {
    let output = Command::new("cargo")
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()
        .context("starting cargo metadata")?;
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let packages = metadata["packages"].as_array().context("packages")?;
    let root = packages.iter().find(|package| package["name"] == "oxidax").context("oxidax")?;
    let features = root["features"].as_object().context("features")?;
    Ok(features.keys().filter(|name| *name != "default" && *name != "full").cloned().collect())
}
