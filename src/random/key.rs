//! Keys of random streams.

use super::bits::{data_of, fold_words, split_shape};
use super::key_words::KeyWords;
use super::prng_impl;
use super::sampler::{draw, number};
use crate::core::options::DEFAULT_PRNG_IMPL;
pub use crate::core::options::{CustomPrng, KeyImpl};
use crate::core::{Array, Aval, DType, RuleError, Scalar, Shape, throw, throw_operands, trace};
use crate::primitives::{
    ArrayLike, Like, bitcast_convert_type, concatenate, convert_element_type, fill_of, reshape,
    shift_right_logical, slice,
};
use crate::tree::{self, Tree};

impl KeyImpl {
    /// Returns the generator of new keys on this thread.
    fn in_force() -> KeyImpl {
        DEFAULT_PRNG_IMPL.get()
    }

    /// Returns the shape of the data of one key.
    fn key_shape(self) -> Shape {
        match self {
            KeyImpl::Threefry => Shape::new(&[2]),
            KeyImpl::Rbg | KeyImpl::UnsafeRbg => Shape::new(&[4]),
            KeyImpl::Custom(prng) => prng_impl::key_shape(prng),
        }
    }

    /// Visits the name of keys in trees, so that functions compile for each generator.
    fn visit_tag(&self, visitor: &mut dyn tree::Visitor) {
        visitor.tag(tree::Tag::Name(match self {
            KeyImpl::Threefry => "Key",
            KeyImpl::Rbg => "RbgKey",
            KeyImpl::UnsafeRbg => "UnsafeRbgKey",
            KeyImpl::Custom(_) => "CustomKey",
        }));
        if let KeyImpl::Custom(prng) = self {
            visitor.tag(tree::Tag::of(prng));
        }
    }

    /// Throws `Op` unless `data` are words of keys.
    #[track_caller]
    fn expect_data(self, data: &Array) {
        let expected = self.key_shape();
        let n = match self {
            KeyImpl::Custom(_) => format!("`u32{expected}`"),
            _ if expected.size() == 2 => "two words of u32".into(),
            _ => "four words of u32".into(),
        };
        if data.dtype() != DType::U32 {
            let message = format!("a key is {n}, got {}", data.aval());
            throw_operands("Key::from_data", RuleError::dtype(message), &[data]);
        }
        if !data.shape().ends_with(&expected) {
            let message = match self {
                KeyImpl::Custom(prng) => {
                    format!("a key of `{}` is {n}, got {}", prng.name(), data.aval())
                }
                _ => format!("a key has a last axis of {}, got {}", expected.size(), data.aval()),
            };
            throw_operands("Key::from_data", RuleError::shape(message), &[data]);
        }
    }
}

/// Key of a random stream, two or four 32-bit words, or an array of keys. Keys of
/// [`KeyImpl::Custom`] have the words that the generator defines.
///
/// Samplers take a key by value, and it is not `Copy`: using one key twice gives the same numbers
/// and requires an explicit `clone()`. A key is a tree with one leaf, `u32[2]`, or `u32[4]` for
/// other generators than Threefry. An array of keys, returned by [`split`], has leading axes:
/// `vmap` maps over them, `scan` steps through them, and `for` iterates over the first.
#[derive(Clone)]
#[doc(alias = "PRNGKey")]
pub struct Key {
    data: Array,
    implementation: KeyImpl,
}

impl Key {
    /// Creates a key, or an array of keys, of the default generator from its words: `u32[…, 2]` for
    /// [`KeyImpl::Threefry`].
    ///
    /// Throws `Op` for another dtype or a last axis of another size.
    #[doc(alias = "wrap_key_data")]
    #[track_caller]
    pub fn from_data(data: Array) -> Key {
        Key::from_data_with(data, KeyImpl::in_force())
    }

    /// Creates a key, or an array of keys, of a generator from its words: `u32[…, 2]` for
    /// [`KeyImpl::Threefry`], `u32[…, 4]` for XLA's generator, `u32[…, key_shape…]` for
    /// [`KeyImpl::Custom`].
    ///
    /// Throws `Op` for another dtype or last axes of other sizes.
    #[track_caller]
    pub fn from_data_with(data: Array, implementation: KeyImpl) -> Key {
        implementation.expect_data(&data);
        Key { data, implementation }
    }

    /// Returns the generator of the bits.
    #[doc(alias = "key_impl")]
    pub fn implementation(&self) -> KeyImpl {
        self.implementation
    }

    /// Returns the words: `u32[2]`, or `u32[4]` for other generators than Threefry, after the axes
    /// of an array of keys.
    #[doc(alias = "key_data")]
    pub fn data(&self) -> &Array {
        &self.data
    }

