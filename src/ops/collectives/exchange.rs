//! Collectives that exchange data: gather, scatter, all-to-all and permute.

use super::{GroupedAxes, refuse_groups};
use crate::core::named_axes::tracked;
use crate::core::{Array, AxisNames, Loc, OpErrorKind, RuleError, bind1, throw_operands, trace};
use crate::primitives::rules::{move_axis, resolve_axis};
use crate::primitives::{
    AllGather, AllToAll, CollectiveAxes, PPermute, PSumScatter, RaggedAllToAll, reshape, vary,
};
use crate::tree::{self, Tree};

/// Treatment of the axis that a collective gathers, scatters or splits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tiling {
    /// The axis has one element for each device or example; it is added or dropped. JAX's default.
    Untiled,
    /// The axis stays; its size is multiplied or divided by the number of devices or examples.
    Tiled,
}

/// Resolves an axis. Throws on behalf of `function` if it is out of range.
#[track_caller]
fn expect_axis(function: &str, axis: isize, rank: usize, x: &Array) -> usize {
    Loc::caller().scope(|| {
        resolve_axis(axis, rank).unwrap_or_else(|error| throw_operands(function, error, &[x]))
    })
}

/// Gathers the values along the named axes into one array, the same for all devices or examples:
/// stacked along a new axis `axis` ([`Tiling::Untiled`]), or concatenated along `axis`
/// ([`Tiling::Tiled`]). Negative axes count from the end of the result. See [`AllGather`].
///
/// ```
/// use oxidax::prelude::*;
/// let gather = |tiling| move |x: Array| all_gather(&x, "i", 0, tiling);
/// let shape = |tiling| {
///     let rows = move |x: Array| vmap(gather(tiling)).axis_name("i").out_axes([None]).apply(x);
///     eval_shape(rows, Aval::new(DType::F32, [4, 2])).map(|y| y.shape().to_vec())
/// };
/// assert_eq!(shape(Tiling::Untiled)?, [4, 2]);
/// assert_eq!(shape(Tiling::Tiled)?, [8]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn all_gather<T: Tree>(
    x: &T,
    axis_name: impl Into<AxisNames>,
    axis: isize,
    tiling: Tiling,
) -> T {
    let axes = GroupedAxes::some("all_gather", &axis_name.into());
    let steps = axes.one_by_one();
    let tiled = tiling == Tiling::Tiled;
    Loc::caller().scope(|| {
        tree::map(x, |x| {
            let at = expect_axis("all_gather", axis, x.rank() + usize::from(!tiled), x);
            let x = vary(x, &tracked(&axes.axes));
            let gathered = steps.iter().rev().fold(x, |x, axes| {
                let gather = AllGather { axes: axes.clone(), all_gather_dimension: at, tiled };
                bind1(gather, [&x])
            });
            if tiled { gathered } else { merge_axes(&gathered, at, steps.len()) }
        })
    })
}

/// Merges `count` axes from `axis` on.
fn merge_axes(x: &Array, axis: usize, count: usize) -> Array {
    let mut shape = x.shape().to_vec();
    let size = shape.drain(axis..axis + count).product();
    shape.insert(axis, size);
    if count == 1 { x.clone() } else { reshape(x, shape) }
}

/// Splits axis `axis` into the named axes, followed by an axis of size `rest` if there is one.
fn split_axis(x: &Array, axis: usize, axes: &[CollectiveAxes], rest: Option<usize>) -> Array {
    let mut shape = x.shape().to_vec();
    shape.splice(axis..=axis, axes.iter().map(CollectiveAxes::group_size).chain(rest));
    if shape.len() == x.rank() { x.clone() } else { reshape(x, shape) }
}

/// Returns the number of elements of `axis` for each device or example along `axes`. Throws if they
/// do not divide.
#[track_caller]
fn shard_size(function: &str, x: &Array, axis: usize, axes: &GroupedAxes, tiling: Tiling) -> usize {
    // The primitive refuses groups of different sizes.
    let Some(n) = axes.common_size() else { return 0 };
    let size = x.shape()[axis];
    let fits = match tiling {
        Tiling::Untiled => size == n,
        Tiling::Tiled => n > 0 && size.is_multiple_of(n),
    };
    if fits {
        return size / n.max(1);
    }
    let quoted: Vec<String> = axes.names().iter().map(|name| format!("`{name}`")).collect();
    let groups = if axes.groups.is_some() { "a group of " } else { "" };
    let along = format!("{groups}{}", quoted.join(", "));
    throw_operands(
        function,
        match tiling {
            Tiling::Untiled => RuleError::shape(format!(
                "axis {axis} has size {size}, which must equal the size {n} of {along}"
            ))
            .help("`Tiling::Tiled` allows several elements for each"),
            Tiling::Tiled => RuleError::shape(format!(
                "axis {axis} has size {size}, which is not divisible by the size {n} of {along}"
            )),
        },
        &[x],
    )
}

