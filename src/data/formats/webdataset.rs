//! Tar archives in WebDataset's layout.

use super::sequential::{Fault, Format, Opened, records};
use crate::core::Error;
use crate::data::cacheable::Cacheable;
use crate::data::files::{File, Reader};
use crate::data::stream::Stream;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use tar::{EntryType, Header, PaxExtensions};

/// Size of a tar block, in bytes.
const BLOCK: u64 = 512;
/// Longest name, and longest extended header, in bytes.
const MAX_EXTENSION: u64 = 1 << 20;

/// A sample of a WebDataset archive: the members with one basename, by extension.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TarSample {
    /// The name without extensions, with folders: `train/0001`.
    pub key: String,
    /// The bytes of each member. The name is everything after the first dot of the file's name:
    /// `jpg`, or `seg.png`.
    pub fields: BTreeMap<String, Vec<u8>>,
}

impl TarSample {
    /// Returns the bytes of a member by its extension.
    ///
    /// # Errors
    /// `Data` if there is none.
    pub fn bytes(&self, extension: &str) -> Result<&[u8], Error> {
        self.fields.get(extension).map(Vec::as_slice).ok_or_else(|| {
            let names: Vec<&str> = self.fields.keys().map(String::as_str).collect();
            let (key, names) = (&self.key, names.join(", "));
            let message = format!("sample `{key}` has no member `{extension}`; it has {names}");
            Error::data("webdataset", message)
        })
    }

    /// Returns a member as text.
    ///
    /// # Errors
    /// `Data` if there is none, or it is not UTF-8.
    pub fn text(&self, extension: &str) -> Result<&str, Error> {
        std::str::from_utf8(self.bytes(extension)?).map_err(|error| {
            let message = format!("member `{extension}` of sample `{}`: {error}", self.key);
            Error::data("webdataset", message)
        })
    }

    /// Deserializes a member in JSON. Numbers in members such as `cls` are JSON as well.
    ///
    /// # Errors
    /// `Data` if there is none, or it is not JSON of this type.
    pub fn json<T: DeserializeOwned>(&self, extension: &str) -> Result<T, Error> {
        serde_json::from_slice(self.bytes(extension)?).map_err(|error| {
            let message = format!("member `{extension}` of sample `{}`: {error}", self.key);
            Error::data("webdataset", message)
        })
    }
}

impl Cacheable for TarSample {
    fn encode(&self, bytes: &mut Vec<u8>) {
        self.key.encode(bytes);
        self.fields.encode(bytes);
    }
    fn decode(bytes: &mut &[u8]) -> Result<TarSample, Error> {
        Ok(TarSample { key: String::decode(bytes)?, fields: BTreeMap::decode(bytes)? })
    }
}

/// Streams the samples of a tar archive in WebDataset's layout, compressed with gzip or not
/// (feature `webdataset`).
///
/// Consecutive files with the same basename are a sample. Folders, links and hidden files are
/// skipped. A data set is usually many archives: give each process its own, or read all with
/// [`interleave`](super::super::interleave) and [`Stream::shard`]. A position is the byte of the
/// next sample's first member.
///
/// # Errors
/// [`Error::Io`], as an item of the stream, naming the file and the byte, instead of a sample that
/// may be incomplete. The stream then ends, because the next member cannot be found. An archive
/// without the two empty blocks at its end was cut short, which is an error as well.
///
/// ```no_run
/// use oxidax::data::{self, InterleaveOptions};
/// let shards = data::files("imagenet/train-*.tar")?;
/// let turns = InterleaveOptions { cycle_length: 4, block_length: 1 };
/// let samples = data::interleave(shards.iter().map(data::webdataset), turns)
///     .shuffle(1000, 0)
///     .map(|sample| Ok((sample.bytes("jpg")?.to_vec(), sample.json::<u32>("cls")?)));
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// A. Aizman, G. Maltby, T. Breuel: High performance I/O for large scale deep learning, 2019.
/// IEEE Std 1003.1-2008, "pax interchange format".
#[doc(alias = "tar")]
#[track_caller]
pub fn webdataset(file: impl Into<File>) -> Stream<TarSample> {
    records(file.into(), WebDatasetFormat)
}

struct WebDatasetFormat;

impl Format for WebDatasetFormat {
    const NAME: &'static str = "webdataset";
    type Opened = TarReader;

    fn open(&self, file: &File, offset: u64) -> Result<TarReader, Error> {
        let mut reader = Reader::open(file)?;
        if offset > 0 {
            reader.seek(offset)?;
        }
        Ok(TarReader { reader, pending: None, offset })
    }
}

/// A file of the archive whose contents have not been read.
struct Member {
    start: u64,
    key: String,
    extension: String,
    size: u64,
}

struct TarReader {
    reader: Reader,
    /// The first member of the next sample.
    pending: Option<Member>,
    /// The offset of the next sample.
    offset: u64,
}

