//! Indexing: [`Array::index`](crate::core::Array::index) with the [`i!`](crate::i) macro, and
//! [`take`], [`take_along_axis`].

mod at;
mod index;
mod mask;
mod options;
mod resolve;
mod rows;
mod take;

pub use at::At;
pub use index::{Ellipsis, Index, NewAxis, strided};
pub use options::{IndexOptions, TakeMode, TakeOptions};
pub use rows::ArrayRows;
pub use take::{take, take_along_axis, take_along_axis_with, take_with};
