//! Householder reflections: the QR decomposition in packed form, products with its orthogonal
//! factor, and reductions to Hessenberg and tridiagonal form.
//!
//! A reflection is `1 − τ v vᴴ`, where `v` has zeros before its head and a one at it. Signs and
//! factors are those of LAPACK: the head becomes real, with the sign opposite to that of the real
//! part of the element.

use super::support::{
    OF_MATRICES, adjoint, adjoint_times, column, diagonals, dot, expect_matrices, expect_square,
    for_indices, index_mask, indices, inexact, outer_product, over_batches, over_batches1,
    over_batches2, row, same_inexact, sizes, with_column, with_row,
};
use oxidax::core::{Loc, RuleError, throw_operands};
use oxidax::linalg::Triangle;
use oxidax::prelude::*;

/// Reflections in the form of LAPACK.
#[derive(Clone, Debug, Tree)]
pub struct Reflectors {
    /// The reduced matrix, with the vectors of the reflections, without their ones, in the place of
    /// the zeros.
    pub packed: Array,
    /// The factors of the reflections.
    pub taus: Array,
}

/// A reflection that maps a vector to a multiple of a unit vector.
struct Reflection {
    v: Array,
    tau: Array,
    /// The element that is left, real.
    beta: Array,
}

/// Returns the reflection with `(1 − τ v vᴴ)ᴴ x = β e`, where `e` is the unit vector of `head`.
/// Elements of `x` before the head are ignored.
fn reflection(x: &Array, head: &Array) -> Reflection {
    let positions = indices(x.size());
    let after = where_(gt(&positions, head), x, 0);
    let alpha = row(x, head);
    // Scaled, so that no square overflows.
    let largest = maximum(reduce_max(&abs(&after), &[0]), abs(&alpha));
    let scale = where_(eq(&largest, 0.0), 1.0, &largest);
    let square = |x: &Array| {
        let scaled = abs(x) / &scale;
        &scaled * &scaled
    };
    let rest = reduce_sum(&square(&after), &[0]);
    let norm = sqrt(&rest + square(&alpha)) * &scale;
    let is_done = match x.dtype().is_complex() {
        true => bitwise_and(eq(&rest, 0.0), eq(imag(&alpha), 0.0)),
        false => eq(&rest, 0.0),
    };
    let signed = where_(signbit(real(&alpha)), &norm, -&norm);
    let beta = where_(&is_done, real(&alpha), signed);
    let wide = |x: &Array| x.astype(alpha.dtype());
    let safe_beta = wide(&where_(&is_done, 1.0, &beta));
    let tau = where_(&is_done, 0.0, (&safe_beta - &alpha) / &safe_beta);
    let divisor = where_(&is_done, 1.0, &alpha - &safe_beta);
    let v = where_(eq(&positions, head), 1.0, &after / divisor);
    Reflection { v, tau, beta }
}

/// Returns the vector of reflection `k` from column `k` of the packed form, with its one in row
/// `k + below`.
fn stored_vector(packed: &Array, k: &Array, below: i32) -> Array {
    let positions = indices(packed.shape()[0]);
    let head = k + below;
    let tail = where_(gt(&positions, &head), column(packed, k), 0);
    where_(eq(&positions, &head), 1.0, tail)
}

/// Returns the QR decomposition of `a`, `[…, m, n]`, as reflections: `r` on and above the diagonal,
/// and the vectors below it. `taus` is `[…, min(m, n)]`.
///
/// [`householder_product`] computes `q`, and [`ormqr`] multiplies by it.
///
/// Throws `Op` for arrays of rank below 2 and for 16-bit dtypes.
#[track_caller]
pub fn geqrf(a: &Array) -> Reflectors {
    Loc::caller().scope(|| {
        let a = inexact(a);
        expect_matrices("geqrf", &a);
        let k = sizes(&a).0.min(sizes(&a).1);
        let (packed, taus) = over_batches2("(m,n)->(m,n),(k)", &[&a], |operands| {
            let a = &operands[0];
            let start = (a.clone(), zeros(([k], a.dtype())));
            for_indices(
                k,
                |j: Array, (a, taus): (Array, Array)| reduce_column(&a, &taus, &j),
                start,
            )
        });
        Reflectors { packed, taus }
    })
}

