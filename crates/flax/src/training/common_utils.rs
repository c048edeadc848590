//! Batches over devices, and forests of trees.

use oxidax::core::{RuleError, throw_operands};
use oxidax::prelude::*;
use oxidax::random::{self, Key};

/// Splits the leading axis of every leaf over `n_devices`: `[n · b, …] → [n, b, …]`, the form that
/// [`pmap`] takes.
///
/// Throws `Op` (shape) if the devices do not divide an axis.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::training::shard;
/// let batch = shard(&(zeros([8, 3]), zeros([8])), 4);
/// assert_eq!(batch.0.shape().dims(), [4, 2, 3]);
/// assert_eq!(batch.1.shape().dims(), [4, 2]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn shard<T: Tree>(batch: &T, n_devices: usize) -> T {
    tree::map(batch, |leaf| {
        let Some((&n, rest)) = leaf.shape().dims().split_first() else {
            let message = format!("{} needs a batch axis", leaf.aval());
            throw_operands("shard", RuleError::shape(message), &[leaf]);
        };
        if n_devices == 0 || n % n_devices != 0 {
            let message = format!("{} does not split over {n_devices} devices", leaf.aval());
            let error = RuleError::shape(message).help("pad the batch: `pad_shard_unpad`");
            throw_operands("shard", error, &[leaf]);
        }
        leaf.reshape([&[n_devices, n / n_devices], rest].concat())
    })
}

/// Splits a key into one for each of `n_devices`, an array of keys `[n]`.
#[track_caller]
pub fn shard_prng_key(key: Key, n_devices: usize) -> Key {
    random::split(key, [n_devices])
}

/// Stacks the leaves of trees of equal structure along a new leading axis.
///
/// Throws `Op`: (value) without trees, (shape) if leaves differ in shape.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::training::stack_forest;
/// let stacked = stack_forest(&[(zeros([3]), ones([])), (ones([3]), zeros([]))]);
/// assert_eq!(stacked.0.shape().dims(), [2, 3]);
/// assert_eq!(stacked.1.to_vec::<f32>()?, [1.0, 0.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn stack_forest<T: Tree>(forest: &[T]) -> T {
    let Some(first) = forest.first() else {
        throw_operands("stack_forest", RuleError::value("no trees to stack"), &[]);
    };
    let leaves: Vec<Vec<Array>> = forest.iter().map(tree::leaves).collect();
    if leaves.iter().any(|tree| tree.len() != leaves[0].len()) {
        let counts: Vec<usize> = leaves.iter().map(Vec::len).collect();
        let message = format!("the trees have {counts:?} leaves");
        throw_operands("stack_forest", RuleError::value(message), &[]);
    }
    let mut stacked = Vec::with_capacity(leaves[0].len());
    for i in 0..leaves[0].len() {
        stacked.push(stack(leaves.iter().map(|tree| &tree[i]).collect::<Vec<_>>(), 0));
    }
    tree::unflatten(first, stacked)
}

/// Copies every leaf `n_devices` times along a new leading axis, the form that [`pmap`] takes.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::training::{replicate, unreplicate};
/// let copies = replicate(&ones([3]), 2);
/// assert_eq!(copies.shape().dims(), [2, 3]);
/// assert_eq!(unreplicate(&copies).shape().dims(), [3]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "jax_utils.replicate")]
#[track_caller]
pub fn replicate<T: Tree>(tree: &T, n_devices: usize) -> T {
    tree::map(tree, |leaf| broadcast_to(leaf, [&[n_devices], leaf.shape().dims()].concat()))
}

/// Returns the first copy of every leaf.
///
/// Throws `Op` (shape) if a leaf does not have an axis.
#[doc(alias = "jax_utils.unreplicate")]
#[track_caller]
pub fn unreplicate<T: Tree>(tree: &T) -> T {
    tree::map(tree, |leaf| {
        if leaf.rank() == 0 {
            let message = format!("{} needs an axis of copies", leaf.aval());
            throw_operands("unreplicate", RuleError::shape(message), &[leaf]);
        }
        leaf.index(i![0])
    })
}

