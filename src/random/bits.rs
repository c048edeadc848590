//! Random bits: hashed counters.

use super::key::Key;
use super::sampler::{cast, constant, draw_from};
use crate::core::{Array, Aval, DType, IntoAval, RuleError, Scalar, Shape, throw_operands};
use crate::primitives::{
    broadcast_to, fill_of, iota, reshape, shift_right_logical, slice, slice_in_dim, threefry_bits,
    threefry2x32,
};

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

/// Draws bits with the words of a key.
#[track_caller]
pub(super) fn raw(key: &[Array; 2], shape: &Shape, dtype: DType) -> Array {
    let [high, low] = counters(shape);
    hash_bits(key, &high, &low, shape, dtype)
}

/// Draws bits of one element for each of several keys: two arrays of words, and bits of their
/// shape.
#[track_caller]
pub(super) fn raw_each(keys: &[Array; 2], dtype: DType) -> Array {
    let zero = constant(0, DType::U32);
    hash_bits(keys, &zero, &zero, keys[0].shape(), dtype)
}

/// Splits a key into the words of `N` keys.
#[track_caller]
pub(super) fn split_words<const N: usize>(key: &[Array; 2]) -> [[Array; 2]; N] {
    let shape = Shape::new(&[N]);
    let [high, low] = counters(&shape);
    let [a, b] = hash(key, &high, &low, &shape);
    let word = |x: &Array, i: usize| reshape(&slice(x, &[i], &[i + 1], &[1]), []);
    std::array::from_fn(|i| [word(&a, i), word(&b, i)])
}

/// Splits each of several keys, as [`split_words`].
#[track_caller]
pub(super) fn split_each<const N: usize>(keys: &[Array; 2]) -> [[Array; 2]; N] {
    let shape = keys[0].shape().insert(0, N);
    let mut lengths = vec![1; shape.rank()];
    lengths[0] = N;
    let low = reshape(&iota(DType::U32, N), lengths);
    let [a, b] = hash(keys, &constant(0, DType::U32), &low, &shape);
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
