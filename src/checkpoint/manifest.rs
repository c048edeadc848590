//! The manifest of a checkpoint's folder: its files with checksums, the step, the data position and
//! notes.
//!
//! The manifest has two lines of JSON. The second holds the CRC-32C of the first, so a changed step
//! or position is detected like a changed weight. Later versions will change the first line only.

use super::Position;
use super::fault::{Read, abridged, damaged, refused, unread};
use super::storage::{Storage, read_all};
use crate::core::Error;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The manifest's file name.
pub(super) const NAME: &str = "manifest.jsonl";
/// The version that this library writes, and the newest that it reads.
const VERSION: u32 = 2;
const FORMAT: &str = "oxidax checkpoint";
/// Longest manifest that is read, in bytes.
const MAX_BYTES: u64 = 256 << 20;

/// The first line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// The library version that wrote it.
    oxidax: String,
    pub(super) step: u64,
    pub(super) position: Option<Position>,
    /// The position of every process, if they differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) positions: Vec<Option<Position>>,
    pub(super) notes: BTreeMap<String, serde_json::Value>,
    pub(super) files: Vec<FileRecord>,
    /// Arrays that are stored as separate shards.
    #[serde(rename = "pieces", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) sharded: ShardedArrays,
}

/// Arrays that are stored as separate shards, by leaf name.
pub(super) type ShardedArrays = BTreeMap<String, ShardedArray>;

/// An array that was sharded over a mesh, and is stored as its distinct shards.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ShardedArray {
    pub(super) shape: Vec<usize>,
    /// The stored name of each shard, and its start along each axis.
    #[serde(rename = "pieces")]
    pub(super) starts: BTreeMap<String, Vec<usize>>,
}

/// A file of arrays, with its length and checksums.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct FileRecord {
    pub(super) name: String,
    pub(super) bytes: u64,
    /// CRC-32C of the header with its length.
    pub(super) header: u32,
    /// CRC-32C of each array's bytes.
    pub(super) arrays: BTreeMap<String, u32>,
    /// CRC-32C of the parts of larger arrays.
    #[serde(default, skip_serializing_if = "ChunkSums::is_empty")]
    pub(super) chunks: ChunkSums,
}

/// Checksums of the parts of arrays that are longer than one part, so that a part can be read and
/// verified without the rest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct ChunkSums {
    /// Length of each part, except for an array's last one, in bytes.
    pub(super) bytes: u64,
    /// CRC-32C of the parts of each array.
    pub(super) arrays: BTreeMap<String, Vec<u32>>,
}

impl ChunkSums {
    fn is_empty(&self) -> bool {
        self.arrays.is_empty()
    }
}

/// The part of the first line that all versions share.
#[derive(Serialize, Deserialize)]
struct Version {
    format: String,
    version: u32,
    oxidax: String,
}

#[derive(Serialize)]
struct FirstLine<'a> {
    format: &'static str,
    version: u32,
    #[serde(flatten)]
    manifest: &'a Manifest,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LastLine {
    crc32c: u32,
}

/// Returns a text of two lines: JSON, and its CRC-32C.
pub(super) fn with_checksum(path: &Path, value: &impl Serialize) -> Result<Vec<u8>, Error> {
    let json = |error: serde_json::Error| refused(path, format!("the manifest: {error}"));
    let mut text = serde_json::to_vec(value).map_err(json)?;
    text.push(b'\n');
    let last = serde_json::to_vec(&LastLine { crc32c: crc32c::crc32c(&text) }).map_err(json)?;
    text.extend(last);
    text.push(b'\n');
    if text.len() as u64 > MAX_BYTES {
        let message = format!("a manifest of {} bytes; {MAX_BYTES} are read", text.len());
        return Err(refused(path, message));
    }
    Ok(text)
}

