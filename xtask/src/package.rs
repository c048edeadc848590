//! `cargo xtask package`: packs the published crates, builds them from their packages, and checks
//! sizes. `cargo xtask minimal-versions`: builds with the oldest allowed direct dependencies.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::root;

/// The crates that are published.
const PUBLISHED: [&str; 10] = [
    "oxidax-macros",
    "oxidax-pjrt-sys",
    "oxidax-cache",
    "oxidax-proto",
    "oxidax-storage",
    "oxidax-plugin",
    "oxidax-pjrt",
    "oxidax",
    "oxidax-models",
    "oxidax-cli",
];

/// The largest size of a package, in bytes.
const LARGEST: u64 = 2_500_000;

/// Packs every published crate and builds it from its package.
pub(crate) fn check() -> Result<()> {
    remove_unpacked()?;
    // A separate folder: the packed `oxidax` command would replace the one in `target/debug`, which
    // tests may be running.
    let built = target().join("packages");
    let mut command = Command::new("cargo");
    // `--allow-dirty` so that a contributor can run this before a commit.
    command.args(["package", "--quiet", "--allow-dirty"]).current_dir(root());
    command.env("CARGO_TARGET_DIR", &built).env("CARGO_PROFILE_DEV_DEBUG", "0");
    for name in PUBLISHED {
        command.args(["--package", name]);
    }
    let status = command.status().context("starting cargo package")?;
    ensure!(status.success(), "cargo package failed ({status})");
    let folder = built.join("package");
    for name in PUBLISHED {
        let path = folder.join(format!("{name}-{}.crate", env!("CARGO_PKG_VERSION")));
        let size = path.metadata().with_context(|| format!("{}", path.display()))?.len();
        eprintln!("{name}: {:.2} MB packed", size as f64 / 1e6);
        ensure!(size <= LARGEST, "{name} has {size} bytes, the limit is {LARGEST}");
    }
    Ok(())
}

/// Removes the sources that an earlier check unpacked.
///
/// `cargo package` reads the other packed crates from a temporary registry, which it unpacks into
/// `registry/src/-<hash of the path>` in Cargo's home. It does not unpack a crate again whose
/// version is there, so without this the check could build against sources of an earlier commit.
fn remove_unpacked() -> Result<()> {
    let home = match std::env::var_os("CARGO_HOME") {
        Some(home) => PathBuf::from(home),
        None => std::env::home_dir().context("no home folder")?.join(".cargo"),
    };
    let Ok(registries) = fs::read_dir(home.join("registry/src")) else {
        return Ok(()); // nothing was unpacked yet
    };
    for registry in registries {
        let registry = registry?;
        if !registry.file_name().to_string_lossy().starts_with('-') {
            continue;
        }
        for name in PUBLISHED {
            let path = registry.path().join(format!("{name}-{}", env!("CARGO_PKG_VERSION")));
            if path.is_dir() {
                fs::remove_dir_all(&path)
                    .with_context(|| format!("removing {}", path.display()))?;
            }
        }
    }
    Ok(())
}

/// Checks the library, the models and the command with the oldest versions of direct dependencies
/// that their manifests allow, in a copy of the workspace.
pub(crate) fn minimal_versions() -> Result<()> {
    let copy = target().join("minimal-versions");
    let files = Command::new("git").arg("ls-files").current_dir(root()).output();
    let files = String::from_utf8(files.context("starting git")?.stdout).context("git ls-files")?;
    // The compiler also reads files of other kinds in `src`, such as the pages of errors.
    let is_needed = |path: &&str| {
        path.ends_with(".toml")
            || path.ends_with(".rs")
            || path.contains("/templates/")
            || path.split('/').any(|folder| folder == "src")
    };
    for path in files.lines().filter(is_needed) {
        let (from, to) = (root().join(path), copy.join(path));
        if !from.is_file() {
            continue; // deleted, but not committed yet
        }
        fs::create_dir_all(to.parent().context("a file has a folder")?)?;
        fs::copy(&from, &to).with_context(|| format!("copying {path}"))?;
    }
    // An unstable option of cargo, so the stable cargo needs this variable.
    let cargo = |arguments: &[&str]| -> Result<()> {
        let mut command = Command::new("cargo");
        command.args(arguments).current_dir(&copy).env("RUSTC_BOOTSTRAP", "1");
        command.env("CARGO_TARGET_DIR", copy.join("target"));
        let status = command.status().context("starting cargo")?;
        ensure!(status.success(), "cargo {} failed ({status})", arguments.join(" "));
        Ok(())
    };
    cargo(&["update", "--quiet", "-Z", "direct-minimal-versions"])?;
    cargo(&["check", "--quiet", "--locked", "--lib", "--package=oxidax", "--features=full"])?;
    cargo(&[
        "check",
        "--quiet",
        "--locked",
        "--lib",
        "--package=oxidax-models",
        "--features=full",
    ])?;
    cargo(&["check", "--quiet", "--locked", "--package=oxidax-cli"])
}

/// Returns cargo's target folder.
pub(crate) fn target() -> PathBuf {
    let named = std::env::var_os("CARGO_TARGET_DIR");
    named.map_or_else(|| root().join("target"), |folder| root().join(Path::new(&folder)))
}