/// Stacks the metrics of several steps over time, from the first copy of each, `[n, …]`.
///
/// Throws as [`unreplicate`] and [`stack_forest`] do.
#[track_caller]
pub fn get_metrics<T: Tree>(device_metrics: &[T]) -> T {
    let first: Vec<T> = device_metrics.iter().map(unreplicate).collect();
    stack_forest(&first)
}

/// The values of [`onehot_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OnehotValues {
    /// The value at the label. 1 by default.
    pub on_value: f64,
    /// The value elsewhere. 0 by default.
    pub off_value: f64,
}

impl Default for OnehotValues {
    fn default() -> OnehotValues {
        OnehotValues { on_value: 1.0, off_value: 0.0 }
    }
}

/// Returns one-hot vectors of labels, `int[…] → f32[…, classes]`. Labels out of range give zeros.
#[track_caller]
pub fn onehot(labels: &Array, n_classes: usize) -> Array {
    onehot_with(labels, n_classes, OnehotValues::default())
}

/// Returns one-hot vectors of labels with other values than 1 and 0.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::training::{OnehotValues, onehot_with};
/// let options = OnehotValues { on_value: 0.9, off_value: 0.05 };
/// assert_eq!(onehot_with(&array![1], 3, options).to_vec::<f32>()?, [0.05, 0.9, 0.05]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn onehot_with(labels: &Array, n_classes: usize, options: OnehotValues) -> Array {
    let hot = gt(one_hot(labels, n_classes), 0.5);
    let [on, off] = [options.on_value, options.off_value].map(|value| full([], value as f32));
    where_(&hot, &on, &off)
}

/// Applies a function of batches over devices, `[n, b, …] → [n, b, …]`, to a batch of any size:
/// pads it with zeros, splits it, and drops the results of the padding.
///
/// Batches of at least `min_device_batch` examples on each device avoid a compilation for the last
/// batch of an epoch.
///
/// Throws `Op` (shape) if the leading axes of the leaves differ.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::training::pad_shard_unpad;
/// let y = pad_shard_unpad(&arange(5), 2, 0, |x: &Array| {
///     assert_eq!(x.shape().dims(), [2, 3]);
///     x * 2
/// });
/// assert_eq!(y.to_vec::<i32>()?, [0, 2, 4, 6, 8]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn pad_shard_unpad<T: Tree, Y: Tree>(
    batch: &T,
    n_devices: usize,
    min_device_batch: usize,
    f: impl FnOnce(&T) -> Y,
) -> Y {
    let leaves = tree::leaves(batch);
    let sizes: Vec<Option<usize>> =
        leaves.iter().map(|leaf| leaf.shape().first().copied()).collect();
    let Some(Some(n)) = sizes.first().copied() else {
        throw_operands("pad_shard_unpad", RuleError::shape("no leaf with a batch axis"), &[]);
    };
    if sizes.iter().any(|size| *size != Some(n)) || n_devices == 0 {
        let message = format!("batches of {sizes:?} over {n_devices} devices");
        throw_operands("pad_shard_unpad", RuleError::shape(message), &[]);
    }
    let per_device = n.div_ceil(n_devices).max(min_device_batch);
    let padded = tree::map(batch, |leaf| {
        let missing = n_devices * per_device - n;
        if missing == 0 {
            return leaf.clone();
        }
        let rest = &leaf.shape().dims()[1..];
        let padding = zeros(([&[missing], rest].concat(), leaf.dtype()));
        concatenate([leaf, &padding], 0)
    });
    let results = f(&shard(&padded, n_devices));
    tree::map(&results, |leaf| {
        let [devices, examples, rest @ ..] = leaf.shape().dims() else {
            let message = format!("the result {} needs axes [devices, batch]", leaf.aval());
            throw_operands("pad_shard_unpad", RuleError::shape(message), &[leaf]);
        };
        leaf.reshape([&[devices * examples], rest].concat()).index(i![..n as isize])
    })
}
