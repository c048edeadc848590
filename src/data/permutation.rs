//! Random permutations that are computed, not stored.

use super::position::mix_bits;

/// Rounds of the network. Four rounds with random round functions are indistinguishable from a
/// random permutation (Luby and Rackoff).
const ROUNDS: u64 = 6;
/// Smaller halves have too few round functions for all orders to be equally likely.
const MIN_HALF_BITS: u32 = 4;

/// A pseudorandom permutation of `0..len`: a balanced Feistel network on the next power of four,
/// applied repeatedly until the result is below `len` (cycle walking).
///
/// # Reference
/// M. Luby, C. Rackoff: How to construct pseudorandom permutations from pseudorandom functions,
/// 1988. J. Black, P. Rogaway: Ciphers with arbitrary finite domains, 2002.
pub(super) struct Permutation {
    len: u64,
    half: u32,
    seed: u64,
}

impl Permutation {
    pub(super) fn new(len: u64, seed: u64) -> Permutation {
        let bits = u64::BITS - len.saturating_sub(1).leading_zeros();
        Permutation { len, half: bits.div_ceil(2).max(MIN_HALF_BITS), seed: mix_bits(seed) }
    }

    /// Returns the image of `index`, which must be below the length. Takes fewer than four steps on
    /// average for lengths of 64 and more.
    pub(super) fn get(&self, index: u64) -> u64 {
        debug_assert!(index < self.len, "index {index} of {}", self.len);
        let mut at = index;
        loop {
            at = self.step(at);
            if at < self.len {
                return at;
            }
        }
    }

    fn step(&self, at: u64) -> u64 {
        let mask = (1 << self.half) - 1;
        let (mut left, mut right) = (at >> self.half, at & mask);
        for round in 0..ROUNDS {
            let hash = mix_bits(self.seed ^ (round << 56) ^ right);
            (left, right) = (right, left ^ (hash >> 32 & mask));
        }
        left << self.half | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, HashSet};

    #[test]
    fn permutation_is_a_bijection() {
        for len in [1, 2, 3, 63, 64, 65, 255, 256, 257, 1000, 4097] {
            for seed in 0..3 {
                let permutation = Permutation::new(len, seed);
                let images: HashSet<u64> = (0..len).map(|index| permutation.get(index)).collect();
                assert_eq!(images.len() as u64, len);
                assert!(images.iter().all(|&image| image < len));
            }
        }
    }

    #[test]
    fn huge_domains_are_permuted() {
        for len in [u64::from(u32::MAX) + 7, 1 << 61] {
            let permutation = Permutation::new(len, 1);
            let images: HashSet<u64> = (0..1000).map(|index| permutation.get(index)).collect();
            assert_eq!(images.len(), 1000);
            let low = images.iter().filter(|&&image| image < len / 2).count();
            assert!((400..600).contains(&low), "{low} of 1000 in the lower half");
        }
    }

    #[test]
    fn orders_of_four_are_equally_likely() {
        let mut counts = BTreeMap::new();
        const SEEDS: u64 = 24_000;
        for seed in 0..SEEDS {
            let permutation = Permutation::new(4, seed);
            let order: Vec<u64> = (0..4).map(|index| permutation.get(index)).collect();
            *counts.entry(order).or_insert(0u64) += 1;
        }
        assert_eq!(counts.len(), 24);
        let expected = SEEDS as f64 / 24.0;
        let chi: f64 = counts.values().map(|&n| (n as f64 - expected).powi(2) / expected).sum();
        // With 23 degrees of freedom, one set of seeds in a thousand exceeds 49.7.
        assert!(chi < 49.7, "chi squared {chi}");
    }
}