/// Applies the reflection that clears column `j` below the diagonal, and stores its vector there.
fn reduce_column(a: &Array, taus: &Array, j: &Array) -> (Array, Array) {
    let x = column(a, j);
    let Reflection { v, tau, beta } = reflection(&x, j);
    let (m, n) = sizes(a);
    let later = where_(gt(indices(n), j), adjoint_times(&v, a), 0);
    let a = a - outer_product(&(&v * conj(&tau)), &later);
    let positions = indices(m);
    let beta = beta.astype(a.dtype());
    let stored = where_(eq(&positions, j), beta, where_(gt(&positions, j), &v, &x));
    (with_column(&a, j, &stored), with_row(taus, j, &tau))
}

/// Returns the first `n` columns of the product of reflections with vectors below the diagonal of
/// `a`, `[…, m, n]`, and factors `taus`, `[…, k]`: `[…, m, n]`.
///
/// Throws `Op` (shape) if there are more reflections than columns, or more columns than rows.
#[doc(alias = "orgqr")]
#[track_caller]
pub fn householder_product(a: &Array, taus: &Array) -> Array {
    Loc::caller().scope(|| {
        let [a, taus] = same_inexact([a, taus]);
        expect_reflectors("householder_product", &a, &taus);
        let (m, n) = sizes(&a);
        if n > m {
            let message = format!("needs at least as many rows as columns, got {m} by {n}");
            throw_operands("householder_product", RuleError::shape(message), &[&a]);
        }
        over_batches1("(m,n),(k)->(m,n)", &[&a, &taus], |operands| {
            let identity = eye(([m, n], operands[0].dtype()));
            multiplied(&operands[0], &operands[1], &identity, false)
        })
    })
}

#[track_caller]
fn expect_reflectors(name: &str, a: &Array, taus: &Array) {
    expect_matrices(name, a);
    let (m, n) = sizes(a);
    if taus.shape().last().is_none_or(|&k| k > m.min(n)) {
        let message = format!("{m} by {n} matrices hold no reflections for {}", taus.aval());
        throw_operands(name, RuleError::shape(message), &[a, taus]);
    }
}

/// Returns `q · c`, or `qᴴ · c` if `is_adjoint`, for the product `q` of reflections.
fn multiplied(packed: &Array, taus: &Array, c: &Array, is_adjoint: bool) -> Array {
    let k = taus.size();
    let step = |step: Array, c: Array| {
        let index = if is_adjoint { step } else { k as i32 - 1 - step };
        let v = stored_vector(packed, &index, 0);
        let tau = row(taus, &index);
        let tau = if is_adjoint { conj(&tau) } else { tau };
        &c - outer_product(&(&v * tau), &adjoint_times(&v, &c))
    };
    for_indices(k, step, c.clone())
}

/// The side of the other factor of a product with the matrix of [`ormqr`] and
/// [`qr_multiply`](super::qr_multiply).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProductSide {
    /// `q · c`.
    #[default]
    Left,
    /// `c · q`.
    Right,
}

/// Options of [`ormqr`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrmqrOptions {
    /// The side of `q`. Left by default.
    pub side: ProductSide,
    /// Multiplies by the adjoint of `q`. False by default.
    #[doc(alias = "transpose")]
    pub adjoint: bool,
}

