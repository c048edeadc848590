//! The file format of a compiled program.
//!
//! ```text
//! oxidax program 1
//! key 0b4f…            the cache key
//! platform cpu
//! took 1234567890      compile time in nanoseconds
//! payload 437123       size of the program in bytes
//! name train_step      last, because its length varies
//!                      an empty line
//! …                    the program
//! …                    32 bytes: the SHA-256 of all of the above
//! ```
//!
//! The hash covers the header too, so it detects a flipped bit in a length or key.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

use hmac_sha256::Hash as Sha256;

use crate::key::CacheKey;

const MAGIC: &str = "oxidax program 1";
/// Size of the hash at the end.
const DIGEST: u64 = 32;
/// Upper bound of header sizes.
const HEADER: usize = 1024;
/// Longest stored name, in characters.
const NAME: usize = 128;

/// Metadata of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// The name in errors and profiles.
    pub name: String,
    /// Its platform: `cpu`, `cuda`, `tpu`.
    pub platform: String,
    /// Its compile time.
    pub compile_time: Duration,
}

/// An intact compiled program from the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheEntry {
    /// Its metadata.
    pub about: About,
    bytes: Vec<u8>,
    start: usize,
}

impl CacheEntry {
    /// Returns the stored program.
    pub fn payload(&self) -> &[u8] {
        &self.bytes[self.start..self.bytes.len() - DIGEST as usize]
    }
}

/// The header of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) key: CacheKey,
    pub(crate) about: About,
    payload: u64,
    /// Length of the header in bytes.
    length: usize,
}

impl Header {
    fn text(key: &CacheKey, about: &About, payload: u64) -> String {
        let word = |text: &str, longest: usize| -> String {
            text.chars().filter(|c| !c.is_control()).take(longest).collect()
        };
        let mut text = format!("{MAGIC}\nkey {key}\n");
        let took = about.compile_time.as_nanos();
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "platform {}\ntook {took}\npayload {payload}\nname {}\n\n",
            word(&about.platform, 32),
            word(&about.name, NAME)
        );
        text
    }

    /// Parses the header of a file, or returns the problem.
    fn parse(start: &[u8]) -> Result<Header, String> {
        let end = start.windows(2).position(|pair| pair == b"\n\n").map(|at| at + 2);
        let text = end.and_then(|end| std::str::from_utf8(&start[..end]).ok());
        let Some(text) = text else { return Err("it has no header".to_owned()) };
        let mut lines = text.lines();
        match lines.next() {
            Some(MAGIC) => {}
            Some(line) if line.starts_with("oxidax program ") => {
                return Err(format!("its format is `{line}`, not `{MAGIC}`"));
            }
            _ => return Err("it is no entry".to_owned()),
        }
        let mut field = |name: &str| {
            let value = lines.next().and_then(|line| line.strip_prefix(name)?.strip_prefix(' '));
            value.ok_or_else(|| format!("its header does not say `{name}`"))
        };
        fn number<T: std::str::FromStr>(name: &str, text: &str) -> Result<T, String> {
            text.parse().map_err(|_| format!("its header says `{name} {text}`"))
        }
        let key = number("key", field("key")?)?;
        let platform = field("platform")?.to_owned();
        let compile_time = Duration::from_nanos(number("took", field("took")?)?);
        let payload = number("payload", field("payload")?)?;
        let name = field("name")?.to_owned();
        let about = About { name, platform, compile_time };
        Ok(Header { key, about, payload, length: text.len() })
    }

    /// Reads the header of a file, and compares its lengths with the file's.
    ///
    /// The outer error is the system's; the inner one describes the damage.
    pub(crate) fn read(file: &mut File) -> io::Result<Result<(Header, Vec<u8>), String>> {
        let size = file.metadata()?.len();
        let mut start = Vec::with_capacity(HEADER);
        Read::by_ref(file).take(HEADER as u64).read_to_end(&mut start)?;
        let header = match Header::parse(&start) {
            Ok(header) => header,
            Err(reason) => return Ok(Err(reason)),
        };
        let expected = (header.length as u64).checked_add(DIGEST);
        if expected.and_then(|rest| rest.checked_add(header.payload)) != Some(size) {
            let reason =
                format!("it has {size} bytes, of which {} are the program's", header.payload);
            return Ok(Err(reason));
        }
        Ok(Ok((header, start)))
    }
}

/// Reads an entry. The outer error is the system's; the inner one describes the damage.
pub(crate) fn read(file: &mut File, key: &CacheKey) -> io::Result<Result<CacheEntry, String>> {
    let (header, mut bytes) = match Header::read(file)? {
        Ok(read) => read,
        Err(reason) => return Ok(Err(reason)),
    };
    if header.key != *key {
        return Ok(Err(format!("it is the entry of {}", header.key)));
    }
    let size = header.length as u64 + header.payload + DIGEST;
    bytes.reserve_exact((size as usize).saturating_sub(bytes.len()));
    file.take(size - bytes.len() as u64).read_to_end(&mut bytes)?;
    let Some((content, digest)) = bytes.split_last_chunk::<{ DIGEST as usize }>() else {
        return Ok(Err("it is cut short".to_owned()));
    };
    if bytes.len() as u64 != size {
        return Ok(Err("it is cut short".to_owned()));
    }
    if Sha256::hash(content)[..] != *digest {
        return Ok(Err("its SHA-256 is not the one that it had".to_owned()));
    }
    Ok(Ok(CacheEntry { about: header.about, bytes, start: header.length }))
}

/// Writes an entry and returns its size in bytes.
pub(crate) fn write(
    to: &mut impl Write,
    key: &CacheKey,
    about: &About,
    payload: &[u8],
) -> io::Result<u64> {
    let header = Header::text(key, about, payload.len() as u64);
    let mut hasher = Sha256::new();
    for part in [header.as_bytes(), payload] {
        hasher.update(part);
        to.write_all(part)?;
    }
    to.write_all(&hasher.finalize())?;
    Ok((header.len() + payload.len()) as u64 + DIGEST)
}

/// Returns the file name of an entry.
pub(crate) fn file_name(key: &CacheKey) -> String {
    format!("{key}.program")
}

/// Returns true if a file name is that of an entry.
pub(crate) fn key_of(path: &Path) -> Option<CacheKey> {
    path.file_name()?.to_str()?.strip_suffix(".program")?.parse().ok()
}
