//! Running totals along an axis: sums, products, extrema, and first-order linear recurrences, which
//! are the derivatives of the others.
//!
//! On CPU they are lowered to one loop along the axis, elsewhere to a tree of about `2·log2(n)`
//! steps over all elements.

mod extremum;
mod logsumexp;
mod loops;
mod prod;
mod recurrence;
mod sum;

pub use extremum::{Cummax, Cummin, cummax, cummax_with, cummin, cummin_with};
pub use logsumexp::{Cumlogsumexp, cumlogsumexp, cumlogsumexp_with};
pub use prod::{Cumprod, cumprod, cumprod_with};
pub use recurrence::{LinearRecurrence, linear_recurrence, linear_recurrence_with};
pub use sum::{Cumsum, cumsum, cumsum_with};

use super::rules::{arity, resolve_axis};
use super::structural::{PaddingDim, lax_pad};
use crate::core::{Array, Aval, RuleResult, trace};
use crate::{ensure_dtype, ensure_shape};

/// Options of running totals: [`cumsum_with`], [`cumprod_with`], [`cummax_with`], [`cummin_with`],
/// [`cumlogsumexp_with`] and [`linear_recurrence_with`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunningTotalOptions {
    /// Runs from the end of the axis. The default is false.
    pub reverse: bool,
}

/// Returns the type of a running total of a numeric operand: the type of the operand.
fn total_type(operands: &[Aval], axis: usize) -> RuleResult<Vec<Aval>> {
    let [x] = arity(operands)?;
    ensure_dtype!(!x.dtype.is_bool(), "needs a numeric operand, got {}", x.dtype);
    ensure_along(x, axis)?;
    Ok(vec![x.clone()])
}

fn ensure_along(x: &Aval, axis: usize) -> RuleResult<()> {
    ensure_shape!(axis < x.rank(), "axis {axis} must be less than the rank {} of {x}", x.rank());
    Ok(())
}

/// Resolves an axis, or throws an error in the name of the function.
#[track_caller]
fn axis_of(name: &str, x: &Array, axis: isize) -> usize {
    match resolve_axis(axis, x.rank()) {
        Ok(axis) => axis,
        Err(error) => trace::throw_operands(name, error, &[x]),
    }
}

/// Returns the predecessor of each element along the axis, from the back if `reverse`. The first is
/// `fill`.
fn predecessors(x: &Array, axis: usize, reverse: bool, fill: f64) -> Array {
    let mut config = vec![PaddingDim::default(); x.rank()];
    let (low, high) = if reverse { (-1, 1) } else { (1, -1) };
    config[axis] = PaddingDim { low, high, interior: 0 };
    match x.shape()[axis] {
        0 => x.clone(),
        _ if x.dtype().is_integer() => lax_pad(x, fill as i64, &config),
        _ => lax_pad(x, fill, &config),
    }
}
