//! One member's value for all, and values from member to member in two halves.

use super::exchange::ppermute;
use super::psum::{axis_index, psum};
use super::{GroupedAxes, refuse_groups};
use crate::core::{AxisNames, Loc, OpErrorKind, trace};
use crate::primitives::{convert_element_type, eq, where_, zeros_like};
use crate::tree::{self, Tree};

/// Replaces each leaf by that of the member `source` along the named axes. Indices along several
/// axes are linear, and the first axis varies slowest. The result is the same for all members.
///
/// The value is masked elsewhere and summed, on every platform. The derivative is that of the sum:
/// the gradient of the source is the sum of all cotangents, and that of the others is zero.
///
/// Throws `Op` (value) if `source` is out of range.
///
/// ```
/// use oxidax::prelude::*;
/// let x = array![1.0, 2.0, 5.0];
/// let same = vmap(|x: Array| pbroadcast(&x, "i", 1)).axis_name("i").apply(&x);
/// assert_eq!(same.to_vec::<f32>()?, [2.0, 2.0, 2.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn pbroadcast<T: Tree>(x: &T, axis_name: impl Into<AxisNames>, source: usize) -> T {
    let axis_name = axis_name.into();
    refuse_groups("pbroadcast", &axis_name);
    let size: usize = GroupedAxes::some("pbroadcast", &axis_name).sizes().iter().product();
    if source >= size {
        let message = format!("the source is {source}, the axes have {size} members");
        trace::throw_op(OpErrorKind::Value, "pbroadcast", message, Loc::caller());
    }
    Loc::caller().scope(|| {
        let is_source = eq(axis_index(axis_name.clone()), source as i64);
        tree::map(x, |x| {
            let sum = psum(&where_(&is_source, x, zeros_like(x)), axis_name.clone());
            convert_element_type(&sum, x.dtype())
        })
    })
}

/// Values on their way from member to member: the result of [`psend`], from which [`precv`] takes
/// them.
#[derive(Clone, Debug)]
#[must_use = "values that are sent arrive with `precv`"]
pub struct SendToken<T> {
    values: T,
    axis_name: AxisNames,
    perm: Vec<(usize, usize)>,
}

/// Sends each leaf along the named axes: `perm` lists pairs of source and destination, as for
/// [`ppermute`]. [`precv`] receives them.
///
/// The two halves are one collective permutation on every platform, so that they cannot deadlock,
/// and every transform applies. The compiler decides when it runs: work between the halves that
/// does not need the values may overlap with it. JAX has these functions on GPUs only.
///
/// Throws `Op` (value) if an index occurs twice as source or destination or is out of range.
///
/// ```
/// use oxidax::prelude::*;
/// let around = [(0, 1), (1, 2), (2, 0)];
/// let step = move |x: Array| {
///     let token = psend(&x, "i", &around);
///     let own = x.square();
///     own + precv(token, "i", &around)
/// };
/// let y = vmap(step).axis_name("i").apply(&array![1.0, 2.0, 3.0]);
/// assert_eq!(y.to_vec::<f32>()?, [4.0, 5.0, 11.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn psend<T: Tree>(
    x: &T,
    axis_name: impl Into<AxisNames>,
    perm: &[(usize, usize)],
) -> SendToken<T> {
    let axis_name = axis_name.into();
    let values = ppermute(x, axis_name.clone(), perm);
    SendToken { values, axis_name, perm: perm.to_vec() }
}

/// Receives the values of a [`psend`] with the same axes and pairs. Members that are not a
/// destination get zeros.
///
/// Throws `Op` (value) if the axes or pairs differ from those of the send.
#[track_caller]
pub fn precv<T: Tree>(
    token: SendToken<T>,
    axis_name: impl Into<AxisNames>,
    perm: &[(usize, usize)],
) -> T {
    let axis_name = axis_name.into();
    if axis_name != token.axis_name || perm != token.perm {
        let message = format!(
            "the values were sent along {:?} by {:?}, and are received along {axis_name:?} by \
             {perm:?}",
            token.axis_name, token.perm
        );
        trace::throw_op(OpErrorKind::Value, "precv", message, Loc::caller());
    }
    token.values
}