    /// Returns the shape of an array of keys; `[]` for one key.
    pub fn shape(&self) -> Shape {
        Shape::new(&self.data.shape()[..self.n_axes()])
    }

    /// Returns the number of axes of an array of keys; 0 for one key.
    fn n_axes(&self) -> usize {
        self.data.rank() - self.implementation.key_shape().rank()
    }

    /// Splits the key into `N` independent keys.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let program = make_program(
    ///     |key: random::Key| {
    ///         let [a, b] = key.split();
    ///         (a, b)
    ///     },
    ///     random::Key::of_type(),
    /// )?;
    /// assert_eq!(program.avals_out()[1].to_string(), "u32[2]");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn split<const N: usize>(self) -> [Key; N] {
        let (words, implementation) = (self.words("split"), self.implementation);
        let keys = draw(|| {
            let data = data_of(&split_shape(&words, &Shape::new(&[N])));
            let all = Key { data, implementation };
            (0..N).map(|index| all.row(index)).collect::<Vec<Key>>()
        });
        <[Key; N]>::try_from(keys).expect("there are N rows")
    }

    /// Returns the number of keys along the first axis of an array of keys.
    ///
    /// Throws `Op` (shape) for a single key.
    #[track_caller]
    #[allow(clippy::len_without_is_empty, reason = "a single key has no length")]
    pub fn len(&self) -> usize {
        match self.shape().first() {
            Some(&n) => n,
            None => {
                let message = "needs an array of keys, got a single key";
                let error = RuleError::shape(message).help("split it: `random::split(key, n)`");
                throw_operands("Key::len", error, &[])
            }
        }
    }

    /// Returns the keys along the first axis of an array of keys, as `for` does.
    ///
    /// Throws `Op` (shape) for a single key.
    #[track_caller]
    pub fn iter(&self) -> std::vec::IntoIter<Key> {
        let n = self.len();
        draw(|| (0..n).map(|index| self.row(index)).collect::<Vec<Key>>()).into_iter()
    }

    /// Returns the key at `index` along the first axis of an array of keys.
    ///
    /// Throws `Op` (shape) for a single key, and `Op` (value) if `index` is out of range.
    ///
    /// ```no_run
    /// use oxidax::prelude::*;
    /// let keys = random::split(random::key(0), 3);
    /// let x = random::normal(keys.get(2), [4]);
    /// ```
    #[track_caller]
    pub fn get(&self, index: usize) -> Key {
        let n = self.len();
        if index >= n {
            let error = RuleError::value(format!("the index is {index}, there are {n} keys"));
            throw_operands("Key::get", error, &[]);
        }
        draw(|| self.row(index))
    }

    /// Returns the key at `index` along the first axis.
    #[track_caller]
    fn row(&self, index: usize) -> Key {
        let data = &self.data;
        let (mut start, mut stop) = (vec![0; data.rank()], data.shape().to_vec());
        (start[0], stop[0]) = (index, index + 1);
        let row = slice(data, &start, &stop, &vec![1; data.rank()]);
        Key { data: reshape(&row, data.shape().remove(0)), implementation: self.implementation }
    }

    /// Returns a key without words, as an argument of `eval_shape` and `make_program`.
    pub fn of_type() -> Key {
        let implementation = KeyImpl::in_force();
        let data = Array::of_type(Aval::new(DType::U32, implementation.key_shape()));
        Key { data, implementation }
    }

    /// Throws `Op` (shape) for an array of keys.
    #[track_caller]
    pub(super) fn expect_one(&self, name: &str) {
        if self.n_axes() != 0 {
            let message =
                format!("draws from one key, got an array of keys of shape {}", self.shape());
            let error = RuleError::shape(message).help("map over the keys with `vmap`");
            throw_operands(name, error, &[]);
        }
    }

    /// Returns one key as samplers use it.
    #[track_caller]
    pub(super) fn words(&self, name: &str) -> KeyWords {
        self.expect_one(name);
        words_of(&self.data, self.implementation)
    }
}

/// Returns one key as samplers use it, from its data: the two words as scalars, `u32` for Threefry,
/// and the dtypes that `bits.rs` explains for XLA's generator.
#[track_caller]
pub(super) fn words_of(data: &Array, implementation: KeyImpl) -> KeyWords {
    let wide = match implementation {
        KeyImpl::Custom(prng) => return KeyWords::Custom(prng, data.clone()),
        KeyImpl::Threefry => None,
        KeyImpl::Rbg => Some(DType::U64),
        KeyImpl::UnsafeRbg => Some(DType::I64),
    };
    let joined;
    let data = match wide {
        None => data,
        Some(dtype) => {
            let pairs = bitcast_convert_type(&reshape(data, [2, 2]), DType::U64);
            joined = bitcast_convert_type(&pairs, dtype);
            &joined
        }
    };
    let high = reshape(&slice(data, &[0], &[1], &[1]), []);
    let low = reshape(&slice(data, &[1], &[2], &[1]), []);
    KeyWords::Pair([high, low])
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key({})", self.data.aval())
    }
}

