//! The arrays that can be loaded: from one file, from several files with an index, or from a
//! checkpoint folder.

use super::fault::{Fault, NOT_FOUND, Read, abridged, damaged, listed, refused, unread};
use super::file::{ArrayFile, Checksums};
use super::header::Entry;
use super::manifest::{self, ChunkSums, FileRecord, Manifest, inside};
use super::shards::JoinedShards;
use super::steps::StepFolder;
use super::storage::{EntryKind, SharedStorage, read_all};
use crate::core::Error;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// File names used by Hugging Face's libraries.
const INDEX: &str = "model.safetensors.index.json";
const SINGLE: &str = "model.safetensors";
/// Longest index that is read, in bytes.
const LONGEST_INDEX: u64 = 256 << 20;
/// Number of files of a checkpoint up to which they stay open. The files of a checkpoint of many
/// processes are opened when they are read, because a process can open few files at a time.
const MAX_OPEN_FILES: usize = 64;
/// Longest part of an array with its own checksum, in bytes.
const MAX_CHUNK_BYTES: u64 = 1 << 32;

/// Arrays by name, stored in one file or several.
pub(super) struct Contents {
    /// The opened file or folder.
    pub(super) path: PathBuf,
    files: Vec<ArrayFile>,
    arrays: BTreeMap<String, StoredArray>,
    /// Arrays stored as separate shards. Their shards are not listed in `names`.
    sharded: BTreeMap<String, JoinedShards>,
    pub(super) manifest: Option<Manifest>,
}

/// The file of an array, and its checksums if the manifest has them.
struct StoredArray {
    file: usize,
    crc: Option<u32>,
    chunks: Option<(u64, Vec<u32>)>,
}

impl Contents {
    fn empty(path: &Path) -> Contents {
        Contents {
            path: path.to_path_buf(),
            files: Vec::new(),
            arrays: BTreeMap::new(),
            sharded: BTreeMap::new(),
            manifest: None,
        }
    }

    /// Opens a safetensors file, an index, or a folder with one of these or a manifest.
    pub(super) fn open(storage: &SharedStorage, path: &Path) -> Read<Contents> {
        let kind = |path: &Path| storage.kind(path).map_err(|error| unread(path, error));
        match kind(path)? {
            Some(EntryKind::Folder) => {}
            Some(EntryKind::File) => {
                return if path.extension().is_some_and(|extension| extension == "json") {
                    Contents::indexed(storage, path)
                } else {
                    Contents::single(storage, path)
                };
            }
            None => return Err(unread(path, io::Error::from_raw_os_error(NOT_FOUND))),
        }
        let exists = |name: &str| Ok::<bool, Fault>(kind(&path.join(name))?.is_some());
        if exists(manifest::NAME)? {
            return Contents::checkpoint(storage, path);
        }
        // If both exist, the single file wins, as in `transformers`.
        if exists(SINGLE)? {
            return Contents::single(storage, &path.join(SINGLE));
        }
        if exists(INDEX)? {
            return Contents::indexed(storage, &path.join(INDEX));
        }
        let steps = StepFolder::new(storage.clone(), path);
        let newest = steps.list().ok().and_then(|steps| steps.last().copied());
        let help = match newest.map(|step| StepFolder::new(storage.clone(), "".as_ref()).path(step))
        {
            Some(newest) => format!("open a step's folder; the newest is `{}`", newest.display()),
            None => "open the file by its own name".into(),
        };
        let message = format!(
            "the folder has none of `{}`, `{SINGLE}` and `{INDEX}`\n  help: {help}",
            manifest::NAME
        );
        Err(damaged(path, message))
    }

    fn single(storage: &SharedStorage, path: &Path) -> Read<Contents> {
        let mut contents = Contents::empty(path);
        contents.add(ArrayFile::open(storage, path)?, None)?;
        Ok(contents)
    }

    /// Opens a step's folder and compares every file with the manifest.
    pub(super) fn checkpoint(storage: &SharedStorage, folder: &Path) -> Read<Contents> {
        let manifest = Manifest::read(&**storage, folder)?;
        Contents::listed(storage, folder, manifest)
    }

