//! Mutated copies of files.

/// A generator of numbers: xorshift64*, so that a seed names the same mutation everywhere.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        random.next();
        random
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number below `bound`, which is not zero.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// Bytes that change the meaning of many formats.
const EXTREMES: [u8; 8] = [0, 1, 0x7f, 0x80, 0xff, b'{', b'9', b'.'];

/// Changes a copy in one to eight places: bytes, bits, numbers, and pieces that move, repeat or
/// vanish. `other` provides pieces of another file.
pub fn mutate(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    for _ in 0..1 + random.below(8) {
        if bytes.is_empty() {
            return;
        }
        let at = random.below(bytes.len());
        match random.below(10) {
            0 | 1 => bytes[at] ^= 1 << random.below(8),
            2 | 3 => bytes[at] = random.next() as u8,
            4 => bytes[at] = EXTREMES[random.below(EXTREMES.len())],
            5 => {
                let width = [2, 4, 8][random.below(3)];
                let number = match random.below(3) {
                    0 => u64::MAX >> random.below(64),
                    1 => 1u64 << random.below(64),
                    _ => bytes.len() as u64,
                };
                for (target, byte) in bytes[at..].iter_mut().zip(number.to_le_bytes()).take(width) {
                    *target = byte;
                }
            }
            6 => bytes.truncate(at),
            7 => {
                let end = (at + 1 + random.below(32)).min(bytes.len());
                bytes.drain(at..end);
            }
            8 => {
                let end = (at + 1 + random.below(32)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                let to = random.below(bytes.len() + 1);
                bytes.splice(to..to, piece);
            }
            _ if !other.is_empty() => {
                let from = random.below(other.len());
                let end = (from + 1 + random.below(32)).min(other.len());
                for (target, byte) in bytes[at..].iter_mut().zip(&other[from..end]) {
                    *target = *byte;
                }
            }
            _ => {}
        }
    }
}
