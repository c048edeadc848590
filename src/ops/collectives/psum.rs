//! Collective reductions, and the index along a named axis.

use super::some_axes;
use crate::core::named_axes::{NamedAxis, named_axes, tracked};
use crate::core::{Array, AxisNames, DType, Loc, bind1};
use crate::primitives::{AxisIndex, PMax, PMin, PSum, add, convert_element_type, div, mul, vary};
use crate::tree::{self, Tree};

/// Returns the names of axes.
fn names(axes: &[NamedAxis]) -> Vec<String> {
    axes.iter().map(|axis| axis.name.clone()).collect()
}

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
    let axes = named_axes("psum", &axis_name.into());
    Loc::caller().scope(|| tree::map(x, |x| sum_of(x, &axes)))
}

/// Sums one leaf.
fn sum_of(x: &Array, axes: &[NamedAxis]) -> Array {
    let x = if x.dtype().is_bool() { convert_element_type(x, DType::I32) } else { x.clone() };
    if axes.is_empty() {
        return x;
    }
    bind1(PSum { axis_names: names(axes) }, [&vary(&x, &tracked(axes))])
}

/// Returns the mean of each leaf along the named axes: [`psum`] divided by the size of the axes.
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
    let axes = named_axes("pmean", &axis_name.into());
    let size: usize = axes.iter().map(|axis| axis.size).product();
    Loc::caller().scope(|| tree::map(x, |x| div(sum_of(x, &axes), size as i64)))
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
    let axes = some_axes("pmax", axis_name.into());
    Loc::caller().scope(|| {
        tree::map(x, |x| bind1(PMax { axis_names: names(&axes) }, [&vary(x, &tracked(&axes))]))
    })
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
    let axes = some_axes("pmin", axis_name.into());
    Loc::caller().scope(|| {
        tree::map(x, |x| bind1(PMin { axis_names: names(&axes) }, [&vary(x, &tracked(&axes))]))
    })
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
    let axes = some_axes("axis_index", axis_name.into());
    let (first, rest) = axes.split_first().expect("there is one at least");
    let index = |axis: &NamedAxis| {
        bind1(AxisIndex { axis_name: axis.name.clone(), tracked: axis.tracked }, [])
    };
    Loc::caller().scope(|| {
        rest.iter()
            .fold(index(first), |slower, axis| add(mul(&slower, axis.size as i32), index(axis)))
    })
}