    /// Opens the files listed in a manifest.
    pub(super) fn listed(
        storage: &SharedStorage,
        folder: &Path,
        manifest: Manifest,
    ) -> Read<Contents> {
        let mut contents = Contents::empty(folder);
        for record in &manifest.files {
            let path = inside(folder, &record.name).ok_or_else(|| outside(folder, &record.name))?;
            let mut file = ArrayFile::open(storage, &path)?;
            if file.len() != record.bytes || file.header_crc() != record.header {
                let message = format!(
                    "{} bytes with a header of CRC-32C {:08x}; {} bytes and {:08x} were written",
                    file.len(),
                    file.header_crc(),
                    record.bytes,
                    record.header
                );
                return Err(damaged(&path, message));
            }
            if manifest.files.len() > MAX_OPEN_FILES {
                file.close();
            }
            contents.add(file, Some(record))?;
        }
        contents.join_shards(&manifest)?;
        contents.manifest = Some(manifest);
        Ok(contents)
    }

    /// Joins the shards of each sharded array.
    fn join_shards(&mut self, manifest: &Manifest) -> Read<()> {
        for (name, whole) in &manifest.sharded {
            let wrong = |why: String| {
                damaged(&self.path, format!("the shards of `{}`: {why}", abridged(name)))
            };
            if self.arrays.contains_key(name) {
                return Err(wrong("an array has the same name".into()));
            }
            let entries = whole.starts.iter().map(|(shard, start)| match self.entry(shard) {
                Some(entry) => Ok((shard.as_str(), entry, start.as_slice())),
                None => Err(wrong(format!("`{}` is missing", abridged(shard)))),
            });
            let entries = entries.collect::<Result<Vec<_>, _>>()?;
            let joined = JoinedShards::new(&whole.shape, &entries).map_err(wrong)?;
            self.sharded.insert(name.clone(), joined);
        }
        Ok(())
    }

    /// Opens a model in several files, in the layout of Hugging Face's libraries.
    fn indexed(storage: &SharedStorage, path: &Path) -> Read<Contents> {
        let folder = path.parent().unwrap_or(Path::new(""));
        let shards = read_index(storage, path)?;
        let mut contents = Contents::empty(path);
        for (shard, names) in &shards {
            let path_of_shard = inside(folder, shard).ok_or_else(|| outside(path, shard))?;
            let file = ArrayFile::open(storage, &path_of_shard).map_err(|mut fault| {
                if let Error::Io { source, .. } = &fault.error
                    && source.kind() == io::ErrorKind::NotFound
                {
                    let more = match names.len() - 1 {
                        0 => String::new(),
                        more => format!(" and {more} more"),
                    };
                    let message = format!(
                        "the file `{}` is missing, which should contain `{}`{more}\n  \
                         help: download it into the folder of the index",
                        abridged(shard),
                        abridged(&names[0])
                    );
                    fault.error = refused(path, message);
                }
                fault
            })?;
            let absent: Vec<String> = names
                .iter()
                .filter(|name| !file.entries().contains_key(*name))
                .map(|name| format!("`{}` is not in `{}`", abridged(name), abridged(shard)))
                .collect();
            if !absent.is_empty() {
                return Err(damaged(path, listed(absent)));
            }
            contents.add(file, None)?;
        }
        Ok(contents)
    }

    /// Adds a file's arrays, with the checksums of its record. A name that exists already is an
    /// error.
    fn add(&mut self, file: ArrayFile, record: Option<&FileRecord>) -> Read<()> {
        let number = self.files.len();
        for (name, entry) in file.entries() {
            let chunks = record.map_or(Ok(None), |record| chunks_of(&record.chunks, name, entry));
            let chunks = chunks.map_err(|why| damaged(&self.path, why))?;
            let crc = record.and_then(|record| record.arrays.get(name)).copied();
            let stored = StoredArray { file: number, crc, chunks };
            if let Some(other) = self.arrays.insert(name.clone(), stored) {
                let short = |file: &ArrayFile| {
                    file.path().file_name().unwrap_or_default().to_string_lossy().into_owned()
                };
                let message = format!(
                    "array `{}` is in two files, `{}` and `{}`",
                    abridged(name),
                    short(self.files.get(other.file).unwrap_or(&file)),
                    short(&file)
                );
                return Err(damaged(&self.path, message));
            }
        }
        self.files.push(file);
        Ok(())
    }