/// Reads a text written by [`with_checksum`], and returns its first line.
pub(super) fn read_checked(storage: &dyn Storage, path: &Path) -> Read<Vec<u8>> {
    let file = storage.open(path).map_err(|error| unread(path, error))?;
    let len = file.len();
    if len > MAX_BYTES {
        return Err(damaged(path, format!("{len} bytes, a manifest has at most {MAX_BYTES}")));
    }
    let mut text = read_all(&*file).map_err(|error| unread(path, error))?;
    let cut = |what: &str| damaged(path, format!("the {len} bytes are truncated: {what}"));
    let body = text.strip_suffix(b"\n").ok_or_else(|| cut("the last line does not end"))?;
    let end = body.iter().rposition(|&byte| byte == b'\n');
    let end = end.ok_or_else(|| cut("the line with the checksum is missing"))? + 1;
    let (first, last) = (&text[..end], &body[end..]);
    let last: LastLine = serde_json::from_slice(last).map_err(|error| {
        damaged(path, format!("the checksum: {}", abridged(&error.to_string())))
    })?;
    let found = crc32c::crc32c(first);
    if found != last.crc32c {
        let message = format!(
            "it was changed: its first line has the CRC-32C {found:08x}, {:08x} when it was \
             written",
            last.crc32c
        );
        return Err(damaged(path, message));
    }
    text.truncate(end);
    Ok(text)
}

impl Manifest {
    pub(super) fn new(
        step: u64,
        position: Option<Position>,
        notes: BTreeMap<String, serde_json::Value>,
    ) -> Manifest {
        let oxidax = env!("CARGO_PKG_VERSION").into();
        Manifest {
            oxidax,
            step,
            position,
            positions: Vec::new(),
            notes,
            files: Vec::new(),
            sharded: ShardedArrays::new(),
        }
    }

    /// Writes the manifest. On a storage without renaming it makes the checkpoint visible.
    pub(super) fn write(&self, storage: &dyn Storage, folder: &Path) -> Result<(), Error> {
        let path = folder.join(NAME);
        // Older versions can read a manifest without shards.
        let version = if self.sharded.is_empty() { 1 } else { VERSION };
        let first = FirstLine { format: FORMAT, version, manifest: self };
        let text = with_checksum(&path, &first)?;
        storage.put(&path, &text).map_err(|error| super::fault::io_error(&path, error))
    }

    pub(super) fn read(storage: &dyn Storage, folder: &Path) -> Read<Manifest> {
        let path = folder.join(NAME);
        let first = read_checked(storage, &path)?;
        // The checksum matches, so a mistake in the line is not damage.
        let json = |error: serde_json::Error| {
            refused(&path, format!("the first line: {}", abridged(&error.to_string())))
        };
        let version: Version = serde_json::from_slice(&first).map_err(json)?;
        if version.format != FORMAT {
            let found = abridged(&version.format);
            return Err(refused(&path, format!("the format is `{found}`, not `{FORMAT}`")).into());
        }
        if !(1..=VERSION).contains(&version.version) {
            let message = format!(
                "format version {}, written by oxidax {}; oxidax {} reads versions up to {VERSION}\n  \
                 help: use the oxidax that wrote it, or a newer one; the array files are plain \
                 safetensors files and can be loaded one by one",
                version.version,
                abridged(&version.oxidax),
                env!("CARGO_PKG_VERSION")
            );
            return Err(refused(&path, message).into());
        }
        Ok(serde_json::from_slice(&first).map_err(json)?)
    }
}

/// Returns the path of a file in a folder, or `None` if the name is not a plain file name.
pub(super) fn inside(folder: &Path, name: &str) -> Option<std::path::PathBuf> {
    let mut parts = Path::new(name).components();
    let plain = matches!(parts.next(), Some(std::path::Component::Normal(part)) if part == name);
    (plain && parts.next().is_none() && !name.contains(['\\', '\0'])).then(|| folder.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_are_inside() {
        let folder = Path::new("run");
        assert_eq!(inside(folder, "a.safetensors"), Some(folder.join("a.safetensors")));
        for name in ["", ".", "..", "../a", "/a", "a/b", "a/", "./a", "a\\b", "a\0b"] {
            assert_eq!(inside(folder, name), None, "{name:?}");
        }
    }
}
