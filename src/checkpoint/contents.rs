//! What there is to load: the arrays of one file, of several that an index names, or of a checkpoint of ours.

use super::fault::{Read, abridged, damaged, listed, refused, unread};
use super::file::{ArrayFile, open_file};
use super::header::Entry;
use super::manifest::{self, Manifest, inside};
use super::pieces::Joined;
use super::steps;
use crate::core::Error;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// The names that Hugging Face's libraries give.
const INDEX: &str = "model.safetensors.index.json";
const SINGLE: &str = "model.safetensors";
/// Longer indices are not read.
const LONGEST_INDEX: u64 = 256 << 20;

/// Arrays by name, wherever they lie.
pub(super) struct Contents {
    /// What was opened: the file or folder.
    pub(super) path: PathBuf,
    files: Vec<ArrayFile>,
    /// Which file, and the checksum if it is known.
    arrays: BTreeMap<String, (usize, Option<u32>)>,
    /// Those that lie in pieces, which are then not among `arrays`' names.
    wholes: BTreeMap<String, Joined>,
    pub(super) manifest: Option<Manifest>,
}

impl Contents {
    /// Opens a safetensors file, an index, or a folder with one of these or a manifest.
    pub(super) fn open(path: &Path) -> Read<Contents> {
        let is_folder = std::fs::metadata(path).map_err(|error| unread(path, error))?.is_dir();
        if !is_folder {
            return match path.extension().is_some_and(|extension| extension == "json") {
                true => Contents::indexed(path),
                false => Contents::single(path),
            };
        }
        let there = |name: &str| path.join(name).exists();
        match () {
            () if there(manifest::NAME) => Contents::checkpoint(path),
            // As `transformers` chooses, if both are there.
            () if there(SINGLE) => Contents::single(&path.join(SINGLE)),
            () if there(INDEX) => Contents::indexed(&path.join(INDEX)),
            () => {
                let newest = steps::list(path).ok().and_then(|steps| steps.last().copied());
                let help = match newest.map(|step| steps::path(Path::new(""), step)) {
                    Some(newest) => {
                        format!("name a step's folder; the newest is `{}`", newest.display())
                    }
                    None => "name the file, if it is called otherwise".into(),
                };
                let message = format!(
                    "the folder has none of `{}`, `{SINGLE}` and `{INDEX}`\n  help: {help}",
                    manifest::NAME
                );
                Err(damaged(path, message))
            }
        }
    }

    fn single(path: &Path) -> Read<Contents> {
        let file = ArrayFile::open(path)?;
        let arrays = file.entries().keys().map(|name| (name.clone(), (0, None))).collect();
        let wholes = BTreeMap::new();
        Ok(Contents { path: path.to_path_buf(), files: vec![file], arrays, wholes, manifest: None })
    }

    /// A checkpoint of ours: every file is what the manifest says.
    pub(super) fn checkpoint(folder: &Path) -> Read<Contents> {
        let manifest = Manifest::read(folder)?;
        let mut contents = Contents {
            path: folder.to_path_buf(),
            files: Vec::new(),
            arrays: BTreeMap::new(),
            wholes: BTreeMap::new(),
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
        contents.join(&manifest)?;
        contents.manifest = Some(manifest);
        Ok(contents)
    }

    /// Finds the pieces of arrays that lie in several.
    fn join(&mut self, manifest: &Manifest) -> Read<()> {
        for (name, whole) in &manifest.sharded {
            let wrong = |why: String| {
                damaged(&self.path, format!("the pieces of `{}`: {why}", abridged(name)))
            };
            if self.arrays.contains_key(name) {
                return Err(wrong("an array has that name too".into()));
            }
            let entries = whole.starts.iter().map(|(piece, start)| match self.entry(piece) {
                Some(entry) => Ok((piece.as_str(), entry, start.as_slice())),
                None => Err(wrong(format!("`{}` is missing", abridged(piece)))),
            });
            let entries = entries.collect::<Result<Vec<_>, _>>()?;
            let joined = Joined::new(&whole.shape, &entries).map_err(wrong)?;
            self.wholes.insert(name.clone(), joined);
        }
        Ok(())
    }

    /// A model in several files, as Hugging Face's libraries save it.
    fn indexed(path: &Path) -> Read<Contents> {
        let folder = path.parent().unwrap_or(Path::new(""));
        let shards = read_index(path)?;
        let mut contents = Contents {
            path: path.to_path_buf(),
            files: Vec::new(),
            arrays: BTreeMap::new(),
            wholes: BTreeMap::new(),
            manifest: None,
        };
        for (shard, names) in &shards {
            let at = inside(folder, shard).ok_or_else(|| outside(path, shard))?;
            let file = ArrayFile::open(&at).map_err(|mut fault| {
                if let Error::Io { source, .. } = &fault.error
                    && source.kind() == io::ErrorKind::NotFound
                {
                    let more = match names.len() - 1 {
                        0 => String::new(),
                        more => format!(" and {more} more"),
                    };
                    let message = format!(
                        "the file `{}` is missing, in which `{}`{more} should lie\n  \
                         help: fetch it into the folder of the index",
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

    /// Adds a file's arrays, none of which may be there already.
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

    /// The arrays' names, in their order.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> + '_ {
        let pieces: BTreeSet<&str> = self.wholes.values().flat_map(Joined::names).collect();
        let whole =
            self.arrays.keys().map(String::as_str).filter(move |name| !pieces.contains(name));
        whole.chain(self.wholes.keys().map(String::as_str))
    }

    pub(super) fn entry(&self, name: &str) -> Option<&Entry> {
        if let Some(joined) = self.wholes.get(name) {
            return Some(&joined.entry);
        }
        let (number, _) = self.arrays.get(name)?;
        self.files[*number].entries().get(name)
    }

    /// An array's elements on the host.
    pub(super) fn read(&self, name: &str) -> Read<Vec<u8>> {
        match self.wholes.get(name) {
            Some(joined) => joined.read(|piece| self.read_one(piece)),
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
        "it names the file `{}`, which is not a file of the same folder; nothing outside of it is read",
        abridged(name)
    );
    damaged(path, message)
}

/// The files that an index names, each with its arrays.
fn read_index(path: &Path) -> Read<BTreeMap<String, Vec<String>>> {
    let (file, len) = open_file(path).map_err(|error| unread(path, error))?;
    let wrong =
        |why: String| damaged(path, format!("this is no index of safetensors files: {why}"));
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

/// Array to file. A name that stands there twice is refused, where a plain map would take the last.
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
                        let message = format!("`{}` stands there twice", abridged(&name));
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
