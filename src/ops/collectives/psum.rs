//! Collective reductions, and the index along a named axis.

use super::{GroupedAxes, refuse_groups};
use crate::core::named_axes::{NamedAxis, tracked};
use crate::core::{Array, AxisNames, DType, Loc, bind1};
use crate::primitives::{
    AxisIndex, PMax, PMin, PSum, add, convert_element_type, div, full, mul, vary,
};
use crate::tree::{self, Tree};

/// Sums each leaf along the named axes. Leaves are `{int, float, complex}[…]`, or `bool`, which is
/// summed as
/// `i32`. The result is the same for all devices or examples.
///
/// The derivative is that of the sum of all results: for `n` examples the gradient of `psum(x²)` is
/// `n · 2x`, inside and outside of `vmap`. See [`PSum`].
///
/// ```
/// use oxidax::prelude::*;
/// let x = Array::from_slice(&[1.0f32, 2.0, 5.0], [3])?;
/// let shares = vmap(|x: Array| &x / psum(&x, "i")).axis_name("i").apply(&x);
/// assert_eq!(shares.to_vec::<f32>()?, [0.125, 0.25, 0.625]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn psum<T: Tree>(x: &T, axis_name: impl Into<AxisNames>) -> T {
    let axes = GroupedAxes::of("psum", &axis_name.into());
    Loc::caller().scope(|| tree::map(x, |x| sum_of(x, &axes)))
}

/// Sums one leaf.
fn sum_of(x: &Array, axes: &GroupedAxes) -> Array {
    let x = if x.dtype().is_bool() { convert_element_type(x, DType::I32) } else { x.clone() };
    if axes.axes.is_empty() {
        return x;
    }
    let sum = PSum { axis_names: axes.names(), axis_index_groups: axes.of_reduction() };
    bind1(sum, [&vary(&x, &tracked(&axes.axes))])
}

/// Returns the mean of each leaf along the named axes: [`psum`] divided by the number of summands.
/// Integers and `bool` become floats.
///
/// ```
/// use oxidax::prelude::*;
/// let x = Array::from_slice(&[1.0f32, 2.0, 6.0], [3])?;
/// let mean = vmap(|x: Array| pmean(&x, "i")).axis_name("i").out_axes([None]).apply(&x);
/// assert_eq!(mean.item::<f32>()?, 3.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn pmean<T: Tree>(x: &T, axis_name: impl Into<AxisNames>) -> T {
    let axes = GroupedAxes::of("pmean", &axis_name.into());
    Loc::caller().scope(|| {
        tree::map(x, |x| match axes.common_size() {
            Some(size) => div(sum_of(x, &axes), size as i64),
            None => {
                // Each example divides by the size of its own group.
                let size = sum_of(&full([], 1), &axes);
                let sum = sum_of(x, &axes);
                let dtype = if sum.dtype().is_inexact() { sum.dtype() } else { DType::F32 };
                div(&sum, convert_element_type(&size, dtype))
            }
        })
    })
}

/// Returns the maximum of each leaf along the named axes, for any dtype. Equal maxima share the
/// derivative. See [`PMax`].
///
/// ```
/// use oxidax::prelude::*;
/// let x = Array::from_slice(&[1.0f32, 4.0, 2.0], [3])?;
/// let below = vmap(|x: Array| &x - pmax(&x, "i")).axis_name("i").apply(&x);
/// assert_eq!(below.to_vec::<f32>()?, [-3.0, 0.0, -2.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn pmax<T: Tree>(x: &T, axis_name: impl Into<AxisNames>) -> T {
    let axes = GroupedAxes::some("pmax", &axis_name.into());
    let largest = PMax { axis_names: axes.names(), axis_index_groups: axes.of_reduction() };
    Loc::caller()
        .scope(|| tree::map(x, |x| bind1(largest.clone(), [&vary(x, &tracked(&axes.axes))])))
}

/// Returns the minimum of each leaf along the named axes, as [`pmax`]. See [`PMin`].
///
/// ```
/// use oxidax::prelude::*;
/// let smallest = |x: Array| pmin(&x, ["rows", "columns"]);
/// let each = move |x: Array| vmap(smallest).axis_name("columns").apply(x);
/// let all = move |x: Array| vmap(each).axis_name("rows").apply(x);
/// assert_eq!(eval_shape(all, Aval::new(DType::F32, [2, 3]))?.shape().dims(), [2, 3]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn pmin<T: Tree>(x: &T, axis_name: impl Into<AxisNames>) -> T {
    let axes = GroupedAxes::some("pmin", &axis_name.into());
    let smallest = PMin { axis_names: axes.names(), axis_index_groups: axes.of_reduction() };
    Loc::caller()
        .scope(|| tree::map(x, |x| bind1(smallest.clone(), [&vary(x, &tracked(&axes.axes))])))
}

/// Returns the index of the device or example along the named axes, `i32[]`. See [`AxisIndex`].
///
/// ```
/// use oxidax::prelude::*;
/// let x = Array::from_slice(&[5.0f32, 5.0, 5.0], [3])?;
/// let scaled = vmap(|x: Array| &x * axis_index("i")).axis_name("i").apply(&x);
/// assert_eq!(scaled.to_vec::<f32>()?, [0.0, 5.0, 10.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn axis_index(axis_name: impl Into<AxisNames>) -> Array {
    let names = axis_name.into();
    refuse_groups("axis_index", &names);
    let axes = GroupedAxes::some("axis_index", &names).axes;
    let (first, rest) = axes.split_first().expect("there is one at least");
    let index = |axis: &NamedAxis| {
        bind1(AxisIndex { axis_name: axis.name.clone(), tracked: axis.tracked }, [])
    };
    Loc::caller().scope(|| {
        rest.iter()
            .fold(index(first), |slower, axis| add(mul(&slower, axis.size as i32), index(axis)))
    })
}
