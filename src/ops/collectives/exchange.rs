//! What examples send to each other.

use super::some_axes;
use crate::core::named_axes::{NamedAxis, tracked};
use crate::core::{Array, AxisNames, Loc, OpErrorKind, RuleError, bind1, throw_operands, trace};
use crate::primitives::rules::{move_axis, resolve_axis};
use crate::primitives::{AllGather, AllToAll, PPermute, PSumScatter, reshape, vary};
use crate::tree::{self, Tree};

/// What becomes of the axis along which examples give and get parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tiling {
    /// A part is one element along it: where there is one part, the axis is not there.
    Untiled,
    /// A part is some elements along it: the axis stays, longer or shorter.
    Tiled,
}

/// The position that `axis` is among `rank`, or an error on behalf of `function`.
#[track_caller]
fn position(function: &str, axis: isize, rank: usize, x: &Array) -> usize {
    resolve_axis(axis, rank).unwrap_or_else(|error| throw_operands(function, error, &[x]))
}

/// The values of all examples along the named axes, as one array that is the same for all of them: beside
/// each other along a new axis at `axis` ([`Tiling::Untiled`]), or end to end along axis `axis`
/// ([`Tiling::Tiled`]). Negative axes count from the back, of the result. See [`AllGather`].
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
    let axes = some_axes("all_gather", axis_name.into());
    let tiled = tiling == Tiling::Tiled;
    Loc::caller().scope(|| {
        tree::map(x, |x| {
            let at = position("all_gather", axis, x.rank() + usize::from(!tiled), x);
            let x = vary(x, &tracked(&axes));
            let gathered = axes.iter().rev().fold(x, |x, axis| {
                let gather = AllGather {
                    axis_name: axis.name.clone(),
                    axis_size: axis.size,
                    all_gather_dimension: at,
                    tiled,
                };
                bind1(gather, [&x])
            });
            if tiled { gathered } else { joined(&gathered, at, axes.len()) }
        })
    })
}

/// The array with `count` axes from `at` on made one.
fn joined(x: &Array, at: usize, count: usize) -> Array {
    let mut shape = x.shape().to_vec();
    let size = shape.drain(at..at + count).product();
    shape.insert(at, size);
    if count == 1 { x.clone() } else { reshape(x, shape) }
}

/// The array with axis `at` made as many as there are named axes, of their sizes, and one for the rest if
/// there is one.
fn parted(x: &Array, at: usize, axes: &[NamedAxis], rest: Option<usize>) -> Array {
    let mut shape = x.shape().to_vec();
    shape.splice(at..=at, axes.iter().map(|axis| axis.size).chain(rest));
    if shape.len() == x.rank() { x.clone() } else { reshape(x, shape) }
}

/// How many elements of axis `at` there are for each of the examples along `axes`.
#[track_caller]
fn elements_each(
    function: &str,
    x: &Array,
    at: usize,
    axes: &[NamedAxis],
    tiling: Tiling,
) -> usize {
    let (size, n) = (x.shape()[at], axes.iter().map(|axis| axis.size).product::<usize>());
    let fits = match tiling {
        Tiling::Untiled => size == n,
        Tiling::Tiled => n > 0 && size % n == 0,
    };
    if fits {
        return size / n.max(1);
    }
    let quoted: Vec<String> = axes.iter().map(|axis| format!("`{}`", axis.name)).collect();
    let along = quoted.join(", ");
    throw_operands(
        function,
        match tiling {
            Tiling::Untiled => RuleError::shape(format!(
                "axis {at} has size {size}, and one element is to go to each of the {n} along {along}"
            ))
            .help("with `Tiling::Tiled` several elements go to each"),
            Tiling::Tiled => RuleError::shape(format!(
                "axis {at} has size {size}, which is not divisible by the size {n} of {along}"
            )),
        },
        &[x],
    )
}