/// Returns the part of the sum along the named axes that belongs to a device or example: element
/// `k` along
/// `scatter_dimension` for number `k` ([`Tiling::Untiled`]), or an equal share of the elements
/// ([`Tiling::Tiled`]). Equivalent to [`psum`](super::psum) followed by a slice. See
/// [`PSumScatter`].
///
/// Throws `Op` (shape) if the size of the axis does not fit.
///
/// ```
/// use oxidax::prelude::*;
/// let x = Array::from_slice(&[1.0f32, 2.0, 10.0, 20.0], [2, 2])?;
/// let scatter = |x: Array| psum_scatter(&x, "i", 0, Tiling::Untiled);
/// let sums = vmap(scatter).axis_name("i").apply(&x);
/// assert_eq!(sums.to_vec::<f32>()?, [11.0, 22.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "reduce_scatter")]
#[track_caller]
pub fn psum_scatter<T: Tree>(
    x: &T,
    axis_name: impl Into<AxisNames>,
    scatter_dimension: isize,
    tiling: Tiling,
) -> T {
    let axes = GroupedAxes::some("psum_scatter", &axis_name.into());
    let steps = axes.one_by_one();
    let tiled = tiling == Tiling::Tiled;
    Loc::caller().scope(|| {
        tree::map(x, |x| {
            let at = expect_axis("psum_scatter", scatter_dimension, x.rank(), x);
            shard_size("psum_scatter", x, at, &axes, tiling);
            let x = &vary(x, &tracked(&axes.axes));
            let x =
                if steps.len() == 1 || tiled { x.clone() } else { split_axis(x, at, &steps, None) };
            steps.iter().fold(x, |x, axes| {
                bind1(PSumScatter { axes: axes.clone(), scatter_dimension: at, tiled }, [&x])
            })
        })
    })
}

/// Sends part `k` along `split_axis` to device or example `k` along the named axes. The received
/// parts are joined along `concat_axis` in the order of the senders.
///
/// [`Tiling::Untiled`]: `split_axis` has one element for each device or example and is dropped;
/// `concat_axis` is a new axis of the result. [`Tiling::Tiled`]: `split_axis` becomes shorter and
/// `concat_axis` longer. See [`AllToAll`].
///
/// Throws `Op` (shape) if the size of the axis does not fit.
///
/// ```
/// use oxidax::prelude::*;
/// let x = Array::from_slice(&[1.0f32, 2.0, 10.0, 20.0], [2, 2])?;
/// let exchange = |x: Array| all_to_all(&x, "i", 0, 0, Tiling::Untiled);
/// let transposed = vmap(exchange).axis_name("i").apply(&x);
/// assert_eq!(transposed.to_vec::<f32>()?, [1.0, 10.0, 2.0, 20.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn all_to_all<T: Tree>(
    x: &T,
    axis_name: impl Into<AxisNames>,
    split_axis: isize,
    concat_axis: isize,
    tiling: Tiling,
) -> T {
    exchange("all_to_all", x, axis_name.into(), [split_axis, concat_axis], tiling)
}

/// Runs [`all_to_all`] on behalf of `function`.
#[track_caller]
fn exchange<T: Tree>(
    function: &str,
    x: &T,
    axis_name: AxisNames,
    split_and_concat: [isize; 2],
    tiling: Tiling,
) -> T {
    let axes = GroupedAxes::some(function, &axis_name);
    let steps = axes.one_by_one();
    Loc::caller().scope(|| {
        tree::map(x, |x| {
            let [split, concat] =
                split_and_concat.map(|axis| expect_axis(function, axis, x.rank(), x));
            let x = &vary(x, &tracked(&axes.axes));
            let rest = shard_size(function, x, split, &axes, tiling);
            let tiled = tiling == Tiling::Tiled;
            let over = |axes: &CollectiveAxes, split_axis, concat_axis, tiled| AllToAll {
                axes: axes.clone(),
                split_axis,
                concat_axis,
                tiled,
            };
            if let [step] = steps.as_slice() {
                return bind1(over(step, split, concat, tiled), [x]);
            }
            // The exchange runs along one named axis after the other.
            let parts = split_axis(x, split, &steps, tiled.then_some(rest));
            let exchanged = steps.iter().enumerate().fold(parts, |x, (index, axes)| {
                bind1(over(axes, split + index, split + index, false), [&x])
            });
            let moved = move_axis(&merge_axes(&exchanged, split, steps.len()), split, concat);
            if tiled { merge_axes(&moved, concat, 2) } else { moved }
        })
    })
}

