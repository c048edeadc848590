//! Cache keys.

use std::fmt;
use std::str::FromStr;

use hmac_sha256::Hash as Sha256;

/// The SHA-256 of everything that affects compilation. Prints as 64 hexadecimal digits.
///
/// ```
/// use oxidax_cache::CacheKeyBuilder;
/// let key = |text: &str| {
///     let mut key = CacheKeyBuilder::new();
///     key.part("program", text.as_bytes());
///     key.finish()
/// };
/// assert_eq!(key("a"), key("a"));
/// assert_ne!(key("a"), key("b"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CacheKey([u8; 32]);

/// Builds a [`CacheKey`] from named parts.
#[derive(Clone, Default)]
pub struct CacheKeyBuilder(Sha256);

impl fmt::Debug for CacheKeyBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CacheKeyBuilder")
    }
}

impl CacheKeyBuilder {
    /// Creates a builder without parts.
    pub fn new() -> CacheKeyBuilder {
        CacheKeyBuilder::default()
    }

    /// Adds a part. Names and lengths are hashed too, so different lists of parts give different
    /// keys.
    pub fn part(&mut self, name: &str, bytes: &[u8]) {
        for bytes in [name.as_bytes(), bytes] {
            self.0.update((bytes.len() as u64).to_le_bytes());
            self.0.update(bytes);
        }
    }

    /// Adds a part given in pieces. The division into pieces does not affect the key.
    pub fn pieces<'a>(&mut self, name: &str, pieces: impl IntoIterator<Item = &'a [u8]>) {
        let mut hasher = Sha256::new();
        pieces.into_iter().for_each(|piece| hasher.update(piece));
        self.part(name, &hasher.finalize());
    }

    /// Returns the key.
    pub fn finish(self) -> CacheKey {
        CacheKey(self.0.finalize())
    }
}

impl CacheKey {
    /// Returns the bytes of the key.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for CacheKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for CacheKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The error for text that is not 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a key is 64 hexadecimal digits in lower case")]
pub struct ParseCacheKeyError;

impl FromStr for CacheKey {
    type Err = ParseCacheKeyError;

    fn from_str(text: &str) -> Result<CacheKey, ParseCacheKeyError> {
        let mut key = [0; 32];
        if text.len() != 64 || !text.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(ParseCacheKeyError);
        }
        for (byte, at) in key.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| ParseCacheKeyError)?;
        }
        Ok(CacheKey(key))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in a test, unwrapping is the assertion")]
mod tests {
    use super::*;

    fn key(parts: &[(&str, &str)]) -> CacheKey {
        let mut key = CacheKeyBuilder::new();
        parts.iter().for_each(|(name, text)| key.part(name, text.as_bytes()));
        key.finish()
    }

    #[test]
    fn parts_are_separated() {
        let different = [
            key(&[("a", "bc")]),
            key(&[("ab", "c")]),
            key(&[("a", "b"), ("c", "")]),
            key(&[("a", ""), ("bc", "")]),
            key(&[]),
        ];
        for (at, one) in different.iter().enumerate() {
            assert!(different[at + 1..].iter().all(|other| other != one));
        }
    }

    #[test]
    fn the_division_into_pieces_does_not_matter() {
        let of = |pieces: &[&str]| {
            let mut key = CacheKeyBuilder::new();
            key.pieces("text", pieces.iter().map(|piece| piece.as_bytes()));
            key.finish()
        };
        assert_eq!(of(&["ab", "c"]), of(&["a", "", "bc"]));
        assert_ne!(of(&["abc"]), of(&["abd"]));
    }

    #[test]
    fn keys_parse_from_their_text() {
        let key = key(&[("a", "b")]);
        assert_eq!(key.to_string().parse::<CacheKey>().unwrap(), key);
        for wrong in ["", "12", &"g".repeat(64), &"A".repeat(64), &"é".repeat(32)] {
            assert!(wrong.parse::<CacheKey>().is_err(), "{wrong}");
        }
    }
}