/// The sum over all examples along the named axes, of which each example gets its part: element `k` along
/// `scatter_dimension` for example `k` ([`Tiling::Untiled`]), or as many elements as each can have
/// ([`Tiling::Tiled`]). It is [`psum`](super::psum) without what an example does not need. See [`PSumScatter`].
///
/// Throws `Op` (shape) if the axis does not have so many elements.
///
/// ```no_run
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
    let axes = some_axes("psum_scatter", axis_name.into());
    let tiled = tiling == Tiling::Tiled;
    Loc::caller().scope(|| {
        tree::map(x, |x| {
            let at = position("psum_scatter", scatter_dimension, x.rank(), x);
            elements_each("psum_scatter", x, at, &axes, tiling);
            let x = &vary(x, &tracked(&axes));
            let x = if tiled { x.clone() } else { parted(x, at, &axes, None) };
            axes.iter().fold(x, |x, axis| {
                let scatter = PSumScatter {
                    axis_name: axis.name.clone(),
                    axis_size: axis.size,
                    scatter_dimension: at,
                    tiled,
                };
                bind1(scatter, [&x])
            })
        })
    })
}

/// Part `k` along `split_axis` is sent to example `k` along the named axes, and what an example gets is put
/// together along `concat_axis`, in the senders' order.
///
/// [`Tiling::Untiled`]: `split_axis` has as many elements as there are examples, and disappears;
/// `concat_axis` is a new one, counted in the result. [`Tiling::Tiled`]: `split_axis` gets shorter and
/// `concat_axis` longer. See [`AllToAll`].
///
/// Throws `Op` (shape) if the axis does not have so many elements.
///
/// ```no_run
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

/// [`all_to_all`] on behalf of `function`.
#[track_caller]
fn exchange<T: Tree>(
    function: &str,
    x: &T,
    axis_name: AxisNames,
    places: [isize; 2],
    tiling: Tiling,
) -> T {
    let axes = some_axes(function, axis_name);
    Loc::caller().scope(|| {
        tree::map(x, |x| {
            let [split, concat] = places.map(|axis| position(function, axis, x.rank(), x));
            let x = &vary(x, &tracked(&axes));
            let each = elements_each(function, x, split, &axes, tiling);
            let tiled = tiling == Tiling::Tiled;
            let over = |axis: &NamedAxis, split_axis, concat_axis, tiled| {
                let (axis_name, axis_size) = (axis.name.clone(), axis.size);
                AllToAll { axis_name, axis_size, split_axis, concat_axis, tiled }
            };
            if let [axis] = axes.as_slice() {
                return bind1(over(axis, split, concat, tiled), [x]);
            }
            // One axis after the other, each in its place.
            let parts = parted(x, split, &axes, tiled.then_some(each));
            let exchanged = axes.iter().enumerate().fold(parts, |x, (place, axis)| {
                bind1(over(axis, split + place, split + place, false), [&x])
            });
            let placed = move_axis(&joined(&exchanged, split, axes.len()), split, concat);
            if tiled { joined(&placed, concat, 2) } else { placed }
        })
    })
}

/// The value of another example along the named axis: `perm` lists from whom to whom. Who gets nothing has
/// zeros. See [`PPermute`].
///
/// Throws `Op` (value) if an example sends or gets twice, or is not there, and `Op` (unsupported) for
/// several names.
///
/// ```no_run
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

/// [`ppermute`] on behalf of `function`, along an axis whose size says who sends to whom.
#[track_caller]
fn permute<T: Tree>(
    function: &str,
    x: &T,
    axis_name: AxisNames,
    perm: impl FnOnce(usize) -> Vec<(usize, usize)>,
) -> T {
    let axes = some_axes(function, axis_name);
    let [axis] = axes.as_slice() else {
        let message = format!("sends along one axis, {} are named", axes.len());
        trace::throw_op(OpErrorKind::Unsupported, function, message, Loc::caller())
    };
    let permute =
        PPermute { axis_name: axis.name.clone(), axis_size: axis.size, perm: perm(axis.size) };
    Loc::caller().scope(|| tree::map(x, |x| bind1(permute.clone(), [&vary(x, &tracked(&axes))])))
}

/// The values of the examples along the named axis in another order: example `k` gets that of
/// `perm[k]`. It is [`ppermute`] of a permutation.
///
/// Throws `Op` (value) if `perm` does not have every example once.
///
/// ```no_run
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
            let message = format!("{perm:?} is no permutation of the {size} examples");
            trace::throw_op(OpErrorKind::Value, "pshuffle", message, loc);
        }
        perm.iter().copied().zip(0..size).collect()
    })
}

/// The named axis exchanged with axis `axis` of the array, which has as many elements: [`all_to_all`] in
/// place.
///
/// Throws `Op` (shape) if it has more or fewer.
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
