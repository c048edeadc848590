//! The package of a ported function.

use std::fs;
use std::path::Path;

use oxidax_port::Ported;

use crate::new::{Dependency, GitRepository, Nesting, ProjectFile, manifest, project};

/// Writes a package to a new folder: the program, its test, and the recorded arrays.
///
/// Nothing remains after an error.
pub(super) fn write(
    folder: &Path,
    ported: &Ported,
    source: &str,
    tensors: &Path,
    dependency: &Dependency,
) -> Result<(), String> {
    project::check_absent(folder)?;
    let recorded = fs::read(tensors).map_err(|error| {
        format!(
            "reading {}: {error}\n  help: keep the files that `port.py` writes in one folder",
            tensors.display()
        )
    })?;
    let name = ported.name.trim_end_matches('_');
    let manifest = manifest(&format!("ported-{name}"), dependency, Nesting::of(folder));
    let file = |path, text: String| ProjectFile { path, text };
    let files = [
        file(".gitignore", "/target\n".into()),
        file("Cargo.toml", manifest),
        file("src/lib.rs", source.to_string()),
    ];
    project::write(folder, &files, GitRepository::None)?;
    let data = folder.join("data");
    let written = fs::create_dir(&data)
        .and_then(|()| fs::write(data.join(&ported.tensors), recorded))
        .map_err(|error| format!("writing {}: {error}", data.display()));
    if written.is_err() {
        // The error that led here is reported.
        drop(fs::remove_dir_all(folder));
    }
    written
}
