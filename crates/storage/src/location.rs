//! Locations: local paths and the addresses of objects.

use crate::error::{Error, Problem};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The scheme of an object's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Google Cloud Storage.
    Gs,
    /// Amazon S3, or a server that speaks its protocol.
    S3,
}

impl Scheme {
    /// Returns the scheme as it is written in an address.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Gs => "gs",
            Scheme::S3 => "s3",
        }
    }
}

/// A local path, or the address of an object.
///
/// | text | location |
/// |------|----------|
/// | `train/0.csv`, `/data/0.csv` | a local path |
/// | `file:///data/0.csv` | the local path `/data/0.csv`; `%20` is a space, as in every URL |
/// | `gs://bucket/train/0.csv` | an object of Google Cloud Storage; `%20` is three characters |
/// | `s3://bucket/train/0.csv` | an object of Amazon S3; `%20` is three characters |
///
/// ```
/// use oxidax_storage::{Location, Scheme};
/// let object = Location::parse("gs://numbers/train/0.csv")?;
/// let expected = Location::Object {
///     scheme: Scheme::Gs,
///     bucket: "numbers".into(),
///     key: "train/0.csv".into(),
/// };
/// assert_eq!(object, expected);
/// assert_eq!(Location::parse("file:///a%20b")?, Location::Local("/a b".into()));
/// # Ok::<(), oxidax_storage::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Location {
    /// A file or folder of the local file system.
    Local(PathBuf),
    /// An object, or the prefix of objects that form a folder.
    Object {
        /// The scheme of the address.
        scheme: Scheme,
        /// The bucket's name.
        bucket: String,
        /// The key, without a slash at its start or end. Empty for the bucket itself.
        key: String,
    },
}

impl Location {
    /// Parses a path or an address. No file and no server is asked.
    ///
    /// # Errors
    /// Kind `InvalidInput` if the scheme is unknown, the bucket is missing, a `file://` address
    /// names another host, or the key has an empty segment, `.` or `..`.
    pub fn parse(text: impl AsRef<Path>) -> Result<Location, Error> {
        let path = text.as_ref();
        // An address is text; any other sequence of bytes is a path.
        let Some((text, (scheme, rest))) = path.to_str().and_then(|t| Some((t, split(t)?))) else {
            return Ok(Location::Local(path.to_path_buf()));
        };
        let refused = |what: String, help: &str| {
            Err(Error::new(
                text,
                "parsing the address",
                Problem::new(io::ErrorKind::InvalidInput, what).help(help),
            ))
        };
        let scheme = match scheme {
            "file" => {
                let Some(path) = rest.strip_prefix("localhost").unwrap_or(rest).strip_prefix('/')
                else {
                    return refused(
                        "the address names a host or a relative path".into(),
                        "write three slashes and an absolute path: file:///data/0.csv",
                    );
                };
                return match decoded(&format!("/{path}")) {
                    Some(path) => Ok(Location::Local(path)),
                    None => refused(
                        "a `%` is not followed by two hexadecimal digits of UTF-8 text".into(),
                        "write `%25` for a percent sign",
                    ),
                };
            }
            "gs" => Scheme::Gs,
            "s3" => Scheme::S3,
            other => {
                return refused(
                    format!("the scheme `{other}` is not supported"),
                    "use gs://, s3://, file:// or a local path; for another store, create a \
                     client with the crate object_store and pass it to `data::Bucket`",
                );
            }
        };
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        let key = key.strip_suffix('/').unwrap_or(key);
        let example = format!("{}://bucket/folder/file", scheme.name());
        if bucket.is_empty() {
            return refused("the bucket is missing".into(), &format!("write {example}"));
        }
        if let Some(wrong) = wrong_segment(key) {
            return refused(
                format!("the key `{key}` has the segment `{wrong}`"),
                &format!("segments are not empty, `.` or `..`: {example}"),
            );
        }
        Ok(Location::Object { scheme, bucket: bucket.to_owned(), key: key.to_owned() })
    }

    /// Returns true if the text begins with a scheme and `://`.
    ///
    /// ```
    /// assert!(oxidax_storage::Location::is_address("gs://numbers"));
    /// assert!(!oxidax_storage::Location::is_address("C:/numbers"));
    /// ```
    pub fn is_address(text: impl AsRef<Path>) -> bool {
        text.as_ref().to_str().is_some_and(|text| split(text).is_some())
    }

    /// Returns the location of `name`, which may contain slashes, inside this folder.
    pub fn join(&self, name: &str) -> Location {
        match self {
            Location::Local(path) => Location::Local(path.join(name)),
            Location::Object { scheme, bucket, key } => {
                let key = if key.is_empty() { name.to_owned() } else { format!("{key}/{name}") };
                Location::Object { scheme: *scheme, bucket: bucket.clone(), key }
            }
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Local(path) => path.display().fmt(f),
            Location::Object { scheme, bucket, key } if key.is_empty() => {
                write!(f, "{}://{bucket}", scheme.name())
            }
            Location::Object { scheme, bucket, key } => {
                write!(f, "{}://{bucket}/{key}", scheme.name())
            }
        }
    }
}

/// Splits `scheme://rest` (RFC 3986, section 3.1: a letter, then letters, digits, `+`, `-`, `.`).
fn split(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once("://")?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    is_scheme.then_some((scheme, rest))
}

/// Returns a segment that an address may not have.
pub(crate) fn wrong_segment(key: &str) -> Option<&str> {
    key.split('/').find(|part| ["", ".", ".."].contains(part)).filter(|_| !key.is_empty())
}

/// Replaces `%41` by `A`. Returns `None` if digits are missing or the result is not UTF-8.
fn decoded(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        if *first == b'%' {
            let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
            // `from_str_radix` accepts a sign.
            let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            bytes.push(u8::from_str_radix(digits, 16).ok().filter(|_| is_hex)?);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).ok().map(PathBuf::from)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in a test, unwrapping is the assertion")]
mod tests {
    use super::*;

    #[test]
    fn addresses_print_as_they_were_written() {
        for text in ["gs://b/a/0.csv", "s3://b/a%20b", "s3://b", "data/0.csv", "/a", "c:/a"] {
            assert_eq!(Location::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Location::parse("gs://b/folder/").unwrap().to_string(), "gs://b/folder");
        assert_eq!(Location::parse("s3://b").unwrap().join("a/0").to_string(), "s3://b/a/0");
    }

    #[test]
    fn file_addresses_are_local_paths() {
        for (text, path) in [
            ("file:///a/b", "/a/b"),
            ("file://localhost/a", "/a"),
            ("file:///%C3%A9%25", "/é%"),
            ("file:///", "/"),
        ] {
            assert_eq!(Location::parse(text).unwrap(), Location::Local(path.into()));
        }
    }

    #[test]
    fn wrong_addresses_are_refused_with_a_remedy() {
        for (text, message) in [
            ("gs://", "the bucket is missing"),
            ("s3:///a", "the bucket is missing"),
            ("gs://b//a", "the segment ``"),
            ("gs://b/a/../c", "the segment `..`"),
            ("file://host/a", "names a host"),
            ("file://a", "names a host"),
            ("file:///%4", "`%` is not followed"),
            ("file:///%+1", "`%` is not followed"),
            ("file:///%ff", "`%` is not followed"),
            ("hdfs://b/a", "the scheme `hdfs` is not supported"),
        ] {
            let error = Location::parse(text).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            let error = error.to_string();
            assert!(error.starts_with(&format!("{text}: parsing the address: ")), "{error}");
            assert!(error.contains(message) && error.contains("\n  help: "), "{error}");
        }
    }
}
