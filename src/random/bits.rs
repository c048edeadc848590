//! Random bits: hashed counters, or the output of XLA's generator.
//!
//! A key is two words in all samplers: `u32` for Threefry, and 64 bits for XLA's generator, `u64`
//! for [`KeyImpl::Rbg`](super::KeyImpl) and `i64` for `UnsafeRbg`. Keys of generators that the
//! program defines are passed to its functions.

use super::key::Key;
use super::key_words::KeyWords;
use super::prng_impl;
use super::sampler::{cast, constant, draw_from};
use crate::core::{Array, Aval, DType, IntoAval, RuleError, Scalar, Shape, throw_operands};
use crate::primitives::{
    RandomAlgorithm, bitcast_convert_type, bitwise_xor, broadcast_to, concatenate, fill_of, iota,
    reshape, rng_bit_generator, shift_right_logical, slice, slice_in_dim, threefry_bits,
    threefry2x32,
};

/// Returns true for the words of a key of XLA's generator.
fn is_generated(key: &[Array; 2]) -> bool {
    key[0].dtype().bits() == 64
}

/// Returns true for the words of a key that XLA's generator also splits.
fn splits_by_generator(key: &[Array; 2]) -> bool {
    key[0].dtype() == DType::I64
}

/// Returns the state of XLA's generator: two words along the last axis.
#[track_caller]
fn state(key: &[Array; 2]) -> Array {
    let last = key[0].shape().insert(key[0].rank(), 1);
    let words = [0, 1].map(|word| reshape(&bitcast_convert_type(&key[word], DType::U64), &last));
    concatenate(&words, -1)
}

/// Draws bits of `shape` for each of several keys.
#[track_caller]
fn generated(keys: &[Array; 2], shape: &Shape, dtype: DType) -> Array {
    rng_bit_generator(&state(keys), shape, dtype, RandomAlgorithm::Default).1
}

/// Returns the two 32-bit words of a 64-bit word, the lower first.
#[track_caller]
fn low_and_high(word: &Array) -> [Array; 2] {
    let pair = bitcast_convert_type(word, DType::U32);
    let at = pair.rank() as isize - 1;
    [0, 1].map(|half| reshape(&slice_in_dim(&pair, half, half + 1, 1, at), word.shape()))
}

/// Joins 32-bit words, the lower first, to a word of the dtype of `like`.
#[track_caller]
fn joined(low: &Array, high: &Array, like: &Array) -> Array {
    let last = low.shape().insert(low.rank(), 1);
    let pair = concatenate([&reshape(low, &last), &reshape(high, &last)], -1);
    bitcast_convert_type(&bitcast_convert_type(&pair, DType::U64), like.dtype())
}

/// Hashes counters with each half of a key of XLA's generator.
#[track_caller]
fn hash_halves(key: &[Array; 2], high: &Array, low: &Array, shape: &Shape) -> [Array; 2] {
    [0, 1].map(|half| {
        let [a, b] = hash(&low_and_high(&key[half]), high, low, shape);
        joined(&a, &b, &key[half])
    })
}

/// Splits a key into an array of keys.
#[track_caller]
pub(super) fn split_shape(key: &KeyWords, shape: &Shape) -> KeyWords {
    match key {
        KeyWords::Pair(words) => KeyWords::Pair(split_pair(words, shape)),
        KeyWords::Custom(prng, key) => KeyWords::Custom(*prng, prng_impl::split(*prng, key, shape)),
    }
}

#[track_caller]
fn split_pair(key: &[Array; 2], shape: &Shape) -> [Array; 2] {
    if splits_by_generator(key) {
        return mixed(key, shape);
    }
    let [high, low] = counters(shape);
    match is_generated(key) {
        true => hash_halves(key, &high, &low, shape),
        false => hash(key, &high, &low, shape),
    }
}

/// Splits each of several keys by XLA's generator: every tenth of the states that it generates.
#[track_caller]
fn mixed(keys: &[Array; 2], shape: &Shape) -> [Array; 2] {
    let batch = keys[0].rank();
    let bits = generated(keys, &Shape::new(&[10 * shape.size(), 4]), DType::U32);
    let spread = slice_in_dim(&bits, 0, 10 * shape.size() as isize, 10, batch as isize);
    let mut full: Vec<usize> = keys[0].shape().to_vec();
    full.extend_from_slice(shape);
    full.push(4);
    words_of_halves(&reshape(&spread, full), &keys[0])
}

