//! `cargo xtask api`: compares the public APIs of the published libraries that users name in their
//! programs with `docs/api*.txt`.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::root;

/// The packages, each with the file that records its API.
const SNAPSHOTS: [(&str, &str); 5] = [
    ("oxidax", "docs/api.txt"),
    ("oxidax-flax", "docs/api-flax.txt"),
    ("oxidax-models", "docs/api-models.txt"),
    ("oxidax-optim", "docs/api-optim.txt"),
    ("oxidax-scipy", "docs/api-scipy.txt"),
];

/// Compares each snapshot with the public API of all features, or writes it.
pub(crate) fn run(update: bool) -> Result<()> {
    for (package, snapshot) in SNAPSHOTS {
        check(package, snapshot, update)?;
    }
    Ok(())
}

fn check(package: &str, file: &'static str, update: bool) -> Result<()> {
    let target = root().join("target/api");
    // The JSON output of rustdoc is unstable, so the stable compiler needs this variable. A
    // separate target folder keeps the variable from rebuilding the dependencies of other commands.
    let status = Command::new("cargo")
        .args(["rustdoc", "--quiet", "--package", package, "--lib", "--all-features"])
        .args(["--", "-Zunstable-options", "--output-format=json", "--cap-lints=allow"])
        .current_dir(root())
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_TARGET_DIR", &target)
        .status()
        .context("starting cargo rustdoc")?;
    ensure!(status.success(), "cargo rustdoc failed ({status})");
    let api = public_api::Builder::from_rustdoc_json(
        target.join(format!("doc/{}.json", package.replace('-', "_"))),
    )
    .omit_blanket_impls(true)
    .omit_auto_trait_impls(true)
    .omit_auto_derived_impls(true)
    .build()
    .context("reading rustdoc's output")?;
    let items: Vec<String> = api.items().map(ToString::to_string).collect();
    let path = root().join(file);
    if update {
        return fs::write(&path, items.join("\n") + "\n").with_context(|| file);
    }
    let snapshot = fs::read_to_string(&path).with_context(|| file)?;
    let recorded: BTreeSet<&str> = snapshot.lines().collect();
    let current: BTreeSet<&str> = items.iter().map(String::as_str).collect();
    let added = current.difference(&recorded);
    let removed = recorded.difference(&current);
    let changes: Vec<String> = added
        .map(|item| format!("+ {item}"))
        .chain(removed.map(|item| format!("- {item}")))
        .collect();
    ensure!(
        changes.is_empty(),
        "the public API differs from {file} in {} items; `cargo xtask api --update` records \
         it:\n{}",
        changes.len(),
        changes.iter().take(40).map(String::as_str).collect::<Vec<_>>().join("\n")
    );
    eprintln!("{package}: {} public items", items.len());
    Ok(())
}
