//! [`VhloVersion`]: a version of StableHLO's artifacts.

use std::fmt;

/// A version of StableHLO, for which an artifact is written. A reader accepts artifacts of the same
/// version and of older ones.
///
/// | jaxlib | StableHLO |
/// |---|---|
/// | 0.4.31 (July 2024) | 1.4.2 |
/// | 0.4.38 | 1.8.7 |
/// | 0.6.2 | 1.11.0 |
/// | 0.8.1 | 1.13.3 |
/// | 0.10.2 | 1.17.0 |
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VhloVersion {
    major: u64,
    minor: u64,
    patch: u64,
}

impl VhloVersion {
    /// The oldest version that this crate writes, of June 2024.
    pub const OLDEST: VhloVersion = VhloVersion::new(1, 4, 0);

    /// The latest version that this crate writes.
    pub const LATEST: VhloVersion = VhloVersion::new(1, 17, 0);

    /// Creates a version from its numbers.
    pub const fn new(major: u64, minor: u64, patch: u64) -> VhloVersion {
        VhloVersion { major, minor, patch }
    }
}

impl fmt::Display for VhloVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}