/// Converts states, `u32[…, 4]`, to two words of the dtype of `like`.
#[track_caller]
fn words_of_halves(states: &Array, like: &Array) -> [Array; 2] {
    let last = states.rank() as isize - 1;
    let shape = states.shape().remove(last as usize);
    let word = |at: isize| reshape(&slice_in_dim(states, at, at + 1, 1, last), &shape);
    [joined(&word(0), &word(1), like), joined(&word(2), &word(3), like)]
}

/// Converts keys to their data: `u32[…, 2]`, or `u32[…, 4]`.
#[track_caller]
pub(super) fn data_of(keys: &KeyWords) -> Array {
    let words = match keys {
        KeyWords::Pair(words) => words,
        KeyWords::Custom(_, data) => return data.clone(),
    };
    let all: Vec<Array> = match is_generated(words) {
        true => words.iter().flat_map(low_and_high).collect(),
        false => words.to_vec(),
    };
    let last = words[0].shape().insert(words[0].rank(), 1);
    let columns: Vec<Array> = all.iter().map(|word| reshape(word, &last)).collect();
    concatenate(&columns, -1)
}

/// Derives a key from a key and a `u32` number.
#[track_caller]
pub(super) fn fold_words(key: &KeyWords, data: &Array) -> KeyWords {
    match key {
        KeyWords::Pair(words) => KeyWords::Pair(fold_pair(words, data)),
        KeyWords::Custom(prng, key) => {
            KeyWords::Custom(*prng, prng_impl::fold_in(*prng, key, data))
        }
    }
}

#[track_caller]
fn fold_pair(key: &[Array; 2], data: &Array) -> [Array; 2] {
    let zero = constant(0, DType::U32);
    if !is_generated(key) {
        return hash(key, &zero, data, &Shape::scalar());
    }
    if !splits_by_generator(key) {
        return hash_halves(key, &zero, data, &Shape::scalar());
    }
    let seed = joined(&zero, data, &key[0]);
    let bits = generated(&[seed.clone(), seed], &Shape::new(&[10, 4]), DType::U32);
    let last = reshape(&slice(&bits, &[9, 0], &[10, 4], &[1, 1]), [4]);
    let [a, b] = words_of_halves(&last, &key[0]);
    [bitwise_xor(&key[0], a), bitwise_xor(&key[1], b)]
}

/// Returns the flat index of every element of `shape` as two words, the upper and the lower. The
/// upper word is a scalar if it is 0 everywhere.
#[track_caller]
pub(super) fn counters(shape: &Shape) -> [Array; 2] {
    let size = shape.size();
    if u32::try_from(size.saturating_sub(1)).is_ok() {
        let high = fill_of(Scalar::Int(0), &Aval::new(DType::U32, Shape::scalar()));
        return [high, reshape(&iota(DType::U32, size), shape)];
    }
    let wide = iota(DType::U64, size);
    let high = shift_right_logical(&wide, fill_of(Scalar::Int(32), wide.aval()));
    [high, wide].map(|half| reshape(&cast(&half, DType::U32), shape))
}

/// Broadcasts the words of a key and of counters.
#[track_caller]
fn wide(key: &[Array; 2], high: &Array, low: &Array, shape: &Shape) -> [Array; 4] {
    [&key[0], &key[1], high, low].map(|word| broadcast_to(word, shape))
}

/// Hashes each counter with a key to two words.
#[track_caller]
pub(super) fn hash(key: &[Array; 2], high: &Array, low: &Array, shape: &Shape) -> [Array; 2] {
    let [k0, k1, x0, x1] = wide(key, high, low, shape);
    threefry2x32(k0, k1, x0, x1)
}

/// Hashes each counter with a key to bits of a dtype.
#[track_caller]
fn hash_bits(key: &[Array; 2], high: &Array, low: &Array, shape: &Shape, dtype: DType) -> Array {
    let [k0, k1, x0, x1] = wide(key, high, low, shape);
    let width = if dtype == DType::U64 { DType::U64 } else { DType::U32 };
    cast(&threefry_bits(width, k0, k1, x0, x1), dtype)
}