/// Multiplies `c` by the square orthogonal matrix `q`, `[m, m]`, of the reflections with vectors
/// below the diagonal of `a`, `[…, m, n]`, and factors `taus`, `[…, k]`, without forming `q`. `c`
/// is `[…, m, p]` on the right of `q` and `[…, p, m]` on its left.
///
/// Throws `Op` if the shapes do not fit.
#[doc(alias = "unmqr")]
#[track_caller]
pub fn ormqr(a: &Array, taus: &Array, c: &Array, options: OrmqrOptions) -> Array {
    let OrmqrOptions { side, adjoint: is_adjoint } = options;
    Loc::caller().scope(|| {
        let [a, taus, c] = same_inexact([a, taus, c]);
        expect_reflectors("ormqr", &a, &taus);
        expect_matrices("ormqr", &c);
        // c · q is the adjoint of qᴴ · cᴴ.
        let on_left = side == ProductSide::Left;
        let (c, is_adjoint) = if on_left { (c, is_adjoint) } else { (adjoint(&c), !is_adjoint) };
        if sizes(&a).0 != sizes(&c).0 {
            let message = format!("q has {} rows, the other factor {}", sizes(&a).0, sizes(&c).0);
            throw_operands("ormqr", RuleError::shape(message), &[&a, &c]);
        }
        let product = over_batches1("(m,n),(k),(m,p)->(m,p)", &[&a, &taus, &c], |operands| {
            multiplied(&operands[0], &operands[1], &operands[2], is_adjoint)
        });
        if on_left { product } else { adjoint(&product) }
    })
}

/// Returns the QR decomposition with column pivoting as reflections, and the permutation of
/// columns: `i32[n]`.
pub(super) fn pivoted_reflectors(a: &Array) -> Vec<Array> {
    let (m, n) = sizes(a);
    let k = m.min(n);
    let step = |j: Array, (a, taus, order): (Array, Array, Array)| {
        // The column with the largest part at and below row j.
        let is_open = ge(indices(m), &j).expand_dims(1);
        let open = abs(where_(is_open, &a, 0));
        let squares = reduce_sum(&(&open * &open), &[0]);
        let best = argmax(&where_(ge(indices(n), &j), squares, -1.0), 0);
        let (x, y) = (column(&a, &j), column(&a, &best));
        let a = with_column(&with_column(&a, &j, &y), &best, &x);
        let (x, y) = (row(&order, &j), row(&order, &best));
        let order = with_row(&with_row(&order, &j, &y), &best, &x);
        let (a, taus) = reduce_column(&a, &taus, &j);
        (a, taus, order)
    };
    let start = (a.clone(), zeros(([k], a.dtype())), indices(n));
    let (a, taus, order) = for_indices(k, step, start);
    vec![a, taus, order]
}

/// Returns the QR decomposition with column pivoting of `a`, `[…, m, n]`, as reflections, and the
/// permutation of columns, `i32[…, n]`.
#[track_caller]
pub(super) fn geqp3(name: &str, a: &Array) -> (Reflectors, Array) {
    expect_matrices(name, a);
    let mut results =
        over_batches("(m,n)->(m,n),(k),(n)", &[a], |operands| pivoted_reflectors(&operands[0]));
    let order = results.remove(2);
    let taus = results.remove(1);
    (Reflectors { packed: results.remove(0), taus }, order)
}

/// Returns the reduction of `a`, `[…, n, n]`, to Hessenberg form, as reflections: the Hessenberg
/// matrix, and the vectors below its subdiagonal. `taus` is `[…, n − 1]`.
///
/// `q` is the product of the reflections, and `a = q · h · qᴴ`.
///
/// Throws `Op` if the matrices are not square or of a 16-bit dtype.
#[doc(alias = "jax.lax.linalg.hessenberg")]
#[doc(alias = "gehrd")]
#[track_caller]
pub fn hessenberg_reflectors(a: &Array) -> Reflectors {
    Loc::caller().scope(|| {
        let a = inexact(a);
        expect_square("hessenberg", &a);
        let n = sizes(&a).1;
        let (packed, taus) = over_batches2("(n,n)->(n,n),(k)", &[&a], |operands| {
            let a = &operands[0];
            let start = (a.clone(), zeros(([n.max(1) - 1], a.dtype())));
            for_indices(
                n.max(1) - 1,
                |k: Array, (a, taus): (Array, Array)| {
                    let x = column(&a, &k);
                    let head = &k + 1;
                    let Reflection { v, tau, beta } = reflection(&x, &head);
                    let later = where_(gt(indices(n), &k), adjoint_times(&v, &a), 0);
                    let a = &a - outer_product(&(&v * conj(&tau)), &later);
                    // Columns up to k are not changed from the right, because v is zero there.
                    let a = &a - outer_product(&(dot(&a, &v) * &tau), &conj(&v));
                    let positions = indices(n);
                    let beta = beta.astype(a.dtype());
                    let x = where_(gt(&positions, &head), &v, &x);
                    let stored = where_(eq(&positions, &head), beta, x);
                    (with_column(&a, &k, &stored), with_row(&taus, &k, &tau))
                },
                start,
            )
        });
        Reflectors { packed, taus }
    })
}