impl TarReader {
    /// Reads headers up to the next file. Its contents follow.
    fn member(&mut self) -> Result<Option<Member>, Error> {
        // The first header of the member.
        let mut first = None;
        let (mut long_name, mut long_size) = (None, None);
        loop {
            let at = self.reader.offset();
            let start = *first.get_or_insert(at);
            let mut block = [0; BLOCK as usize];
            if !self.reader.fill(&mut block, "a header")? {
                // Without the mark, members at the end may be missing.
                return match at {
                    0 => Ok(None),
                    _ => Err(self.reader.damaged(at, "the archive ends without its end mark")),
                };
            }
            if block.iter().all(|&byte| byte == 0) {
                // The end of the archive. What follows is padding.
                return Ok(None);
            }
            let header = Header::from_byte_slice(&block);
            self.check(header, at)?;
            let invalid = |error: std::io::Error| self.reader.damaged(at, error);
            let size = header.entry_size().map_err(invalid)?;
            match header.entry_type() {
                EntryType::GNULongName => {
                    let mut name = self.contents(size.min(MAX_EXTENSION + 1), size, "a name")?;
                    name.truncate(name.iter().position(|&byte| byte == 0).unwrap_or(name.len()));
                    long_name = Some(name);
                }
                EntryType::XHeader => {
                    let extensions =
                        self.contents(size.min(MAX_EXTENSION + 1), size, "an extended header")?;
                    for extension in PaxExtensions::new(&extensions) {
                        let extension =
                            extension.map_err(|error| self.reader.damaged(at, error))?;
                        match extension.key_bytes() {
                            b"path" => long_name = Some(extension.value_bytes().to_vec()),
                            b"size" => {
                                let size = extension.value().ok().and_then(|v| v.parse().ok());
                                let wrong = || self.reader.damaged(at, "a size is not a number");
                                long_size = Some(size.ok_or_else(wrong)?);
                            }
                            _ => {}
                        }
                    }
                }
                kind => {
                    let name = long_name.take();
                    let name = name.unwrap_or_else(|| header.path_bytes().into_owned());
                    let size = long_size.take().unwrap_or(size);
                    let is_file = matches!(kind, EntryType::Regular | EntryType::Continuous);
                    let name = String::from_utf8_lossy(&name);
                    match split(&name) {
                        Some((key, extension)) if is_file => {
                            let (key, extension) = (key.to_owned(), extension.to_owned());
                            return Ok(Some(Member { start, key, extension, size }));
                        }
                        _ => {
                            // Links state the size of their target and have no contents.
                            let is_stored = is_file || !(kind.is_hard_link() || kind.is_symlink());
                            let size = if is_stored { size } else { 0 };
                            let rest = padded(size).ok_or_else(|| self.overflow(at, size))?;
                            self.reader.skip(rest, "the contents of a member")?;
                        }
                    }
                    first = None;
                }
            }
        }
    }

    /// Verifies the checksum of a header.
    fn check(&self, header: &Header, at: u64) -> Result<(), Error> {
        let bytes = header.as_bytes();
        let sum: u32 = bytes
            .iter()
            .enumerate()
            // The checksum's own bytes count as spaces.
            .map(|(at, &byte)| u32::from(if (148..156).contains(&at) { b' ' } else { byte }))
            .sum();
        match header.cksum() {
            Ok(stored) if stored == sum => Ok(()),
            stored => {
                let stored = stored.map_or("no number".to_owned(), |stored| stored.to_string());
                let message = format!(
                    "the header of a member has the checksum {sum}, stored is {stored}; nothing \
                     after it can be read"
                );
                Err(self.reader.damaged(at, message))
            }
        }
    }

    fn overflow(&self, at: u64, size: u64) -> Error {
        self.reader.damaged(at, format!("a member of {size} bytes"))
    }

    /// Reads the contents of a member and the padding after them. At most `limit` bytes are read.
    fn contents(&mut self, limit: u64, size: u64, what: &str) -> Result<Vec<u8>, Error> {
        let at = self.reader.offset();
        if limit < size {
            return Err(self.reader.damaged(at, format!("{what} of {size} bytes")));
        }
        let padding = padded(size).ok_or_else(|| self.overflow(at, size))? - size;
        let bytes = self.reader.exactly(size, what)?;
        self.reader.skip(padding, "the padding after a member")?;
        Ok(bytes)
    }
}

/// Returns the size of a member's contents with padding.
fn padded(size: u64) -> Option<u64> {
    size.checked_next_multiple_of(BLOCK)
}

/// Splits a path into the key and the extension. Returns `None` for hidden files, and for names
/// without an extension.
fn split(path: &str) -> Option<(&str, &str)> {
    let path = path.strip_prefix("./").unwrap_or(path);
    let name = path.rfind('/').map_or(0, |slash| slash + 1);
    let dot = name + path[name..].find('.')?;
    (dot > name).then(|| (&path[..dot], &path[dot + 1..]))
}

impl Opened for TarReader {
    type Record = TarSample;

    fn read(&mut self) -> Result<Option<(u64, TarSample)>, Fault> {
        let first = match self.pending.take() {
            Some(member) => Some(member),
            None => self.member()?,
        };
        let Some(first) = first else {
            self.offset = self.reader.offset();
            return Ok(None);
        };
        let start = first.start;
        let mut sample = TarSample { key: first.key.clone(), fields: BTreeMap::new() };
        let mut member = first;
        loop {
            let bytes = self.contents(member.size, member.size, "the contents of a member")?;
            let extension = member.extension;
            if sample.fields.contains_key(&extension) {
                let message = format!("sample `{}` has two members `{extension}`", sample.key);
                return Err(Fault::File(self.reader.damaged(member.start, message)));
            }
            sample.fields.insert(extension, bytes);
            match self.member()? {
                Some(next) if next.key == sample.key => member = next,
                next => {
                    self.offset = match &next {
                        Some(next) => next.start,
                        None => self.reader.offset(),
                    };
                    self.pending = next;
                    return Ok(Some((start, sample)));
                }
            }
        }
    }

    fn offset(&self) -> u64 {
        self.offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_at_the_first_dot_of_the_file() {
        assert_eq!(split("train.v1/0001.seg.png"), Some(("train.v1/0001", "seg.png")));
        assert_eq!(split("./0001.cls"), Some(("0001", "cls")));
        assert_eq!(split("folder/.hidden.txt"), None);
        assert_eq!(split("folder.d/README"), None);
    }
}
