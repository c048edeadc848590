//! Diagonals, triangles and the positions of elements.

mod diagonals;
mod places;
mod positions;

pub use diagonals::{diag, diagflat, fill_diagonal, vander};
pub use places::{
    diag_indices, diag_indices_from, fromfunction, indices, ix_, mask_indices, tril_indices,
    tril_indices_from, triu_indices, triu_indices_from,
};
pub use positions::{IndexMode, ravel_multi_index, unravel_index};

pub(super) use places::first;
pub(super) use positions::{cycled, wide};
