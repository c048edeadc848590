//! `cargo xtask advisories`: compares `Cargo.lock` with the RustSec advisory database.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use semver::{Version, VersionReq};

use crate::root;

/// The public database.
const DATABASE: &str = "https://github.com/RustSec/advisory-db";

/// An advisory on one package.
struct Advisory {
    id: String,
    package: String,
    /// Versions without the problem: those fixed, and those never affected.
    unaffected: Vec<VersionReq>,
}

/// Fails if a locked dependency has an advisory. Without `database`, clones the public database; if
/// the network does not reach it, says so and succeeds.
pub(crate) fn check(database: Option<PathBuf>) -> Result<()> {
    let folder = match database {
        Some(folder) => folder,
        None => {
            let folder = root().join("target/advisory-db");
            if !fetch(&folder)? {
                eprintln!("not checked: {DATABASE} cannot be reached; pass --database FOLDER");
                return Ok(());
            }
            folder
        }
    };
    let locked = locked()?;
    let (mut checked, mut found) = (0, Vec::new());
    for path in files(&folder.join("crates"))? {
        let text = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
        let Some(advisory) = parse(&text).with_context(|| format!("{}", path.display()))? else {
            continue;
        };
        checked += 1;
        for version in locked.get(&advisory.package).into_iter().flatten() {
            if !advisory.unaffected.iter().any(|range| range.matches(version)) {
                found.push(format!("{} {version}: {}", advisory.package, advisory.id));
            }
        }
    }
    ensure!(checked > 0, "{} has no advisories", folder.display());
    ensure!(found.is_empty(), "dependencies with advisories:\n{}", found.join("\n"));
    eprintln!("{checked} advisories, none on the {} locked packages", locked.len());
    Ok(())
}

/// Clones or updates the database. Returns false if the network does not reach it.
fn fetch(folder: &Path) -> Result<bool> {
    let mut git = Command::new("git");
    if folder.is_dir() {
        git.args(["-C"]).arg(folder).args(["pull", "--quiet", "--ff-only"]);
    } else {
        git.args(["clone", "--quiet", "--depth=1", DATABASE]).arg(folder);
    }
    // Never waits for a password.
    let output = git.env("GIT_TERMINAL_PROMPT", "0").output().context("starting git")?;
    Ok(output.status.success())
}

/// Returns the versions of each package in `Cargo.lock` that comes from a registry.
fn locked() -> Result<BTreeMap<String, Vec<Version>>> {
    let text = fs::read_to_string(root().join("Cargo.lock")).context("Cargo.lock")?;
    let mut packages = BTreeMap::<String, Vec<Version>>::new();
    for package in text.split("[[package]]").filter(|package| package.contains("\nsource = ")) {
        let (Some(name), Some(version)) = (value(package, "name"), value(package, "version"))
        else {
            bail!("Cargo.lock has a package without name or version");
        };
        packages.entry(name.to_owned()).or_default().push(Version::parse(version)?);
    }
    Ok(packages)
}

/// Returns every Markdown file below a folder.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("{}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    Ok(found)
}

/// Reads the TOML header of an advisory. Withdrawn ones, and notices such as "unmaintained", are
/// `None`.
fn parse(text: &str) -> Result<Option<Advisory>> {
    let header = text.split_once("```toml\n").and_then(|(_, rest)| rest.split_once("\n```"));
    let (header, _) = header.context("no TOML header")?;
    let is_notice = value(header, "informational").is_some_and(|kind| kind != "unsound");
    if is_notice || value(header, "withdrawn").is_some() {
        return Ok(None);
    }
    let id = value(header, "id").context("no id")?.to_owned();
    let package = value(header, "package").context("no package")?.to_owned();
    let mut unaffected = Vec::new();
    for key in ["patched", "unaffected"] {
        for range in list(header, key) {
            unaffected.push(VersionReq::parse(range).with_context(|| format!("range {range}"))?);
        }
    }
    Ok(Some(Advisory { id, package, unaffected }))
}

/// Returns the string after `key = "`.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix('='));
    line.map(|rest| rest.trim().trim_matches('"'))
}

/// Returns the strings in the list after `key = [`.
fn list<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
    let start = text.lines().find_map(|line| {
        let rest = line.strip_prefix(key)?.trim_start().strip_prefix('=')?;
        Some(&text[rest.as_ptr() as usize - text.as_ptr() as usize..])
    });
    let inside = start.and_then(|rest| rest.split_once('[')?.1.split_once(']'));
    inside.map_or_else(Vec::new, |(list, _)| list.split('"').skip(1).step_by(2).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADVISORY: &str = r#"```toml
[advisory]
id = "RUSTSEC-2000-0001"
package = "example"

[versions]
patched = [">= 1.2.3, < 1.3.0", ">= 1.3.2"]
unaffected = [
    "< 0.5.0",
]
```
# Title
"#;

    #[test]
    fn advisory_lists_fixed_and_unaffected_ranges() {
        let advisory = parse(ADVISORY).unwrap().unwrap();
        assert_eq!((&*advisory.id, &*advisory.package), ("RUSTSEC-2000-0001", "example"));
        let is_affected = |version: &str| {
            let version = Version::parse(version).unwrap();
            !advisory.unaffected.iter().any(|range| range.matches(&version))
        };
        for affected in ["0.5.0", "1.2.2", "1.3.1"] {
            assert!(is_affected(affected), "{affected}");
        }
        for unaffected in ["0.4.9", "1.2.4", "2.0.0"] {
            assert!(!is_affected(unaffected), "{unaffected}");
        }
    }

    #[test]
    fn withdrawn_advisories_and_notices_are_skipped() {
        let withdrawn = ADVISORY.replace("package =", "withdrawn = \"2001-01-01\"\npackage =");
        assert!(parse(&withdrawn).unwrap().is_none());
        let notice = ADVISORY.replace("package =", "informational = \"unmaintained\"\npackage =");
        assert!(parse(&notice).unwrap().is_none());
        let unsound = ADVISORY.replace("package =", "informational = \"unsound\"\npackage =");
        assert!(parse(&unsound).unwrap().is_some());
        assert!(parse("no header").is_err());
    }

    #[test]
    fn lock_file_has_registry_packages() {
        let locked = locked().unwrap();
        assert!(locked.contains_key("smallvec") && !locked.contains_key("oxidax"));
    }
}
