//! Derivatives of eigenvalues and eigenvectors.

use super::super::lu::general_solve;
use super::super::matrices::{as_columns, as_rows, diagonal, identity, product};
use super::vectors::pick;
use crate::core::Array;
use crate::primitives::{complex, conj, div, eq, imag, mul, neg, real, reduce_sum, sub, where_};

/// Returns the tangent of the eigenvalues, from eigenvectors.
pub(super) fn of_values(v: &Array, da: &Array) -> Array {
    diagonal(&product(&general_solve(v, da), v))
}

/// Returns the tangents of eigenvalues and eigenvectors.
pub(super) fn of_vectors(w: &Array, v: &Array, da: &Array) -> (Array, Array) {
    let c = product(&general_solve(v, da), v);
    let dw = diagonal(&c);
    let gaps = sub(as_columns(w, &c), as_rows(w, &c));
    let same = eq(real(identity(&c)), 1);
    let factor = where_(&same, 0, div(1.0, where_(&same, 1, gaps)));
    let moved = product(v, &mul(&factor, &c));
    // The gauge: the length of a vector stays 1, and its largest element stays real.
    let axis = [v.rank() as isize - 2];
    let longer = neg(reduce_sum(&real(mul(conj(v), &moved)), &axis));
    let turned = neg(div(imag(pick(v, &moved)), real(pick(v, v))));
    let along = complex(&longer, &turned);
    (dw, &moved + v * as_columns(&along, v))
}