    /// Returns the arrays' names in alphabetical order, sharded arrays last.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> + '_ {
        let shards: BTreeSet<&str> = self.sharded.values().flat_map(JoinedShards::names).collect();
        let whole =
            self.arrays.keys().map(String::as_str).filter(move |name| !shards.contains(name));
        whole.chain(self.sharded.keys().map(String::as_str))
    }

    pub(super) fn entry(&self, name: &str) -> Option<&Entry> {
        if let Some(joined) = self.sharded.get(name) {
            return Some(&joined.entry);
        }
        let stored = self.arrays.get(name)?;
        self.files[stored.file].entries().get(name)
    }

    /// Reads an array's elements.
    pub(super) fn read(&self, name: &str) -> Read<Vec<u8>> {
        match self.sharded.get(name) {
            Some(joined) => {
                let whole: Vec<Range<usize>> =
                    joined.entry.shape.iter().map(|&size| 0..size).collect();
                joined.read_slice(&whole, &|shard, slice| self.read_stored(shard, slice))
            }
            None => {
                let stored = &self.arrays[name];
                let file = &self.files[stored.file];
                file.read(name, &file.entries()[name], stored.sums())
            }
        }
    }

    /// Reads the elements of a slice of an array, and as few others as checksums allow. The slice
    /// is inside the array.
    pub(super) fn read_slice(&self, name: &str, slice: &[Range<usize>]) -> Read<Vec<u8>> {
        match self.sharded.get(name) {
            Some(joined) => {
                joined.read_slice(slice, &|shard, slice| self.read_stored(shard, slice))
            }
            None => self.read_stored(name, slice),
        }
    }

    fn read_stored(&self, name: &str, slice: &[Range<usize>]) -> Read<Vec<u8>> {
        let stored = &self.arrays[name];
        let file = &self.files[stored.file];
        file.read_slice(name, &file.entries()[name], stored.sums(), slice)
    }
}

impl StoredArray {
    fn sums(&self) -> Option<Checksums<'_>> {
        let chunks = self.chunks.as_ref().map(|(bytes, crcs)| (*bytes, crcs.as_slice()));
        self.crc.map(|whole| Checksums { whole, chunks })
    }
}

/// Returns the checksums of an array's parts, or an explanation why they contradict its length.
fn chunks_of(
    chunks: &ChunkSums,
    name: &str,
    entry: &Entry,
) -> Result<Option<(u64, Vec<u32>)>, String> {
    let Some(crcs) = chunks.arrays.get(name) else { return Ok(None) };
    let bytes = chunks.bytes;
    if !(1..=MAX_CHUNK_BYTES).contains(&bytes) || entry.bytes.div_ceil(bytes) != crcs.len() as u64 {
        return Err(format!(
            "array `{}` of {} bytes has {} checksums of {bytes} bytes each",
            abridged(name),
            entry.bytes,
            crcs.len()
        ));
    }
    Ok(Some((bytes, crcs.clone())))
}

fn outside(path: &Path, name: &str) -> Fault {
    let message = format!(
        "it names the file `{}`, which is not in the same folder; files elsewhere are not read",
        abridged(name)
    );
    damaged(path, message)
}

/// Returns the files listed in an index, each with its arrays.
fn read_index(storage: &SharedStorage, path: &Path) -> Read<BTreeMap<String, Vec<String>>> {
    let file = storage.open(path).map_err(|error| unread(path, error))?;
    let len = file.len();
    let wrong =
        |why: String| damaged(path, format!("this is not an index of safetensors files: {why}"));
    if len > LONGEST_INDEX {
        return Err(wrong(format!("{len} bytes, at most {LONGEST_INDEX}")));
    }
    let text = read_all(&*file).map_err(|error| unread(path, error))?;
    let Index { weight_map } =
        serde_json::from_slice(&text).map_err(|error| wrong(abridged(&error.to_string())))?;
    if weight_map.0.is_empty() {
        return Err(wrong("the `weight_map` is empty".into()));
    }
    let mut shards: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, shard) in weight_map.0 {
        shards.entry(shard).or_default().push(name);
    }
    Ok(shards)
}

#[derive(serde::Deserialize)]
struct Index {
    weight_map: WeightMap,
}

/// Maps arrays to files. Unlike a plain map, deserialization rejects duplicate names.
struct WeightMap(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for WeightMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<WeightMap, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = WeightMap;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object from arrays to files")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WeightMap, A::Error> {
                let mut entries = BTreeMap::new();
                while let Some((name, shard)) = map.next_entry::<String, String>()? {
                    if entries.contains_key(&name) {
                        let message = format!("`{}` appears twice", abridged(&name));
                        return Err(A::Error::custom(message));
                    }
                    entries.insert(name, shard);
                }
                Ok(WeightMap(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}
