//! Checks that the library and the models compile without features and with each feature alone.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::root;

/// The published packages with features that users choose.
const PACKAGES: [&str; 2] = ["oxidax", "oxidax-models"];

/// Runs `cargo check` on each package without features and with each feature alone. `lints` checks
/// all together.
pub(crate) fn check() -> Result<()> {
    let mut failed = Vec::new();
    for package in PACKAGES {
        failed.extend(failed_features(package)?);
    }
    ensure!(failed.is_empty(), "does not compile: {}", failed.join(", "));
    Ok(())
}

/// Returns the features with which a package does not compile, or compiles with warnings.
fn failed_features(package: &str) -> Result<Vec<String>> {
    let mut failed = Vec::new();
    for feature in [String::new()].into_iter().chain(features_of(package)?) {
        let arguments = ["--package", package, "--lib", "--no-default-features", "--features"];
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
        eprintln!("{package}, {shown}: {}", if is_clean { "ok" } else { "FAILED" });
        if !is_clean {
            eprintln!("{messages}");
            failed.push(format!("{package} with {shown}"));
        }
    }
    Ok(failed)
}

/// Returns the features of a package of the workspace.
fn features_of(name: &str) -> Result<Vec<String>> {
    let output = Command::new("cargo")
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()
        .context("starting cargo metadata")?;
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let packages = metadata["packages"].as_array().context("packages")?;
    let package = packages.iter().find(|package| package["name"] == name);
    let features =
        package.with_context(|| name.to_owned())?["features"].as_object().context("features")?;
    Ok(features.keys().filter(|name| *name != "default" && *name != "full").cloned().collect())
}
