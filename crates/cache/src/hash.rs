//! SHA-256 of large files that rarely change, with remembered results.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use hmac_sha256::Hash as Sha256;

use crate::error::Error;
use crate::permissions::{check, create_private};
use crate::store::Store;

/// The file of remembered hashes in the store's folder.
const RECORD: &str = ".plugins";
/// Number of remembered hashes.
const REMEMBERED: usize = 32;

/// Returns the SHA-256 of a file in lower-case hexadecimal, and remembers it in the store's folder.
///
/// Hashing a plugin of 200 MiB takes most of a second. A remembered hash is valid while the file
/// has the same device, inode, size, modification time *and change time*. Package managers set
/// modification times freely, but nobody can set the change time.
///
/// # Errors
/// [`Error::Io`] if the file cannot be read. Failing to remember the hash is not an error.
pub fn file_hash(path: &Path, store: Option<&Store>) -> Result<String, Error> {
    let stamp = stamp(path).map_err(Error::io("inspect", path))?;
    let (Some(stamp), Some(store)) = (stamp, store) else { return hash(path) };
    let record = store.folder().join(RECORD);
    let known = match check(&record) {
        Ok(()) => fs::read_to_string(&record).unwrap_or_default(),
        Err(_) => String::new(),
    };
    let remembered = known.lines().find_map(|line| {
        let (hash, rest) = line.split_once(' ')?;
        (rest == stamp && hash.len() == 64).then(|| hash.to_owned())
    });
    if let Some(hash) = remembered {
        return Ok(hash);
    }
    let hash = hash(path)?;
    // A replaced file keeps its path, so its previous line is dropped.
    let others =
        known.lines().filter(|line| line.splitn(7, ' ').last() != stamp.splitn(6, ' ').last());
    let lines: Vec<&str> = others.take(REMEMBERED - 1).collect();
    let text = format!("{hash} {stamp}\n{}\n", lines.join("\n"));
    create_private(store.folder()).ok();
    store.write(&record, |file| file.write_all(text.as_bytes())).ok();
    Ok(hash)
}

fn hash(path: &Path) -> Result<String, Error> {
    let mut file = File::open(path).map_err(Error::io("read", path))?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => hasher.update(&buffer[..n]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::io("read", path)(error)),
        }
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns a fingerprint that changes with the file, and its path; `None` for a path with a line
/// break.
#[cfg(unix)]
fn stamp(path: &Path) -> io::Result<Option<String>> {
    use std::os::unix::fs::MetadataExt as _;

    let meta = path.metadata()?;
    let numbers = format!(
        "{} {} {} {}.{:09} {}.{:09}",
        meta.dev(),
        meta.ino(),
        meta.size(),
        meta.mtime(),
        meta.mtime_nsec(),
        meta.ctime(),
        meta.ctime_nsec()
    );
    let path = path.to_str().filter(|path| !path.contains('\n'));
    Ok(path.map(|path| format!("{numbers} {path}")))
}

/// Other systems have no suitable metadata.
#[cfg(not(unix))]
fn stamp(_: &Path) -> io::Result<Option<String>> {
    Ok(None)
}
