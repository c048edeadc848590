//! Operations on the local file system.

use crate::path::{FolderEntry, Listed};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A file that is being written under a temporary name.
#[derive(Debug)]
pub(crate) struct NewFile {
    path: PathBuf,
    temporary: PathBuf,
    file: Option<File>,
}

impl NewFile {
    /// Creates the parent folders and a temporary file beside `path`.
    pub(crate) fn create(path: &Path) -> io::Result<NewFile> {
        static FILES: AtomicU64 = AtomicU64::new(0);
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder {
            fs::create_dir_all(folder)?;
        }
        let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?.to_string_lossy();
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let temporary = path.with_file_name(format!(
            "{TEMPORARY}{}-{number}-{}",
            std::process::id(),
            shortened(&name)
        ));
        let file = Some(File::create(&temporary)?);
        Ok(NewFile { path: path.to_path_buf(), temporary, file })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), |file| file.write_all(bytes))
    }

    /// Renames the file into place after its bytes have reached the disk.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        if let Some(file) = self.file.take() {
            let renamed = file.sync_all().and_then(|()| fs::rename(&self.temporary, &self.path));
            if renamed.is_err() {
                // Best effort: the first error is returned.
                drop(fs::remove_file(&self.temporary));
            }
            renamed?;
            // The rename survives a power failure once the folder is written.
            let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        }
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // Best effort: listings skip temporary files.
            drop(fs::remove_file(&self.temporary));
        }
    }
}

/// Prefix of the names of files that are being written.
const TEMPORARY: &str = ".writing-";

/// Shortens a name, so that a temporary name fits into the 255 bytes of a file system.
fn shortened(name: &str) -> &str {
    let end = (0..=name.len().min(100)).rev().find(|&end| name.is_char_boundary(end));
    &name[..end.unwrap_or(0)]
}

/// Returns all files below a folder, by name. A missing folder has none.
pub(crate) fn list(folder: &Path) -> io::Result<Vec<Listed>> {
    let (mut files, mut folders) = (Vec::new(), vec![(folder.to_path_buf(), String::new())]);
    while let Some((folder, prefix)) = folders.pop() {
        for (name, entry) in entries(&folder)? {
            let name = format!("{prefix}{name}");
            // A link to a folder is not followed: it could lead back.
            if entry.file_type()?.is_dir() {
                folders.push((entry.path(), format!("{name}/")));
            } else if let Some(metadata) = existing(fs::metadata(entry.path()))?
                && metadata.is_file()
            {
                files.push(Listed { name, size: metadata.len() });
            }
        }
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(files)
}

/// Returns the files and folders in a folder, by name.
pub(crate) fn folder(folder: &Path) -> io::Result<Vec<FolderEntry>> {
    let mut found = Vec::new();
    for (name, entry) in entries(folder)? {
        if let Some(metadata) = existing(fs::metadata(entry.path()))? {
            let size = metadata.is_file().then_some(metadata.len());
            found.push(FolderEntry { name, size });
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn entries(folder: &Path) -> io::Result<Vec<(String, fs::DirEntry)>> {
    let Some(read) = existing(fs::read_dir(folder))? else { return Ok(Vec::new()) };
    let mut entries = Vec::new();
    for entry in read {
        let entry = entry?;
        let name = entry.file_name().into_string().map_err(|name| {
            let message = format!("the name {} is not UTF-8", name.display());
            io::Error::new(io::ErrorKind::InvalidData, message)
        })?;
        if !name.starts_with(TEMPORARY) {
            entries.push((name, entry));
        }
    }
    Ok(entries)
}

/// Deletes a folder or a file. It may be missing.
pub(crate) fn delete_all(path: &Path) -> io::Result<()> {
    let Some(metadata) = existing(fs::symlink_metadata(path))? else { return Ok(()) };
    let deleted = if metadata.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    existing(deleted).map(drop)
}

pub(crate) fn existing<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