impl Tree for Key {
    fn flatten(&self, visitor: &mut dyn tree::Visitor) {
        self.implementation.visit_tag(visitor);
        visitor.leaf(&self.data);
    }
    fn unflatten(&self, leaves: &mut dyn Iterator<Item = Array>) -> Key {
        Key { data: self.data.unflatten(leaves), implementation: self.implementation }
    }
}

/// Returns the key of a seed, of the [default generator](KeyOptions::implementation).
///
/// ```
/// use oxidax::prelude::*;
/// assert_eq!(random::key(42).data().to_vec::<u32>()?, [0, 42]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "PRNGKey")]
#[doc(alias = "seed")]
#[track_caller]
pub fn key(seed: i64) -> Key {
    key_with(seed, KeyOptions::default())
}

/// Options of [`key_with`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyOptions {
    /// The generator. The default is that of
    /// [`with_default_prng_impl`](crate::config::with_default_prng_impl), of the
    /// [process](crate::config::ProcessConfig::default_prng_impl), or [`KeyImpl::Threefry`].
    #[doc(alias = "impl")]
    pub implementation: KeyImpl,
}

impl Default for KeyOptions {
    fn default() -> KeyOptions {
        KeyOptions { implementation: KeyImpl::in_force() }
    }
}

/// Returns the key of a seed, as [`key`], of another generator.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::random::{KeyImpl, KeyOptions};
/// let rbg = random::key_with(42, KeyOptions { implementation: KeyImpl::Rbg });
/// assert_eq!(rbg.data().to_vec::<u32>()?, [0, 42, 0, 42]);
/// let [a, b] = rbg.split();
/// let x = random::normal(a, [3]) + random::uniform(b, [3], 0.0..1.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn key_with(seed: i64, options: KeyOptions) -> Key {
    let implementation = options.implementation;
    if let KeyImpl::Custom(prng) = implementation {
        let seed = number(Scalar::Int(seed.into()), DType::I64);
        return Key { data: draw(|| prng_impl::seed(prng, &seed)), implementation };
    }
    let words =
        [(seed as u64 >> 32) as u32, seed as u32].repeat(implementation.key_shape().size() / 2);
    let data = if trace::is_tracing() {
        let aval = Aval::new(DType::U32, [1]);
        let words: Vec<Array> =
            words.iter().map(|&word| fill_of(Scalar::from(word), &aval)).collect();
        concatenate(&words, 0)
    } else {
        let n = words.len();
        Array::from_slice(&words, [n]).unwrap_or_else(|error| throw(error))
    };
    Key { data, implementation }
}

impl Key {
    /// Returns the key of a seed that is an array, which may be traced: `vmap` makes one key of
    /// each of several seeds. A seed of 32 bits gives the same key as [`key`] of that number, if it
    /// is not negative.
    ///
    /// Throws `Op` unless the seed is one integer.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let keys = vmap(|seed: Array| random::Key::from_seed(&seed)).apply(arange(3));
    /// assert_eq!(keys.get(2).data().to_vec::<u32>()?, random::key(2).data().to_vec::<u32>()?);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "jax.random.key")]
    #[track_caller]
    pub fn from_seed(seed: &Array) -> Key {
        Key::from_seed_with(seed, KeyOptions::default())
    }

    /// As [`Key::from_seed`], for another generator.
    #[track_caller]
    pub fn from_seed_with(seed: &Array, options: KeyOptions) -> Key {
        let implementation = options.implementation;
        if !seed.dtype().is_integer() {
            let message = format!("a seed is an integer, got {}", seed.aval());
            throw_operands("Key::from_seed", RuleError::dtype(message), &[seed]);
        }
        if seed.rank() != 0 {
            let error = RuleError::shape(format!("a seed is a scalar, got {}", seed.aval()))
                .help("map over seeds: `vmap(|seed: Array| Key::from_seed(&seed))`");
            throw_operands("Key::from_seed", error, &[seed]);
        }
        if let KeyImpl::Custom(prng) = implementation {
            let seed = convert_element_type(seed, DType::I64);
            return Key { data: draw(|| prng_impl::seed(prng, &seed)), implementation };
        }
        draw(|| {
            let word = |x: &Array| reshape(&convert_element_type(x, DType::U32), [1]);
            let high = match seed.dtype().bits() {
                64 => word(&shift_right_logical(seed, 32)),
                _ => fill_of(Scalar::Int(0), &Aval::new(DType::U32, [1])),
            };
            let words = [high, word(seed)];
            let words: Vec<&Array> =
                words.iter().cycle().take(implementation.key_shape().size()).collect();
            Key { data: concatenate(words, 0), implementation }
        })
    }
}

