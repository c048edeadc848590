//! Elements chosen by what they hold. How many there are depends on the data, and a traced program
//! has fixed shapes: functions of this kind take the `size` of their result, cut off what is beyond it
//! and fill up what is missing, as JAX's do under `jit`.

mod nonzero;
mod put;
mod select;
mod sets;
mod unique;

pub use nonzero::{argwhere, compress, extract, flatnonzero, nonzero};
pub use put::{place, put, put_along_axis};
pub use select::{choose, piecewise, select_first};
pub use sets::{intersect1d, isin, setdiff1d, setxor1d, union1d};
pub use unique::{Unique, unique, unique_all, unique_along, unique_counts, unique_inverse};
