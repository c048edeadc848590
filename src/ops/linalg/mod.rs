//! Linear algebra: norms, decompositions, systems of equations.
//!
//! The last two axes are matrices, all other axes are a batch. Integers become `f32`.
//! Decompositions reject 16-bit floats, as in JAX; convert them first.

mod decompositions;
mod iterative;
mod matrix_functions;
mod norms;
mod solve;

pub use decompositions::*;
pub use iterative::*;
pub use matrix_functions::*;
pub use norms::*;
pub use solve::*;

use crate::core::{Array, Loc, RuleError, throw_operands};
use crate::ops::swapaxes;
use crate::primitives::conj;

/// Returns the numbers of rows and columns.
fn matrix_sizes(x: &Array) -> (usize, usize) {
    (x.shape()[x.rank() - 2], x.shape()[x.rank() - 1])
}

/// Transposes and conjugates matrices.
#[track_caller]
fn adjoint(x: &Array) -> Array {
    conj(swapaxes(x, -1, -2))
}

#[track_caller]
fn expect_square(name: &str, a: &Array) {
    Loc::caller().scope(|| {
        if a.rank() < 2 || matrix_sizes(a).0 != matrix_sizes(a).1 {
            let error = RuleError::shape(format!("needs square matrices, got {}", a.aval()));
            throw_operands(name, error, &[a]);
        }
    })
}
