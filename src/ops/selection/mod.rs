//! Elements chosen by what they hold. How many there are depends on the data, and a traced program
//! has fixed shapes: functions of this kind take the `size` of their result, cut off what is beyond it
//! and fill up what is missing, as JAX's do under `jit`.

mod nonzero;
mod put;
mod select;
mod sets;
mod unique;

pub use nonzero::*;
pub use put::*;
pub use select::*;
pub use sets::*;
pub use unique::*;
