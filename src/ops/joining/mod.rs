//! Putting arrays together, taking them apart, and turning them.

mod blocks;
mod edits;
mod pieces;
mod turns;

pub use blocks::{
    append, atleast_1d, atleast_2d, atleast_3d, block, broadcast_arrays, broadcast_shapes,
    column_stack, dstack, hstack, vstack,
};
pub use edits::{delete, ediff1d, insert, resize};
pub use pieces::{array_split, dsplit, hsplit, unstack, vsplit};
pub use turns::{fliplr, flipud, matrix_transpose, rollaxis, rot90};
