//! Keys of random streams.

use super::bits::{counters, hash};
use super::sampler::draw;
use crate::core::{Array, Aval, DType, RuleError, Scalar, Shape, throw, throw_operands, trace};
use crate::primitives::{
    ArrayLike, Like, concatenate, convert_element_type, fill_of, reshape, slice,
};
use crate::tree::{self, Tree};

/// Key of a random stream, two 32-bit words, or an array of keys.
///
/// Samplers take a key by value, and it is not `Copy`: using one key twice gives the same numbers
/// and requires an explicit `clone()`. A key is a tree with one leaf, `u32[2]`. An array of keys,
/// returned by [`split`], has leading axes: `vmap` maps over them, `scan` steps through them, and
/// `for` iterates over the first.
#[derive(Clone)]
#[doc(alias = "PRNGKey")]
pub struct Key {
    data: Array,
}

impl Key {
    /// Creates a key, or an array of keys, from its words: `u32[…, 2]`.
    ///
    /// Throws `Op` for another dtype or a last axis of another size.
    #[doc(alias = "wrap_key_data")]
    #[track_caller]
    pub fn from_data(data: Array) -> Key {
        if data.dtype() != DType::U32 {
            let error = RuleError::dtype(format!("a key is two words of u32, got {}", data.aval()));
            throw_operands("Key::from_data", error, &[&data]);
        }
        if data.shape().last() != Some(&2) {
            let error =
                RuleError::shape(format!("a key has a last axis of 2, got {}", data.aval()));
            throw_operands("Key::from_data", error, &[&data]);
        }
        Key { data }
    }

    /// Returns the words: `u32[2]`, after the axes of an array of keys.
    #[doc(alias = "key_data")]
    pub fn data(&self) -> &Array {
        &self.data
    }

    /// Returns the shape of an array of keys; `[]` for one key.
    pub fn shape(&self) -> Shape {
        Shape::new(&self.data.shape()[..self.data.rank() - 1])
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
        let words = self.words("split");
        let keys = draw(|| rows_of(&key_array(&words, &Shape::new(&[N])), N));
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
        draw(|| rows_of(&self.data, n)).into_iter()
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
        draw(|| row_of(&self.data, index))
    }

    /// Returns a key without words, as an argument of `eval_shape` and `make_program`.
    pub fn of_type() -> Key {
        Key { data: Array::of_type(Aval::new(DType::U32, [2])) }
    }

    /// Throws `Op` (shape) for an array of keys.
    #[track_caller]
    pub(super) fn expect_one(&self, name: &str) {
        if self.data.rank() != 1 {
            let message =
                format!("draws from one key, got an array of keys of shape {}", self.shape());
            let error = RuleError::shape(message).help("map over the keys with `vmap`");
            throw_operands(name, error, &[]);
        }
    }

    /// Returns the two words of one key as scalars.
    #[track_caller]
    pub(super) fn words(&self, name: &str) -> [Array; 2] {
        self.expect_one(name);
        words_of(&self.data)
    }
}

/// Returns the two words in the data of one key as scalars.
#[track_caller]
pub(super) fn words_of(data: &Array) -> [Array; 2] {
    let high = reshape(&slice(data, &[0], &[1], &[1]), []);
    let low = reshape(&slice(data, &[1], &[2], &[1]), []);
    [high, low]
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key({})", self.data.aval())
    }
}

impl Tree for Key {
    fn flatten(&self, visitor: &mut dyn tree::Visitor) {
        visitor.tag(tree::Tag::Name("Key"));
        visitor.leaf(&self.data);
    }
    fn unflatten(&self, leaves: &mut dyn Iterator<Item = Array>) -> Key {
        Key { data: self.data.unflatten(leaves) }
    }
}

/// Returns the key of a seed.
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
    let words = [(seed as u64 >> 32) as u32, seed as u32];
    let data = if trace::is_tracing() {
        let aval = Aval::new(DType::U32, [1]);
        let high = fill_of(Scalar::from(words[0]), &aval);
        let low = fill_of(Scalar::from(words[1]), &aval);
        concatenate([&high, &low], 0)
    } else {
        Array::from_slice(&words, [2]).unwrap_or_else(|error| throw(error))
    };
    Key { data }
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
    let words = key.words("split");
    let shape = shape.split_shape();
    draw(|| Key { data: key_array(&words, &shape) })
}

/// Returns the keys along the first axis of an array of `n` keys.
#[track_caller]
fn rows_of(data: &Array, n: usize) -> Vec<Key> {
    (0..n).map(|index| row_of(data, index)).collect()
}

#[track_caller]
fn row_of(data: &Array, index: usize) -> Key {
    let (mut start, mut stop) = (vec![0; data.rank()], data.shape().to_vec());
    (start[0], stop[0]) = (index, index + 1);
    let row = slice(data, &start, &stop, &vec![1; data.rank()]);
    Key { data: reshape(&row, data.shape().remove(0)) }
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

/// Returns the hashes of the counters of `shape` as an array of keys: `u32[shape…, 2]`.
#[track_caller]
pub(super) fn key_array(words: &[Array; 2], shape: &Shape) -> Array {
    let last = shape.insert(shape.rank(), 1);
    let [high, low] = counters(shape);
    let [a, b] = hash(words, &high, &low, shape).map(|half| reshape(&half, &last));
    concatenate([&a, &b], -1)
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
        let low = convert_element_type(&data, DType::U32);
        let high = fill_of(Scalar::Int(0), low.aval());
        let scalar = Shape::scalar();
        let [a, b] = hash(&words, &high, &low, &scalar).map(|half| reshape(&half, [1]));
        Key { data: concatenate([&a, &b], 0) }
    })
}
