//! Functions that join, split, repeat and rearrange arrays.

mod block;
mod counted;
mod differences;
mod insert_delete;
mod repeat;
mod roll_flip;
mod split;
mod stack;

pub use block::{BlockRows, NestedBlocks, block};
pub use counted::{RepeatOptions, Repeats, RollShift, roll};
pub use differences::{DiffOptions, Ediff1dOptions, diff, diff_with, ediff1d, ediff1d_with};
pub use insert_delete::{delete, insert};
pub use repeat::{repeat, repeat_with, resize, tile};
pub use roll_flip::{flip, fliplr, flipud, matrix_transpose, rollaxis, rot90, swapaxes};
pub use split::{Sections, array_split, dsplit, hsplit, split, unstack, vsplit};
pub use stack::{
    append, atleast_1d, atleast_2d, atleast_3d, broadcast_arrays, broadcast_shapes, column_stack,
    dstack, hstack, stack, vstack,
};