/// Sends slices of rows of different sizes to the devices or examples along the named axes, and
/// returns `output` with the received slices written into it. The sizes are known at run time.
///
/// `operand` has the shape `[n, …]` and `output` `[m, …]`, with equal axes after the first. The
/// others are integers of the shape `[k]`, for `k` slices: `k / size` for each device or example.
/// Slice `i` consists of the rows of `operand` from `input_offsets[i]` to
/// `input_offsets[i] + send_sizes[i]`. It goes to number `i / (k / size)`, which writes it to the
/// rows of `output` from `output_offsets[i]` on. `recv_sizes` are the sizes of the slices that
/// arrive, in the order of the senders: an [`all_to_all`] of `send_sizes`.
///
/// The result is unspecified if `recv_sizes` are others, or slices leave their arrays. Derivatives
/// in reverse mode need slices of `operand` that do not overlap, as in JAX. See [`RaggedAllToAll`].
///
/// Throws `Op` (shape or dtype) if the arrays do not fit, or `k` is not a positive multiple of the
/// size.
///
/// ```
/// use oxidax::prelude::*;
/// let numbers = |x: [i32; 4]| Array::from_slice(&x, [2, 2]);
/// let operand = Array::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3])?;
/// let send = |operand: Array, from: Array, sizes: Array, to: Array, received: Array| {
///     ragged_all_to_all(&operand, &zeros([4]), &from, &sizes, &to, &received, "i")
/// };
/// // The first example keeps 1 and sends 2 and 3, the second sends 4 and 5 and keeps 6.
/// let result = vmap(send).axis_name("i").apply(
///     &operand,
///     numbers([0, 1, 0, 2])?,
///     numbers([1, 2, 2, 1])?,
///     numbers([2, 0, 0, 3])?,
///     numbers([1, 2, 2, 1])?,
/// );
/// assert_eq!(result.to_vec::<f32>()?, [4.0, 5.0, 1.0, 0.0, 2.0, 3.0, 0.0, 6.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn ragged_all_to_all(
    operand: &Array,
    output: &Array,
    input_offsets: &Array,
    send_sizes: &Array,
    output_offsets: &Array,
    recv_sizes: &Array,
    axis_name: impl Into<AxisNames>,
) -> Array {
    let axes = GroupedAxes::some("ragged_all_to_all", &axis_name.into());
    Loc::caller().scope(|| {
        let operands = [operand, output, input_offsets, send_sizes, output_offsets, recv_sizes];
        let operands = operands.map(|x| vary(x, &tracked(&axes.axes)));
        bind1(RaggedAllToAll { axes: axes.together() }, operands.each_ref())
    })
}

/// Sends values along the named axes: `perm` lists pairs of source and destination. Destinations
/// that receive no value get zeros. Indices along several axes are linear, and the first axis
/// varies slowest. See [`PPermute`].
///
/// Throws `Op` (value) if an index occurs twice as source or destination or is out of range.
///
/// ```
/// use oxidax::prelude::*;
/// let x = Array::from_slice(&[1.0f32, 2.0, 3.0], [3])?;
/// let step = |x: Array| ppermute(&x, "i", &[(0, 1), (1, 2), (2, 0)]);
/// let around = vmap(step).axis_name("i").apply(&x);
/// assert_eq!(around.to_vec::<f32>()?, [3.0, 1.0, 2.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn ppermute<T: Tree>(x: &T, axis_name: impl Into<AxisNames>, perm: &[(usize, usize)]) -> T {
    permute("ppermute", x, axis_name.into(), |_| perm.to_vec())
}

/// Runs [`ppermute`] on behalf of `function`, with pairs that depend on the size of the axes.
#[track_caller]
fn permute<T: Tree>(
    function: &str,
    x: &T,
    axis_name: AxisNames,
    perm: impl FnOnce(usize) -> Vec<(usize, usize)>,
) -> T {
    refuse_groups(function, &axis_name);
    let axes = GroupedAxes::some(function, &axis_name);
    let together = axes.together();
    let permute = PPermute { perm: perm(together.size()), axes: together };
    Loc::caller()
        .scope(|| tree::map(x, |x| bind1(permute.clone(), [&vary(x, &tracked(&axes.axes))])))
}

/// Permutes the values along the named axes: number `k` gets the value of number `perm[k]`. This is
/// [`ppermute`] with a permutation.
///
/// Throws `Op` (value) if `perm` is not a permutation.
///
/// ```
/// use oxidax::prelude::*;
/// let x = Array::from_slice(&[1.0f32, 2.0, 3.0], [3])?;
/// let shuffled = vmap(|x: Array| pshuffle(&x, "i", &[2, 0, 1])).axis_name("i").apply(&x);
/// assert_eq!(shuffled.to_vec::<f32>()?, [3.0, 1.0, 2.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn pshuffle<T: Tree>(x: &T, axis_name: impl Into<AxisNames>, perm: &[usize]) -> T {
    let loc = Loc::caller();
    permute("pshuffle", x, axis_name.into(), |size| {
        let mut sorted = perm.to_vec();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..size) {
            let message = format!("{perm:?} is not a permutation of 0..{size}");
            trace::throw_op(OpErrorKind::Value, "pshuffle", message, loc);
        }
        perm.iter().copied().zip(0..size).collect()
    })
}

/// Exchanges the named axis with axis `axis` of the array, which must have the same size.
///
/// Throws `Op` (shape) for another size.
///
/// ```
/// use oxidax::prelude::*;
/// let swap = |x: Array| vmap(|row: Array| pswapaxes(&row, "i", 0)).axis_name("i").apply(x);
/// assert_eq!(eval_shape(swap, Aval::new(DType::F32, [3, 3]))?.shape().dims(), [3, 3]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn pswapaxes<T: Tree>(x: &T, axis_name: impl Into<AxisNames>, axis: isize) -> T {
    exchange("pswapaxes", x, axis_name.into(), [axis, axis], Tiling::Untiled)
}