impl IntoIterator for Key {
    type Item = Key;
    type IntoIter = std::vec::IntoIter<Key>;
    #[track_caller]
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl IntoIterator for &Key {
    type Item = Key;
    type IntoIter = std::vec::IntoIter<Key>;
    #[track_caller]
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// The number of keys that [`split`] returns: a number, or the shape of an array of keys.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a number of keys",
    note = "pass a number or a shape of `usize`: `random::split(key, 3)`, `split(key, [2, 3])`"
)]
pub trait SplitShape {
    /// Returns the shape of the array of keys.
    fn split_shape(self) -> Shape;
}

impl SplitShape for usize {
    fn split_shape(self) -> Shape {
        Shape::new(&[self])
    }
}

impl<const N: usize> SplitShape for [usize; N] {
    fn split_shape(self) -> Shape {
        Shape::new(&self)
    }
}

impl SplitShape for (usize, usize) {
    fn split_shape(self) -> Shape {
        Shape::new(&[self.0, self.1])
    }
}

impl SplitShape for Shape {
    fn split_shape(self) -> Shape {
        self
    }
}

impl SplitShape for &Shape {
    fn split_shape(self) -> Shape {
        self.clone()
    }
}

/// Splits a key into an array of independent keys. A loop iterates over it, `vmap` maps over it,
/// and `scan` steps through it. [`Key::split`] returns a fixed number of keys:
/// `let [a, b] = key.split();`.
///
/// ```
/// use oxidax::prelude::*;
/// for key in random::split(random::key(0), 12) {
///     let weight = random::normal(key, [768, 768]);
/// }
/// let keys = random::split(random::key(0), 32);
/// let rows = vmap(|key: random::Key| random::normal(key, [10])).apply(keys);
/// assert_eq!(rows.shape().dims(), [32, 10]);
/// ```
#[track_caller]
pub fn split(key: Key, shape: impl SplitShape) -> Key {
    let (words, implementation) = (key.words("split"), key.implementation);
    let shape = shape.split_shape();
    draw(|| Key { data: data_of(&split_shape(&words, &shape)), implementation })
}

/// Returns a tree of samples with the structure, shapes and dtypes of `tree`, as Optax's
/// `tree.random_like`. Each leaf has its own key.
///
/// `sampler` gets a key and the aval of a leaf, so that samplers such as
/// [`normal`](super::normal()) fit. Leaves of a struct are in the order of its fields, where JAX
/// sorts the keys of dictionaries.
///
/// ```
/// use oxidax::prelude::*;
/// let params = (ones([2, 3]), zeros(([3], DType::BF16)));
/// let noise = random::tree_like(random::key(0), &params, random::normal);
/// assert_eq!(noise.1.aval().to_string(), "bf16[3]");
/// ```
#[doc(alias = "random_like")]
#[doc(alias = "tree_random_like")]
#[track_caller]
pub fn tree_like<T: Tree>(key: Key, tree: &T, sampler: impl Fn(Key, Aval) -> Array) -> T {
    let leaves = tree::leaves(tree);
    if leaves.is_empty() {
        return tree::map(tree, Array::clone);
    }
    let samples = split(key, leaves.len()).into_iter().zip(leaves);
    let samples = samples.map(|(key, leaf)| sampler(key, leaf.aval().clone()));
    tree::unflatten(tree, samples)
}

/// Returns a key derived from `key` and a number, such as a step, a layer or a device.
///
/// `data` is an integer or an integer array of shape `[]`, of which the low 32 bits are used.
/// Throws `Op` for other operands.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let key = random::key(0);
/// for epoch in 0..3 {
///     let order = random::permutation(random::fold_in(key.clone(), epoch), 60_000);
/// }
/// ```
#[track_caller]
pub fn fold_in(key: Key, data: impl ArrayLike) -> Key {
    let words = key.words("fold_in");
    let data = match data.like() {
        Like::Scalar(Scalar::Int(number)) => {
            super::sampler::number(Scalar::Int(number & 0xffff_ffff), DType::U32)
        }
        Like::Array(x) if x.dtype().is_integer() && x.rank() == 0 => x.clone(),
        Like::Array(x) => {
            let message = format!("needs an integer of shape [], got {}", x.aval());
            throw_operands("fold_in", RuleError::value(message), &[x])
        }
        Like::Scalar(other) => {
            let message = format!("needs an integer, got {other:?}");
            throw_operands("fold_in", RuleError::value(message), &[])
        }
    };
    draw(|| {
        let folded = fold_words(&words, &convert_element_type(&data, DType::U32));
        Key { data: data_of(&folded), implementation: key.implementation }
    })
}