/// Draws bits with a key.
#[track_caller]
pub(super) fn raw(key: &KeyWords, shape: &Shape, dtype: DType) -> Array {
    let key = match key {
        KeyWords::Pair(words) => words,
        KeyWords::Custom(prng, key) => return prng_impl::random_bits(*prng, key, shape, dtype),
    };
    if is_generated(key) {
        return generated(key, shape, dtype);
    }
    let [high, low] = counters(shape);
    hash_bits(key, &high, &low, shape, dtype)
}

/// Draws bits of one element for each of several keys, in the shape of the array of keys.
#[track_caller]
pub(super) fn raw_each(keys: &KeyWords, dtype: DType) -> Array {
    let keys = match keys {
        KeyWords::Pair(words) => words,
        KeyWords::Custom(prng, keys) => return prng_impl::random_bits_each(*prng, keys, dtype),
    };
    if is_generated(keys) {
        return generated(keys, &Shape::scalar(), dtype);
    }
    let zero = constant(0, DType::U32);
    hash_bits(keys, &zero, &zero, keys[0].shape(), dtype)
}

/// Splits a key into `N` keys.
#[track_caller]
pub(super) fn split_words<const N: usize>(key: &KeyWords) -> [KeyWords; N] {
    let row = |x: &Array, i: usize| {
        let row = slice_in_dim(x, i as isize, i as isize + 1, 1, 0);
        reshape(&row, x.shape().remove(0))
    };
    match split_shape(key, &Shape::new(&[N])) {
        KeyWords::Pair(words) => {
            std::array::from_fn(|i| KeyWords::Pair([row(&words[0], i), row(&words[1], i)]))
        }
        KeyWords::Custom(prng, keys) => {
            std::array::from_fn(|i| KeyWords::Custom(prng, row(&keys, i)))
        }
    }
}

/// Splits each of several keys, as [`split_words`].
#[track_caller]
pub(super) fn split_each<const N: usize>(keys: &KeyWords) -> [KeyWords; N] {
    match keys {
        KeyWords::Pair(words) => split_pairs(words).map(KeyWords::Pair),
        KeyWords::Custom(prng, keys) => {
            let parts = prng_impl::split_each::<N>(*prng, keys);
            parts.map(|keys| KeyWords::Custom(*prng, keys))
        }
    }
}

#[track_caller]
fn split_pairs<const N: usize>(keys: &[Array; 2]) -> [[Array; 2]; N] {
    if splits_by_generator(keys) {
        let [a, b] = mixed(keys, &Shape::new(&[N]));
        let last = a.rank() as isize - 1;
        let column =
            |x: &Array, at: isize| reshape(&slice_in_dim(x, at, at + 1, 1, last), keys[0].shape());
        return std::array::from_fn(|at| [column(&a, at as isize), column(&b, at as isize)]);
    }
    let shape = keys[0].shape().insert(0, N);
    let mut lengths = vec![1; shape.rank()];
    lengths[0] = N;
    let low = reshape(&iota(DType::U32, N), lengths);
    let zero = constant(0, DType::U32);
    let [a, b] = match is_generated(keys) {
        true => hash_halves(keys, &zero, &low, &shape),
        false => hash(keys, &zero, &low, &shape),
    };
    let row = |x: &Array, at: usize| {
        reshape(&slice_in_dim(x, at as isize, at as isize + 1, 1, 0), keys[0].shape())
    };
    std::array::from_fn(|at| [row(&a, at), row(&b, at)])
}

/// Returns uniformly distributed bits of shape `shape` and dtype `u32` (the default), `u8`, `u16`
/// or `u64`.
///
/// Throws `Op` (dtype) for other dtypes.
///
/// ```
/// use oxidax::prelude::*;
/// let bits = random::bits(random::key(0), [2]);
/// assert_eq!(bits.to_vec::<u32>()?, [4070199207, 4202968722]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn bits(key: Key, shape: impl IntoAval) -> Array {
    let Aval { shape, dtype, .. } = shape.into_aval(DType::U32);
    if !matches!(dtype, DType::U8 | DType::U16 | DType::U32 | DType::U64) {
        let error = RuleError::dtype(format!("draws u8, u16, u32 or u64, not {dtype}"));
        throw_operands("bits", error, &[]);
    }
    draw_from(("bits", &shape, dtype), &key, &[], |words, _| raw(&words, &shape, dtype))
}
