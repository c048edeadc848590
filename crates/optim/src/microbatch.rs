//! Large batches in several parts, one after the other.

use crate::check::expect_value;
use oxidax::core::{RuleError, throw_operands};
use oxidax::prelude::*;

/// The combination of the results of microbatches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccumulationType {
    /// Their sum.
    #[default]
    Sum,
    /// Their mean over all microbatches of the batch. For floats.
    Mean,
    /// Their mean, updated with each microbatch, so that it is that of the microbatches which are
    /// computed. For floats.
    RunningMean,
    /// All results in the order of the batch, along axis 0.
    Concat,
}

/// Options of [`microbatch`], [`micro_vmap`] and [`micro_grad`].
#[derive(Clone, Debug)]
pub struct MicrobatchOptions {
    /// The number of examples in a microbatch, which divides that of the batch. 1 by default.
    pub microbatch_size: usize,
    /// The combination of the results.
    pub accumulation: AccumulationType,
    /// Other combinations for leaves below a path of the result, such as `[1]` for the second
    /// part of a pair. The first that matches counts.
    pub accumulations: Vec<(String, AccumulationType)>,
    /// The batch axis of the arguments, for [`microbatch`]. 0 by default.
    pub in_axis: usize,
    /// The number of microbatches that are computed, an integer scalar, for batches of varying
    /// size without another compilation. All by default. With it, reverse mode is not supported.
    pub num_real_microbatches: Option<Array>,
}

impl Default for MicrobatchOptions {
    fn default() -> MicrobatchOptions {
        MicrobatchOptions {
            microbatch_size: 1,
            accumulation: AccumulationType::Sum,
            accumulations: Vec::new(),
            in_axis: 0,
            num_real_microbatches: None,
        }
    }
}

impl MicrobatchOptions {
    /// Returns options with this number of examples in a microbatch.
    pub fn of_size(microbatch_size: usize) -> MicrobatchOptions {
        MicrobatchOptions { microbatch_size, ..MicrobatchOptions::default() }
    }

