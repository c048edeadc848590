//! Diagonals, triangles and arrays of indices.

mod diagonals;
mod index_arrays;
mod ravel_index;
mod triangles;

pub use diagonals::{
    FillDiagonalOptions, VanderOptions, diag, diagflat, fill_diagonal, fill_diagonal_with, vander,
    vander_with,
};
pub use index_arrays::{
    IndicesOptions, diag_indices, diag_indices_from, fromfunction, indices, indices_with, ix_,
    mask_indices, sparse_indices, tril_indices, tril_indices_from, triu_indices, triu_indices_from,
};
pub use ravel_index::{IndexMode, ravel_multi_index, unravel_index};
pub use triangles::{DiagonalOptions, diagonal, diagonal_with, trace, trace_with, tri, tril, triu};

pub(super) use index_arrays::first;
pub(super) use ravel_index::{cycled, wide};
pub(super) use triangles::diagonal_of;
