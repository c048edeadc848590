//! Mutations of files, and the peak memory of reading them.

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

/// Returns the peak memory of the process in KiB. An allocation that the machine cannot provide
/// ends the test.
pub(crate) fn most_used() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// Returns mutated bytes: truncated, with flipped bits, overwritten bytes, huge lengths, or
/// repeated or removed parts.
pub(crate) fn damaged(good: &[u8], random: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    let mut bytes = good.to_vec();
    for _ in 0..random.random_range(1..4) {
        if bytes.is_empty() {
            break;
        }
        // Headers are at both ends, so those are hit more often.
        let at = match random.random_range(0..4) {
            0 => random.random_range(0..bytes.len().min(24)),
            1 => bytes.len() - 1 - random.random_range(0..bytes.len().min(64)),
            _ => random.random_range(0..bytes.len()),
        };
        let end = (at + random.random_range(1..9)).min(bytes.len());
        match random.random_range(0..8) {
            0 => bytes.truncate(at),
            1 => bytes[at] ^= 1 << random.random_range(0..8),
            2 => bytes[at] = random.random(),
            3 => bytes[at..end].fill(0xff),
            4 => bytes[at..end].fill(0),
            5 => {
                let lie: u64 =
                    [1 << 31, 1 << 40, u64::MAX >> 1, u64::MAX - 3][random.random_range(0..4)];
                let lie = lie.to_le_bytes();
                let fits = lie.len().min(bytes.len() - at);
                bytes[at..at + fits].copy_from_slice(&lie[..fits]);
            }
            6 => drop(bytes.drain(at..end)),
            _ => {
                let piece = bytes[at..].to_vec();
                bytes.extend(piece);
            }
        }
    }
    bytes
}
