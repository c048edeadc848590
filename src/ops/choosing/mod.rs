//! Elements chosen by what they hold. How many there are depends on the data, and a traced program
//! has fixed shapes: functions of this kind take the `size` of their result, cut off what is beyond it
//! and fill up what is missing, as JAX's do under `jit`.

mod choices;
mod members;
mod placing;
mod unique;
mod wherever;

pub use choices::{choose, piecewise, select_first};
pub use members::{intersect1d, isin, setdiff1d, setxor1d, union1d};
pub use placing::{place, put, put_along_axis};
pub use unique::{Unique, unique, unique_all, unique_along, unique_counts, unique_inverse};
pub use wherever::{argwhere, compress, extract, flatnonzero, nonzero};
