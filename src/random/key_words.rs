//! [`KeyWords`]: keys as samplers use them.

use crate::core::Array;
use crate::core::options::CustomPrng;
use crate::primitives::{broadcast_in_dim, select};
use crate::tree::{self, Tree};

/// One key, or an array of keys of one generator, inside a sampler.
#[derive(Clone)]
pub(super) enum KeyWords {
    /// The two words of each key, of the dtypes that `bits.rs` explains.
    Pair([Array; 2]),
    /// The data of each key of a generator that the program defines: `u32[…, key_shape…]`.
    Custom(CustomPrng, Array),
}

impl KeyWords {
    /// Returns these keys where `mask` is true, and `others` elsewhere. The mask and the arrays of
    /// keys have one shape.
    #[track_caller]
    pub(super) fn selected(&self, mask: &Array, others: &KeyWords) -> KeyWords {
        match (self, others) {
            (KeyWords::Pair(words), KeyWords::Pair(others)) => {
                KeyWords::Pair([0, 1].map(|word| select(mask, &words[word], &others[word])))
            }
            (KeyWords::Custom(prng, keys), KeyWords::Custom(_, others)) => {
                let axes: Vec<usize> = (0..mask.rank()).collect();
                let mask = broadcast_in_dim(mask, keys.shape().clone(), &axes);
                KeyWords::Custom(*prng, select(&mask, keys, others))
            }
            _ => unreachable!("the keys of a sampler are of one generator"),
        }
    }
}

impl Tree for KeyWords {
    fn flatten(&self, visitor: &mut dyn tree::Visitor) {
        match self {
            KeyWords::Pair(words) => words.flatten(visitor),
            KeyWords::Custom(prng, keys) => {
                visitor.tag(tree::Tag::of(prng));
                visitor.leaf(keys);
            }
        }
    }
    fn unflatten(&self, leaves: &mut dyn Iterator<Item = Array>) -> KeyWords {
        match self {
            KeyWords::Pair(words) => KeyWords::Pair(words.unflatten(leaves)),
            KeyWords::Custom(prng, keys) => KeyWords::Custom(*prng, keys.unflatten(leaves)),
        }
    }
}
