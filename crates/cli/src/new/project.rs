//! Writes a project's folder, or nothing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};

use super::template::ProjectFile;

/// The relation of a project to the workspaces of cargo.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Nesting {
    /// No folder above is a workspace.
    Alone,
    /// A folder above is a workspace.
    InWorkspace,
}

/// The git repository of a project.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum GitRepository {
    /// Create one in the project's folder.
    Create,
    /// Create none.
    None,
}

/// A project that was written.
#[derive(Debug)]
pub(crate) struct Written {
    /// A remark on a missing git repository.
    pub(crate) note: Option<String>,
}

impl Nesting {
    /// Looks for workspaces above a folder that need not exist.
    pub(crate) fn of(path: &Path) -> Nesting {
        let is_workspace = |folder: &Path| {
            let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
            let starts = ["[workspace]", "[workspace.", "workspace."];
            manifest.lines().any(|line| starts.iter().any(|start| line.trim().starts_with(start)))
        };
        if ancestors(path).iter().any(|folder| is_workspace(folder)) {
            Nesting::InWorkspace
        } else {
            Nesting::Alone
        }
    }
}

/// Returns an error if a file, folder or link exists at the path.
pub(crate) fn check_absent(path: &Path) -> Result<(), String> {
    if path.symlink_metadata().is_err() {
        return Ok(());
    }
    Err(format!(
        "`{}` exists already, and nothing in it was changed\n  \
         help: choose another folder; `cargo init` and `cargo add oxidax --path CLONE` add oxidax \
         to an existing one",
        path.display()
    ))
}

/// Returns true if a folder above belongs to a repository of git, Mercurial, Jujutsu, Pijul or
/// Fossil.
pub(super) fn is_in_repository(path: &Path) -> bool {
    let names = [".git", ".hg", ".jj", ".pijul", ".fslckout", ".fossil"];
    ancestors(path).iter().any(|folder| names.iter().any(|name| folder.join(name).exists()))
}

/// Writes the files to a new folder and creates its parents.
///
/// The files are written to a hidden folder beside it, which is renamed at the end. After an error
/// neither it nor new parents remain.
pub(crate) fn write(
    path: &Path,
    files: &[ProjectFile],
    git: GitRepository,
) -> Result<Written, String> {
    let failed = |path: &Path, error: io::Error| format!("writing {}: {error}", path.display());
    let path = std::path::absolute(path).map_err(|error| failed(path, error))?;
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(format!("`{}` does not end in a name", path.display()));
    };
    let hidden = format!(".{}.oxidax-new-{}", name.to_string_lossy(), process::id());
    let staging = Staging::create(parent, &hidden).map_err(|error| failed(parent, error))?;
    for file in files {
        let target = staging.folder.join(file.path);
        let folder = target.parent().unwrap_or(&staging.folder);
        let written = fs::create_dir_all(folder).and_then(|()| fs::write(&target, &file.text));
        written.map_err(|error| failed(&path.join(file.path), error))?;
    }
    let note = match git {
        GitRepository::Create => create_repository(&staging.folder).err(),
        GitRepository::None => None,
    };
    check_absent(&path)?;
    fs::rename(&staging.folder, &path).map_err(|error| failed(&path, error))?;
    staging.keep();
    Ok(Written { note })
}

/// Creates a git repository. The error is a remark for the user.
fn create_repository(folder: &Path) -> Result<(), String> {
    let output = Command::new("git")
        .args(["init", "--quiet"])
        .current_dir(folder)
        // A hook sets these for its own repository.
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .stdin(Stdio::null())
        .output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let message = String::from_utf8_lossy(&output.stderr);
            Err(format!("no git repository was created: {}", message.trim()))
        }
        Err(error) => Err(format!("no git repository was created: starting git: {error}")),
    }
}

/// Returns the existing folders above a path, innermost first.
fn ancestors(path: &Path) -> Vec<PathBuf> {
    let Ok(path) = std::path::absolute(path) else { return Vec::new() };
    let existing = path.ancestors().skip(1).find_map(|folder| folder.canonicalize().ok());
    existing.iter().flat_map(|folder| folder.ancestors()).map(Path::to_path_buf).collect()
}

/// A folder that is deleted unless it is kept.
struct Staging {
    folder: PathBuf,
    /// The folder to delete: the outermost one that was created.
    outermost: Option<PathBuf>,
}

impl Staging {
    /// Creates a folder and its parents.
    fn create(parent: &Path, name: &str) -> io::Result<Staging> {
        let folder = parent.join(name);
        let is_missing = |folder: &&Path| folder.symlink_metadata().is_err();
        let outermost = folder.ancestors().take_while(is_missing).last().map(Path::to_path_buf);
        let staging = Staging { folder, outermost };
        fs::create_dir_all(parent)?;
        fs::create_dir(&staging.folder)?;
        Ok(staging)
    }

    fn keep(mut self) {
        self.outermost = None;
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if let Some(folder) = &self.outermost {
            // The error that led here is reported.
            drop(fs::remove_dir_all(folder));
        }
    }
}
