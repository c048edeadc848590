//! Reverse, pad, concatenate, split, squeeze and expand dimensions.

mod concatenate;
mod pad;
mod rev;
mod split_sizes;
pub use concatenate::{Concatenate, concatenate};
pub(crate) use pad::resize_axis;
pub use pad::{Pad, PaddingDim, lax_pad};
pub use rev::{Rev, rev};
pub use split_sizes::{SplitSizes, split_sizes};

use super::rules::resolve_axis;
use super::shape::reshape_to;
use crate::core::{Array, RuleError, RuleResult, Shape, trace};

/// Resolves axes of an array of rank `rank` to sorted, distinct indices.
fn distinct_axes(axes: &[isize], rank: usize) -> RuleResult<Vec<usize>> {
    let mut positions: Vec<usize> =
        axes.iter().map(|&axis| resolve_axis(axis, rank)).collect::<RuleResult<_>>()?;
    positions.sort_unstable();
    match positions.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(RuleError::shape(format!("axes {axes:?} name axis {} twice", pair[0]))),
        None => Ok(positions),
    }
}

/// Removes the given axes of size 1. Negative axes count from the back. A
/// [`Reshape`](super::Reshape).
/// [`Reshape`](super::Reshape).
///
/// Throws `Op` (shape) if an axis is out of range, repeated, or has another size.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| squeeze(&x, &[0, -1]), Aval::new(DType::F32, [1, 5, 1]))?;
/// assert_eq!(y.aval().to_string(), "f32[5]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn squeeze(x: &Array, axes: &[isize]) -> Array {
    let remaining = distinct_axes(axes, x.rank()).and_then(|dropped| {
        match dropped.iter().find(|&&axis| x.shape()[axis] != 1) {
            Some(&axis) => Err(RuleError::shape(format!(
                "axis {axis} of {} has size {}, not 1",
                x.shape(),
                x.shape()[axis]
            ))),
            None => {
                let remaining = (0..x.rank()).filter(|axis| !dropped.contains(axis));
                Ok(remaining.map(|axis| x.shape()[axis]).collect::<Shape>())
            }
        }
    });
    match remaining {
        Ok(shape) => reshape_to(x, &shape),
        Err(error) => trace::throw_operands("squeeze", error, &[x]),
    }
}

/// Inserts axes of size 1 at the given indices of the result. Negative indices count from its back.
/// A [`Reshape`](super::Reshape).
///
/// Throws `Op` (shape) if an index is out of range or repeated.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| expand_dims(&x, &[0, -1]), Aval::new(DType::F32, [5]))?;
/// assert_eq!(y.aval().to_string(), "f32[1,5,1]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "unsqueeze")]
#[track_caller]
pub fn expand_dims(x: &Array, axes: &[isize]) -> Array {
    let rank = x.rank() + axes.len();
    match distinct_axes(axes, rank) {
        Ok(added) => {
            let mut sizes = x.shape().iter().copied();
            let size = |axis| {
                if added.contains(&axis) {
                    1
                } else {
                    sizes.next().expect("as many axes are not added as the operand has")
                }
            };
            reshape_to(x, &(0..rank).map(size).collect())
        }
        Err(error) => trace::throw_operands("expand_dims", error, &[x]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::trace::{Mode, Tracing};
    use crate::core::{Aval, DType, catch};
    use expect_test::expect;

    #[test]
    fn axes_of_size_one_come_and_go() {
        let tracing = Tracing::begin(Mode::All, Some("test".into()));
        let x = tracing.input(Aval::new(DType::F32, [1, 5]));
        assert_eq!(expand_dims(&x, &[-1, 0]).shape().dims(), [1, 1, 5, 1]);
        assert_eq!(squeeze(&x, &[0]).shape().dims(), [5]);
        let error = catch(|| squeeze(&x, &[1])).unwrap_err().to_string();
        let first = error.lines().next().unwrap_or_default();
        expect!["error[shape]: squeeze: axis 1 of [1,5] has size 5, not 1"].assert_eq(first);
        let error = catch(|| expand_dims(&x, &[0, -4])).unwrap_err().to_string();
        let first = error.lines().next().unwrap_or_default();
        expect!["error[shape]: expand_dims: axes [0, -4] name axis 0 twice"].assert_eq(first);
    }
}
