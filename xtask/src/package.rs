//! `cargo xtask package`: packs the published crates, checks the packed sources, and their sizes.
//! `cargo xtask minimal-versions`: builds with the oldest allowed direct dependencies.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use anyhow::{Context as _, Result, ensure};

use crate::root;

/// The crates that are published.
const PUBLISHED: [&str; 18] = [
    "oxidax-macros",
    "oxidax-pjrt-sys",
    "oxidax-cache",
    "oxidax-proto",
    "oxidax-jax-export",
    "oxidax-vhlo",
    "oxidax-storage",
    "oxidax-plugin",
    "oxidax-pjrt",
    "oxidax",
    "oxidax-weights",
    "oxidax-flax",
    "oxidax-models",
    "oxidax-parity",
    "oxidax-scipy",
    "oxidax-optim",
    "oxidax-port",
    "oxidax-cli",
];

/// The largest size of a package, in bytes.
const LARGEST: u64 = 2_500_000;

/// Packs every published crate, and checks the packed sources together.
///
/// `cargo package` would build every package from an own registry, with all dependencies once more.
/// A workspace of the unpacked sources finds files that a package lacks as well, and shares the
/// dependencies that other checks have compiled.
pub(crate) fn check() -> Result<()> {
    let packed = target().join("packages");
    let mut command = Command::new("cargo");
    // `--allow-dirty` so that a contributor can run this before a commit.
    command.args(["package", "--quiet", "--allow-dirty", "--no-verify"]).current_dir(root());
    command.env("CARGO_TARGET_DIR", &packed);
    for name in PUBLISHED {
        command.args(["--package", name]);
    }
    succeed(&mut command)?;
    let sources = packed.join("sources");
    match fs::remove_dir_all(&sources) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        removed => removed.with_context(|| format!("removing {}", sources.display()))?,
    }
    fs::create_dir_all(&sources).with_context(|| format!("creating {}", sources.display()))?;
    let mut patches = String::new();
    for name in PUBLISHED {
        let folder = format!("{name}-{}", env!("CARGO_PKG_VERSION"));
        let path = packed.join("package").join(format!("{folder}.crate"));
        let size = path.metadata().with_context(|| format!("{}", path.display()))?.len();
        eprintln!("{name}: {:.2} MB packed", size as f64 / 1e6);
        ensure!(size <= LARGEST, "{name} has {size} bytes, the limit is {LARGEST}");
        // With `m`, files are as old as this run: cargo compares ages with those of the last check.
        succeed(Command::new("tar").arg("-xzmf").arg(&path).arg("-C").arg(&sources))?;
        patches += &format!("{name} = {{ path = \"{folder}\" }}\n");
    }
    // Packages name each other by version, as from the registry.
    let manifest =
        format!("[workspace]\nresolver = \"3\"\nmembers = [\"*\"]\n\n[patch.crates-io]\n{patches}");
    fs::write(sources.join("Cargo.toml"), manifest).context("writing the workspace's manifest")?;
    fs::copy(root().join("Cargo.lock"), sources.join("Cargo.lock")).context("Cargo.lock")?;
    let mut command = Command::new("cargo");
    command.args(["check", "--quiet", "--workspace"]).current_dir(&sources);
    succeed(command.env("CARGO_TARGET_DIR", target()))
}

/// Runs a command, and fails if it does.
fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("starting {command:?}"))?;
    ensure!(status.success(), "{command:?} failed ({status})");
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
            // The command contains its Python package, by links to these folders.
            || ["crates/cli/python/", "python-compat/oxidax_compat/", "python-compat/recorder/"]
                .iter()
                .any(|folder| path.starts_with(folder))
            || path.split('/').any(|folder| folder == "src")
    };
    for path in files.lines().filter(is_needed) {
        let (from, to) = (root().join(path), copy.join(path));
        fs::create_dir_all(to.parent().context("a file has a folder")?)?;
        if from.is_symlink() {
            let target =
                fs::read_link(&from).with_context(|| format!("reading the link {path}"))?;
            if !to.is_symlink() {
                std::os::unix::fs::symlink(target, &to)
                    .with_context(|| format!("linking {path}"))?;
            }
            continue;
        }
        if !from.is_file() {
            continue; // deleted, but not committed yet
        }
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
