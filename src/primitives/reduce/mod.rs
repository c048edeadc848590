//! Reductions along axes: sums, products, extrema, logic, argmax and argmin.

mod arg;
mod axes;
mod extremum;
mod logical;
mod prod;
mod sum;

pub use arg::{ArgMax, ArgMin, ArgmaxOptions, argmax, argmax_with, argmin, argmin_with};
pub(crate) use axes::{highest, lowest, resolve_axes};
pub(super) use extremum::choose;
pub use extremum::{ReduceMax, ReduceMin, reduce_max, reduce_min};
pub use logical::{ReduceAnd, ReduceOr, ReduceXor, reduce_and, reduce_or, reduce_xor};
pub use prod::{ReduceProd, reduce_prod};
pub use sum::{ReduceSum, reduce_sum};
