//! [`DigestedFile`]: the byte format of files with a digest and a JSON header.
//!
//! ```text
//! magic     14 bytes
//! version    2 bytes: two digits
//! digest    32 bytes: SHA-256 of everything after it
//! length     8 bytes, little-endian: length of the header
//! header    JSON
//! contents  what follows
//! ```

use crate::core::Error;
use oxidax_cache::CacheKeyBuilder;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;

/// A format of files, and its words in errors.
pub(crate) struct DigestedFile {
    pub(crate) magic: &'static [u8; 14],
    pub(crate) version: &'static [u8; 2],
    /// The contents of a file: `a serialized program`.
    pub(crate) content: &'static str,
    /// The work of writing one: `serializing a program`.
    pub(crate) writing: &'static str,
    /// The beginning of the error for another version: `this program was serialized`.
    pub(crate) written: &'static str,
    /// Its remedy, after a semicolon, or nothing.
    pub(crate) remedy: &'static str,
}

impl DigestedFile {
    /// Offset of the digest.
    pub(crate) const DIGEST: usize = 16;
    /// Offset of the header's length, the first byte that the digest covers.
    pub(crate) const LENGTH: usize = DigestedFile::DIGEST + 32;
    /// Offset of the header.
    pub(crate) const HEADER: usize = DigestedFile::LENGTH + 8;

    /// Returns the error for bytes that are not such a file.
    pub(crate) fn damaged(&self, problem: impl fmt::Display) -> Error {
        Error::Plugin(format!("these bytes are not {}: {problem}", self.content))
    }

    /// Writes a file. `contents` is appended to the header.
    ///
    /// # Errors
    /// `Plugin` if the header cannot be written as JSON.
    pub(crate) fn write<'a>(
        &self,
        header: &impl Serialize,
        contents: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Vec<u8>, Error> {
        let header = serde_json::to_vec(header)
            .map_err(|error| Error::Plugin(format!("{}: {error}", self.writing)))?;
        let mut body = (header.len() as u64).to_le_bytes().to_vec();
        body.extend(header);
        for part in contents {
            body.extend_from_slice(part);
        }
        let mut bytes = [self.magic.as_slice(), self.version, &digest(&body)].concat();
        bytes.append(&mut body);
        Ok(bytes)
    }

    /// Reads a file. Returns the header and the contents.
    ///
    /// # Errors
    /// `Plugin` if the bytes are of another format or version, truncated or changed.
    pub(crate) fn read<'a, H: DeserializeOwned>(
        &self,
        bytes: &'a [u8],
    ) -> Result<(H, &'a [u8]), Error> {
        let Some((start, rest)) = bytes.split_at_checked(Self::HEADER) else {
            return Err(self.damaged(format!("there are only {}", bytes.len())));
        };
        if !start.starts_with(self.magic) {
            return Err(self.damaged("they begin differently"));
        }
        let version = &start[self.magic.len()..Self::DIGEST];
        if version != self.version {
            let version = String::from_utf8_lossy(version);
            let supported = String::from_utf8_lossy(self.version);
            let (written, remedy) = (self.written, self.remedy);
            return Err(Error::Plugin(format!(
                "{written} in format {version}, this version of oxidax reads format \
                 {supported}{remedy}"
            )));
        }
        if start[Self::DIGEST..Self::LENGTH] != digest(&bytes[Self::LENGTH..]) {
            return Err(self.damaged("they were changed or truncated"));
        }
        let length = start[Self::LENGTH..].iter().rev();
        let length = length.fold(0u64, |n, &byte| n << 8 | u64::from(byte));
        let split = usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length));
        let (header, contents) =
            split.ok_or_else(|| self.damaged("the header is longer than the bytes"))?;
        let header = serde_json::from_slice(header).map_err(|error| self.damaged(error))?;
        Ok((header, contents))
    }
}

/// Returns the SHA-256 digest of bytes.
pub(crate) fn digest(bytes: &[u8]) -> [u8; 32] {
    let mut key = CacheKeyBuilder::new();
    key.part("bytes", bytes);
    *key.finish().as_bytes()
}
