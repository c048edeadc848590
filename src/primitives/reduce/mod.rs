mod arg;
mod axes;
mod logical;
mod sum;

pub use arg::{ArgMax, ArgMin, argmax, argmin};
pub use logical::{ReduceAnd, ReduceOr, ReduceXor, reduce_and, reduce_or, reduce_xor};
pub use sum::{ReduceSum, reduce_sum};

pub(super) use arg::{exemplars_argmax, exemplars_argmin};
pub(crate) use axes::resolve_axes;
pub(super) use logical::{exemplars_and, exemplars_or, exemplars_xor};
pub(super) use sum::exemplars_sum;