/// Returns the Hessenberg form `h` of `a`, `[…, n, n]`, which is similar to `a` and zero below its
/// subdiagonal.
///
/// Throws `Op` if the matrices are not square or of a 16-bit dtype.
#[track_caller]
pub fn hessenberg(a: &Array) -> Array {
    Loc::caller().scope(|| triu(&hessenberg_reflectors(a).packed, -1))
}

/// Returns the Hessenberg form `h` of `a` and the unitary `q` with `a = q · h · qᴴ`. Throws as
/// [`hessenberg`].
#[doc(alias = "calc_q")]
#[track_caller]
pub fn hessenberg_with_q(a: &Array) -> (Array, Array) {
    Loc::caller().scope(|| {
        let Reflectors { packed, taus } = hessenberg_reflectors(a);
        let (n, dtype) = (sizes(&packed).1, packed.dtype());
        let q = over_batches1("(n,n),(k)->(n,n)", &[&packed, &taus], |operands| {
            let step = |step: Array, q: Array| {
                let k = n as i32 - 2 - step;
                let v = stored_vector(&operands[0], &k, 1);
                let tau = row(&operands[1], &k);
                &q - outer_product(&(&v * tau), &adjoint_times(&v, &q))
            };
            for_indices(n.max(1) - 1, step, eye((n, dtype)))
        });
        (triu(&packed, -1), q)
    })
}

/// A Hermitian matrix reduced to tridiagonal form.
#[derive(Clone, Debug, Tree)]
pub struct TridiagonalForm {
    /// The tridiagonal matrix, with the vectors of the reflections in the triangle that was read:
    /// `[…, n, n]`.
    pub packed: Array,
    /// The diagonal: `[…, n]`, real.
    pub d: Array,
    /// The diagonal beside it: `[…, n − 1]`, real.
    pub e: Array,
    /// The factors of the reflections: `[…, n − 1]`.
    pub taus: Array,
}

/// Reduces Hermitian `a`, `[…, n, n]`, to tridiagonal form. One triangle of `a` is read, and holds
/// the vectors of the reflections beyond the diagonal beside the main one.
///
/// Throws `Op` if the matrices are not square or of a 16-bit dtype.
#[track_caller]
pub fn tridiagonal(a: &Array, triangle: Triangle) -> TridiagonalForm {
    Loc::caller().scope(|| {
        let a = inexact(a);
        expect_square("tridiagonal", &a);
        let n = sizes(&a).1;
        // The upper form is the lower form of the matrix with rows and columns in reverse order.
        let is_lower = triangle == Triangle::Lower;
        let turned = |x: &Array| if is_lower { x.clone() } else { flip(x, axes([-2, -1])) };
        let read = turned(&a);
        let strict = tril(&read, -1);
        let is_diagonal = index_mask((n, n), |row, column| eq(row, column));
        let diagonal = real(&read).astype(a.dtype());
        let full = where_(is_diagonal, diagonal, &strict + adjoint(&strict));
        let Reflectors { packed, taus } = hessenberg_reflectors(&full);
        let d = real(diagonals(&packed));
        let below = DiagonalOptions { offset: -1, ..OF_MATRICES };
        let e = real(diagonal_with(&packed, below));
        let kept = tril(&packed, 0);
        let above = index_mask((n, n), |row, column| gt(column, row));
        let packed = turned(&where_(above, &read, kept));
        let reversed = |x: &Array| if is_lower { x.clone() } else { flip(x, -1) };
        TridiagonalForm { packed, d: reversed(&d), e: reversed(&e), taus: reversed(&taus) }
    })
}
