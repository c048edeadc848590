//! Generators that programs define: [`PrngImpl`] and [`define_prng_impl`].

use crate::core::options::CustomPrng;
use crate::core::{Array, Aval, DType, RuleError, Scalar, Shape, throw_operands};
use crate::primitives::{fill_of, reshape, slice_in_dim};
use crate::random::KeyImpl;
use crate::transforms::vmap;
use std::sync::{PoisonError, RwLock};

/// A generator of random bits, for [`define_prng_impl`].
///
/// The functions are traced as samplers are, so they use operations of arrays alone. Equal
/// arguments must give equal results. A key is an array `u32[key_shape]`.
#[doc(alias = "PRNGImpl")]
pub trait PrngImpl: Send + Sync + 'static {
    /// Returns the shape of one key.
    fn key_shape(&self) -> Shape;

    /// Returns the key of a seed, `i64[]`.
    fn seed(&self, seed: &Array) -> Array;

    /// Splits a key into an array of independent keys, `u32[shape…, key_shape…]`.
    fn split(&self, key: &Array, shape: &Shape) -> Array;

    /// Returns uniformly distributed bits of a shape and a dtype: `u8`, `u16`, `u32` or `u64`.
    fn random_bits(&self, key: &Array, shape: &Shape, dtype: DType) -> Array;

    /// Returns a key derived from a key and a number, `u32[]`.
    fn fold_in(&self, key: &Array, data: &Array) -> Array;
}

/// The generators that the program has defined. They live until the process ends, as their keys
/// refer to them by number.
static DEFINED: RwLock<Vec<&'static dyn PrngImpl>> = RwLock::new(Vec::new());

/// Defines a generator of random bits. Keys of it work with all samplers, with
/// [`split`](super::split()) and [`fold_in`](super::fold_in()), and under all transforms.
///
/// `name` is the generator's name in errors and reports. Each call defines another generator, so
/// call it once. The definition stays in memory until the process ends.
///
/// Functions of keys throw `Op` (value) if a function of the generator returns another shape or
/// dtype than [`PrngImpl`] requires.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::random::{KeyOptions, PrngImpl, define_prng_impl};
/// /// A linear congruential generator, which is far too weak for real use.
/// struct Congruential;
/// impl PrngImpl for Congruential {
///     fn key_shape(&self) -> Shape {
///         Shape::new(&[])
///     }
///     fn seed(&self, seed: &Array) -> Array {
///         seed.astype(DType::U32)
///     }
///     fn split(&self, key: &Array, shape: &Shape) -> Array {
///         self.random_bits(key, shape, DType::U32)
///     }
///     fn random_bits(&self, key: &Array, shape: &Shape, dtype: DType) -> Array {
///         let counters = iota(DType::U32, shape.size()).reshape(shape) + key;
///         (counters * 1664525u32 + 1013904223u32).astype(dtype)
///     }
///     fn fold_in(&self, key: &Array, data: &Array) -> Array {
///         key * 69069u32 + data
///     }
/// }
/// let implementation = define_prng_impl("congruential", Congruential);
/// let key = random::key_with(7, KeyOptions { implementation });
/// assert_eq!(key.data().item::<u32>()?, 7);
/// let rows = vmap(|key: random::Key| random::normal(key, [10])).apply(random::split(key, 3));
/// assert_eq!(rows.shape().dims(), [3, 10]);
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn define_prng_impl(name: &str, generator: impl PrngImpl) -> KeyImpl {
    let mut defined = DEFINED.write().unwrap_or_else(PoisonError::into_inner);
    defined.push(Box::leak(Box::new(generator)));
    let (index, name) = (defined.len() - 1, name.to_string().leak());
    KeyImpl::Custom(CustomPrng { index, name })
}

fn generator(prng: CustomPrng) -> &'static dyn PrngImpl {
    DEFINED.read().unwrap_or_else(PoisonError::into_inner)[prng.index]
}

/// Returns the shape of one key.
pub(super) fn key_shape(prng: CustomPrng) -> Shape {
    generator(prng).key_shape()
}

/// Returns the shape of an array of keys.
fn keys_shape(prng: CustomPrng, shape: &Shape) -> Shape {
    let dims: Vec<usize> = shape.iter().chain(key_shape(prng).iter()).copied().collect();
    Shape::new(&dims)
}

/// Throws `Op` (value) unless the result of a generator's function has this shape and dtype.
#[track_caller]
fn expect(prng: CustomPrng, function: &str, result: Array, shape: Shape, dtype: DType) -> Array {
    let expected = Aval::new(dtype, shape);
    if (result.shape(), result.dtype()) != (&expected.shape, dtype) {
        let message = format!(
            "`{function}` of the generator `{}` returns {}, expected {expected}",
            prng.name(),
            result.aval()
        );
        throw_operands("define_prng_impl", RuleError::value(message), &[&result]);
    }
    result
}

#[track_caller]
pub(super) fn seed(prng: CustomPrng, seed: &Array) -> Array {
    let key = generator(prng).seed(seed);
    expect(prng, "seed", key, key_shape(prng), DType::U32)
}

#[track_caller]
pub(super) fn split(prng: CustomPrng, key: &Array, shape: &Shape) -> Array {
    let keys = generator(prng).split(key, shape);
    expect(prng, "split", keys, keys_shape(prng, shape), DType::U32)
}

#[track_caller]
pub(super) fn random_bits(prng: CustomPrng, key: &Array, shape: &Shape, dtype: DType) -> Array {
    let bits = generator(prng).random_bits(key, shape, dtype);
    expect(prng, "random_bits", bits, shape.clone(), dtype)
}

#[track_caller]
pub(super) fn fold_in(prng: CustomPrng, key: &Array, data: &Array) -> Array {
    let folded = generator(prng).fold_in(key, data);
    expect(prng, "fold_in", folded, key_shape(prng), DType::U32)
}

/// Applies `f` to each of several keys, and returns results of the shape of the array of keys
/// followed by `inner`.
#[track_caller]
fn each(
    prng: CustomPrng,
    keys: &Array,
    (inner, dtype): (&Shape, DType),
    f: impl Fn(&Array) -> Array,
) -> Array {
    let n_axes = keys.rank() - key_shape(prng).rank();
    let batch = Shape::new(&keys.shape()[..n_axes]);
    let dims: Vec<usize> = batch.iter().chain(inner.iter()).copied().collect();
    if batch.size() == 0 {
        return fill_of(Scalar::Int(0), &Aval::new(dtype, dims));
    }
    let flat = reshape(keys, keys_shape(prng, &Shape::new(&[batch.size()])));
    reshape(&vmap(|key: Array| f(&key)).apply(&flat), dims)
}

/// Draws bits of one element for each of several keys.
#[track_caller]
pub(super) fn random_bits_each(prng: CustomPrng, keys: &Array, dtype: DType) -> Array {
    let scalar = Shape::scalar();
    each(prng, keys, (&scalar, dtype), |key| random_bits(prng, key, &scalar, dtype))
}

/// Splits each of several keys into `N`.
#[track_caller]
pub(super) fn split_each<const N: usize>(prng: CustomPrng, keys: &Array) -> [Array; N] {
    let shape = Shape::new(&[N]);
    let inner = keys_shape(prng, &shape);
    let parts = each(prng, keys, (&inner, DType::U32), |key| split(prng, key, &shape));
    let axis = parts.rank() - inner.rank();
    std::array::from_fn(|at| {
        let part = slice_in_dim(&parts, at as isize, at as isize + 1, 1, axis as isize);
        reshape(&part, keys.shape().clone())
    })
}
