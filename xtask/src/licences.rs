//! Checks every dependency: its licence is listed in `deny.toml`, and it comes from the registry.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::root;

/// Checks all packages of the lock file.
pub(crate) fn check() -> Result<()> {
    let deny = fs::read_to_string(root().join("deny.toml")).context("reading deny.toml")?;
    let allowed = allowed(&deny);
    ensure!(!allowed.is_empty(), "deny.toml has no `allow = [` list");
    let packages = packages()?;
    let mut wrong = Vec::new();
    let mut versions = BTreeMap::<&str, usize>::new();
    for package in &packages {
        let text = |key: &str| package[key].as_str().unwrap_or_default();
        let name = format!("{} {}", text("name"), text("version"));
        *versions.entry(text("name")).or_default() += 1;
        // The source of packages of this workspace is null.
        if !package["source"].is_null() && !text("source").starts_with("registry+") {
            wrong.push(format!("{name} comes from {}", text("source")));
        }
        let licence = text("license");
        if !permits(licence, &allowed) {
            wrong.push(format!("{name} is under `{licence}`, which deny.toml does not allow"));
        }
    }
    let twice: Vec<&str> =
        versions.iter().filter(|(_, n)| **n > 1).map(|(name, _)| *name).collect();
    eprintln!("{} packages; in more than one version: {}", packages.len(), twice.join(", "));
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// All packages that the workspace resolves to, on any platform and with any feature.
fn packages() -> Result<Vec<Value>> {
    let output = Command::new("cargo")
        .args(["metadata", "--format-version", "1", "--locked", "--all-features"])
        .current_dir(root())
        .output()
        .context("starting cargo metadata")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo metadata failed: {said}");
    let metadata: Value =
        serde_json::from_slice(&output.stdout).context("reading cargo metadata")?;
    metadata["packages"].as_array().cloned().context("cargo metadata lists no packages")
}

/// The quoted words of the list `allow` in `deny.toml`.
fn allowed(deny: &str) -> Vec<&str> {
    let list = deny.split_once("allow = [").map_or("", |(_, rest)| rest);
    let list = list.split_once(']').map_or("", |(list, _)| list);
    list.split('"').skip(1).step_by(2).collect()
}

/// Returns true if an SPDX expression can be satisfied with the allowed licences alone.
fn permits(expression: &str, allowed: &[&str]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = &words[..];
    either(&mut rest, allowed).is_some_and(|permitted| permitted && rest.is_empty())
}

/// Parses `a OR b`. Returns `None` if the words are not an expression.
fn either(words: &mut &[&str], allowed: &[&str]) -> Option<bool> {
    let mut permitted = both(words, allowed)?;
    while take(words, "OR") {
        permitted |= both(words, allowed)?;
    }
    Some(permitted)
}

/// `a AND b`, which binds more tightly than `OR`.
fn both(words: &mut &[&str], allowed: &[&str]) -> Option<bool> {
    let mut permitted = single(words, allowed)?;
    while take(words, "AND") {
        permitted &= single(words, allowed)?;
    }
    Some(permitted)
}

/// `(…)`, `licence` or `licence WITH exception`.
fn single(words: &mut &[&str], allowed: &[&str]) -> Option<bool> {
    if take(words, "(") {
        let permitted = either(words, allowed)?;
        return take(words, ")").then_some(permitted);
    }
    let (first, rest) = words.split_first()?;
    *words = rest;
    let mut licence = (*first).to_owned();
    if take(words, "WITH") {
        let (exception, rest) = words.split_first()?;
        *words = rest;
        licence = format!("{licence} WITH {exception}");
    }
    Some(allowed.contains(&licence.as_str()))
}

fn take(words: &mut &[&str], word: &str) -> bool {
    match words.split_first() {
        Some((first, rest)) if *first == word => {
            *words = rest;
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: &[&str] =
        &["MIT", "Apache-2.0", "Unicode-3.0", "Apache-2.0 WITH LLVM-exception"];

    #[test]
    fn one_licence_of_an_or_and_all_of_an_and_must_be_permitted() {
        for (expression, expected) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("GPL-3.0 OR MIT", true),
            ("MIT/Apache-2.0", true),
            ("MIT AND GPL-3.0", false),
            ("GPL-3.0 OR MIT AND Apache-2.0", true),
            ("(MIT OR GPL-3.0) AND Unicode-3.0", true),
            ("(MIT OR Apache-2.0) AND GPL-3.0", false),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("MIT WITH LLVM-exception", false),
        ] {
            assert_eq!(permits(expression, ALLOWED), expected, "{expression}");
        }
    }

    #[test]
    fn invalid_expressions_are_not_permitted() {
        for expression in ["", "MIT MIT", "MIT OR", "(MIT", "OR MIT", "MIT)", "MIT WITH"] {
            assert!(!permits(expression, ALLOWED), "{expression}");
        }
    }

    #[test]
    fn the_list_is_read_from_the_file() {
        let text = "[licenses]\nallow = [\n  \"MIT\",\n  \"A WITH b\",\n]\nother = [\"X\"]\n";
        assert_eq!(allowed(text), ["MIT", "A WITH b"]);
    }
}
