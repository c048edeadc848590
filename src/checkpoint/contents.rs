//! The arrays that can be loaded: from one file, from several files with an index, or from a
//! checkpoint folder.

use super::fault::{Read, abridged, damaged, listed, refused, unread};
use super::file::{ArrayFile, open_file};
use super::header::Entry;
use super::manifest::{self, Manifest, inside};
use super::shards::JoinedShards;
use super::steps;
use crate::core::Error;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// File names used by Hugging Face's libraries.
const INDEX: &str = "model.safetensors.index.json";
const SINGLE: &str = "model.safetensors";
/// Longest index that is read, in bytes.
const LONGEST_INDEX: u64 = 256 << 20;

/// Arrays by name, stored in one file or several.
pub(super) struct Contents {
    /// The opened file or folder.
    pub(super) path: PathBuf,
    files: Vec<ArrayFile>,
    /// File number of each array, and its checksum if the manifest has one.
    arrays: BTreeMap<String, (usize, Option<u32>)>,
    /// Arrays stored as separate shards. Their shards are not listed in `names`.
    sharded: BTreeMap<String, JoinedShards>,
    pub(super) manifest: Option<Manifest>,
}

impl Contents {
    /// Opens a safetensors file, an index, or a folder with one of these or a manifest.
    pub(super) fn open(path: &Path) -> Read<Contents> {
        let is_folder = std::fs::metadata(path).map_err(|error| unread(path, error))?.is_dir();
        if !is_folder {
            return if path.extension().is_some_and(|extension| extension == "json") {
                Contents::indexed(path)
            } else {
                Contents::single(path)
            };
        }
        let exists = |name: &str| path.join(name).exists();
        if exists(manifest::NAME) {
            return Contents::checkpoint(path);
        }
        // If both exist, the single file wins, as in `transformers`.
        if exists(SINGLE) {
            return Contents::single(&path.join(SINGLE));
        }
        if exists(INDEX) {
            return Contents::indexed(&path.join(INDEX));
        }
        let newest = steps::list(path).ok().and_then(|steps| steps.last().copied());
        let help = match newest.map(|step| steps::path(Path::new(""), step)) {
            Some(newest) => format!("open a step's folder; the newest is `{}`", newest.display()),
            None => "open the file by its own name".into(),
        };
        let message = format!(
            "the folder has none of `{}`, `{SINGLE}` and `{INDEX}`\n  help: {help}",
            manifest::NAME
        );
        Err(damaged(path, message))
    }

    fn single(path: &Path) -> Read<Contents> {
        let file = ArrayFile::open(path)?;
        let arrays = file.entries().keys().map(|name| (name.clone(), (0, None))).collect();
        let sharded = BTreeMap::new();
        Ok(Contents {
            path: path.to_path_buf(),
            files: vec![file],
            arrays,
            sharded,
            manifest: None,
        })
    }

    /// Opens a step's folder and compares every file with the manifest.
    pub(super) fn checkpoint(folder: &Path) -> Read<Contents> {
        let manifest = Manifest::read(folder)?;
        let mut contents = Contents {
            path: folder.to_path_buf(),
            files: Vec::new(),
            arrays: BTreeMap::new(),
            sharded: BTreeMap::new(),
            manifest: None,
        };
        for record in &manifest.files {
            let path = inside(folder, &record.name).ok_or_else(|| outside(folder, &record.name))?;
            let file = ArrayFile::open(&path)?;
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
            let crcs: BTreeMap<&String, u32> = record.arrays.iter().map(|(k, v)| (k, *v)).collect();
            contents.add(file, |name| crcs.get(&name.to_owned()).copied())?;
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
    fn indexed(path: &Path) -> Read<Contents> {
        let folder = path.parent().unwrap_or(Path::new(""));
        let shards = read_index(path)?;
        let mut contents = Contents {
            path: path.to_path_buf(),
            files: Vec::new(),
            arrays: BTreeMap::new(),
            sharded: BTreeMap::new(),
            manifest: None,
        };
        for (shard, names) in &shards {
            let path_of_shard = inside(folder, shard).ok_or_else(|| outside(path, shard))?;
            let file = ArrayFile::open(&path_of_shard).map_err(|mut fault| {
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
            contents.add(file, |_| None)?;
        }
        Ok(contents)
    }

    /// Adds a file's arrays. A name that exists already is an error.
    fn add(&mut self, file: ArrayFile, crc: impl Fn(&str) -> Option<u32>) -> Read<()> {
        let number = self.files.len();
        for name in file.entries().keys() {
            if let Some((other, _)) = self.arrays.insert(name.clone(), (number, crc(name))) {
                let short = |file: &ArrayFile| {
                    file.path().file_name().unwrap_or_default().to_string_lossy().into_owned()
                };
                let message = format!(
                    "array `{}` is in two files, `{}` and `{}`",
                    abridged(name),
                    short(&self.files[other]),
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
        let (number, _) = self.arrays.get(name)?;
        self.files[*number].entries().get(name)
    }

    /// Reads an array's elements.
    pub(super) fn read(&self, name: &str) -> Read<Vec<u8>> {
        match self.sharded.get(name) {
            Some(joined) => joined.read(&|shard| self.read_one(shard)),
            None => self.read_one(name),
        }
    }

    fn read_one(&self, name: &str) -> Read<Vec<u8>> {
        let (number, crc) = self.arrays[name];
        let file = &self.files[number];
        file.read(name, &file.entries()[name], crc)
    }
}

fn outside(path: &Path, name: &str) -> super::fault::Fault {
    let message = format!(
        "it names the file `{}`, which is not in the same folder; files elsewhere are not read",
        abridged(name)
    );
    damaged(path, message)
}

/// Returns the files listed in an index, each with its arrays.
fn read_index(path: &Path) -> Read<BTreeMap<String, Vec<String>>> {
    let (file, len) = open_file(path).map_err(|error| unread(path, error))?;
    let wrong =
        |why: String| damaged(path, format!("this is not an index of safetensors files: {why}"));
    if len > LONGEST_INDEX {
        return Err(wrong(format!("{len} bytes, at most {LONGEST_INDEX}")));
    }
    let mut text = Vec::new();
    file.take(LONGEST_INDEX).read_to_end(&mut text).map_err(|error| unread(path, error))?;
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
