//! Selection of elements by their values. The number of selected elements depends on the data,
//! while shapes are static. These functions therefore take the `size` of their result, drop further
//! elements and pad with a fill value, as JAX's do under `jit`.

mod nonzero;
mod put;
mod select;
mod sets;
mod trim;
mod unique;

pub use nonzero::*;
pub use put::*;
pub use select::*;
pub use sets::*;
pub use trim::*;
pub use unique::*;