    fn of_path(&self, path: &str) -> AccumulationType {
        let is_below = |prefix: &str| {
            let rest = path.strip_prefix(prefix);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let found = self.accumulations.iter().find(|(prefix, _)| is_below(prefix));
        found.map_or(self.accumulation, |(_, accumulation)| *accumulation)
    }
}

/// Returns a function that applies `f` to parts of a batch, one after the other, and combines the
/// results. It needs the memory of one part.
///
/// The argument is a tree of arrays that share a batch axis; other values are captured. Of `n`
/// microbatches, microbatch `i` has the examples `i, i + n, i + 2 n, …`, so that a batch which is
/// sharded over devices is sharded in every microbatch.
///
/// The returned function throws `Op` (shape) if a leaf does not have the batch axis or sizes
/// differ, `Op` (value) if `microbatch_size` does not divide the batch, `Op` (dtype) for a mean of
/// numbers that are not floats, and whatever `f` throws.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_optim::{AccumulationType, MicrobatchOptions, microbatch};
/// let f = |x: &Array| (x + 1.0, (x * 3.0).sum());
/// let options = MicrobatchOptions {
///     accumulations: vec![("[0]".into(), AccumulationType::Concat)],
///     ..MicrobatchOptions::of_size(2)
/// };
/// let (next, total) = microbatch(f, options)(&array![1f32, 2.0, 3.0, 4.0]);
/// assert_eq!(next.to_vec::<f32>()?, [2.0, 3.0, 4.0, 5.0]);
/// assert_eq!(total.item::<f32>()?, 30.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "reshape_batch_axis")]
pub fn microbatch<B: Tree, O: Tree>(
    f: impl Fn(&B) -> O,
    options: MicrobatchOptions,
) -> impl Fn(&B) -> O {
    move |batch| accumulate(&f, &options, batch)
}

/// Splits the batch axis of an array: `[…, n · size, …]` becomes `[n, …, size, …]`.
fn split_batch(x: &Array, axis: usize, count: usize, size: usize) -> Array {
    let dims = x.shape().dims();
    let split = reshape(x, [&dims[..axis], &[size, count], &dims[axis + 1..]].concat());
    moveaxis(&split, axis as isize + 1, 0)
}

/// Returns the number of microbatches.
#[track_caller]
fn count_of(leaves: &[Array], options: &MicrobatchOptions) -> usize {
    let MicrobatchOptions { in_axis: axis, microbatch_size, .. } = *options;
    let Some(first) = leaves.first() else {
        throw_operands("microbatch", RuleError::value("the batch has no arrays"), &[]);
    };
    for leaf in leaves {
        if leaf.rank() <= axis || leaf.shape()[axis] != first.shape()[axis] {
            let (first, leaf_type) = (first.aval(), leaf.aval());
            let message = format!("the batch axis {axis} of {first} and {leaf_type} differs");
            throw_operands("microbatch", RuleError::shape(message), &[leaf]);
        }
    }
    let n = first.shape()[axis];
    let divides = microbatch_size > 0 && n > 0 && n.is_multiple_of(microbatch_size);
    expect_value(divides, "microbatch", || {
        format!("{n} examples are not divisible into microbatches of {microbatch_size}")
    });
    n / microbatch_size
}

/// Returns the state of a leaf before the first microbatch.
#[track_caller]
fn start(accumulation: AccumulationType, path: &str, result: &Array, count: usize) -> Array {
    let (dims, dtype) = (result.shape().dims(), result.dtype());
    let is_mean = matches!(accumulation, AccumulationType::Mean | AccumulationType::RunningMean);
    if is_mean && !dtype.is_inexact() {
        let message = format!("the mean of microbatches needs floats, `{path}` is {dtype}");
        throw_operands("microbatch", RuleError::dtype(message), &[result]);
    }
    match accumulation {
        AccumulationType::Concat => zeros(([&[count], dims].concat(), dtype)),
        _ => zeros((dims.to_vec(), dtype)),
    }
}

/// Adds the result of microbatch `index`.
fn add_result(
    accumulation: AccumulationType,
    state: &Array,
    result: &Array,
    index: &Array,
) -> Array {
    match accumulation {
        AccumulationType::Sum | AccumulationType::Mean => state + result,
        AccumulationType::RunningMean => {
            let weight = index.astype(DType::F32) / (index.astype(DType::F32) + 1.0);
            let weight = weight.astype(state.dtype());
            state * &weight + result * (1.0 - weight)
        }
        AccumulationType::Concat => {
            dynamic_update_slice_in_dim(state, &expand_dims(result, &[0]), index, 0)
        }
    }
}

/// Returns the combined result of a leaf.
fn finished(accumulation: AccumulationType, state: &Array, count: usize) -> Array {
    match accumulation {
        AccumulationType::Sum | AccumulationType::RunningMean => state.clone(),
        AccumulationType::Mean => state / count as f64,
        AccumulationType::Concat if state.rank() == 1 => state.clone(),
        AccumulationType::Concat => {
            let dims = state.shape().dims();
            let merged = [&[dims[0] * dims[1]], &dims[2..]].concat();
            reshape(&moveaxis(state, 0, 1), merged)
        }
    }
}

#[track_caller]
fn accumulate<B: Tree, O: Tree>(f: &impl Fn(&B) -> O, options: &MicrobatchOptions, batch: &B) -> O {
    let leaves = tree::leaves(batch);
    let count = count_of(&leaves, options);
    let parts: Vec<Array> = leaves
        .iter()
        .map(|leaf| split_batch(leaf, options.in_axis, count, options.microbatch_size))
        .collect();
    let at = |index: &Array| {
        let drop = DynamicIndexOptions { keepdims: false };
        let part = parts.iter().map(|x| dynamic_index_in_dim_with(x, index, 0, drop));
        f(&tree::unflatten(batch, part))
    };
    let template = match eval_shape(|index: Array| at(&index), Aval::new(DType::I32, [])) {
        Ok(template) => template,
        Err(error) => oxidax::core::throw(error),
    };
    let ways: Vec<AccumulationType> =
        tree::paths(&template).iter().map(|path| options.of_path(path)).collect();
    let paths = tree::paths(&template);
    let results = tree::leaves(&template);
    let initial: Vec<Array> = ways
        .iter()
        .zip(paths.iter().zip(&results))
        .map(|(way, (path, result))| start(*way, path, result, count))
        .collect();
    let step = |index: Array, states: Vec<Array>| -> Vec<Array> {
        let results = tree::leaves(&at(&index));
        let pairs = ways.iter().zip(states.iter().zip(&results));
        pairs.map(|(way, (state, result))| add_result(*way, state, result, &index)).collect()
    };
    let states = match &options.num_real_microbatches {
        None => fori_loop(0, count as i32, step, initial),
        Some(bound) => fori_loop(0, bound.astype(DType::I32), step, initial),
    };
    let combined = ways.iter().zip(&states).map(|(way, state)| finished(*way, state, count));
    tree::unflatten(&template, combined.collect::<Vec<Array>>())
}

/// Returns a function that applies `f` to every example of a batch, as `vmap` does, in
/// microbatches, and combines the results over all examples.
///
/// With [`AccumulationType::Concat`] it is [`vmap`]; sums and means do not store the results of all
/// examples. The batch axis of the argument is axis 0.
///
/// Throws as the function of [`microbatch`] does.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_optim::{AccumulationType, MicrobatchOptions, micro_vmap};
/// let options =
///     MicrobatchOptions { accumulation: AccumulationType::Mean, ..MicrobatchOptions::of_size(2) };
/// let mean_square = micro_vmap(|x: &Array| x * x, options);
/// assert_eq!(mean_square(&array![1f32, 2.0, 3.0, 4.0]).item::<f32>()?, 7.5);
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn micro_vmap<B: Tree, O: Tree>(
    f: impl Fn(&B) -> O,
    options: MicrobatchOptions,
) -> impl Fn(&B) -> O {
    let options = MicrobatchOptions { in_axis: 0, ..options };
    move |batch| {
        let over_examples = |part: &B| {
            let results = vmap(|example: B| f(&example)).apply(part);
            tree::map_with_path(&results, |path, leaf| match options.of_path(path) {
                AccumulationType::Sum => leaf.sum_axes(0),
                AccumulationType::Mean | AccumulationType::RunningMean => leaf.mean_axes(0),
                AccumulationType::Concat => leaf.clone(),
            })
        };
        accumulate(&over_examples, &options, batch)
    }
}

/// Returns a function that computes the gradients of `f` for every example of a batch, transforms
/// and combines them, and returns them with the values of all examples.
///
/// `f` maps parameters and a batch of one example to a loss. `transform` maps the gradient of an
/// example to a tree: a clipped gradient, or the gradient and its square for the moments. Paths
/// of `accumulations` are those of its result.
///
/// Throws as the function of [`microbatch`] does.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_optim::{AccumulationType, MicrobatchOptions, micro_grad};
/// let loss = |w: &Array, (x, y): &(Array, Array)| {
///     let gap = x.matmul(w) - y;
///     (&gap * &gap).mean() * 0.5
/// };
/// let options =
///     MicrobatchOptions { accumulation: AccumulationType::Mean, ..MicrobatchOptions::of_size(2) };
/// let moments = |g: Array| (g.clone(), &g * &g);
/// let batch = (ones([4, 1]), array![0f32, 2.0, 4.0, 6.0]);
/// let ((mean, square), values) = micro_grad(loss, moments, options)(&zeros([1]), &batch);
/// assert_eq!((mean.to_vec::<f32>()?, square.to_vec::<f32>()?), (vec![-3.0], vec![14.0]));
/// assert_eq!(values.to_vec::<f32>()?, [0.0, 2.0, 8.0, 18.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn micro_grad<P: Tree, B: Tree, T: Tree>(
    f: impl Fn(&P, &B) -> Array,
    transform: impl Fn(P) -> T,
    options: MicrobatchOptions,
) -> impl Fn(&P, &B) -> (T, Array) {
    let below = |path: &str| {
        let joint = if path.is_empty() || path.starts_with('[') { "" } else { "." };
        format!("[0]{joint}{path}")
    };
    let mut accumulations = vec![("[1]".to_owned(), AccumulationType::Concat)];
    let given = options.accumulations.iter();
    accumulations.extend(given.map(|(path, way)| (below(path), *way)));
    let options = MicrobatchOptions { accumulations, in_axis: 0, ..options };
    move |parameters, batch| {
        let one = |example: &B| {
            let example = tree::map(example, |x| expand_dims(x, &[0]));
            let (value, gradient) = value_and_grad(|p: &P| f(p, &example))(parameters);
            (transform(gradient), value)
        };
        let results = micro_vmap(one, options.clone());
        results(batch)
    }
}
