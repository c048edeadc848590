//! The real Schur decomposition of one real matrix.

use super::householder::hessenberg_with_q;
use super::schur::{Sweeps, element, rotated_columns, rotated_rows};
use super::support::{index_mask, outer_product, sizes};
use oxidax::prelude::*;

/// Returns `t`, with standardized blocks of at most two rows, and orthogonal `z`.
pub(super) fn decomposed(a: &Array) -> (Array, Array) {
    let n = sizes(a).1;
    if n < 2 {
        return (a.clone(), ones_like(a));
    }
    let (t, z) = if n == 2 { hessenberg_with_q(a) } else { reduced(a) };
    fori_loop(0, n - 1, standardize, (t, z))
}

/// Sweeps until no block has more than two rows.
fn reduced(a: &Array) -> (Array, Array) {
    let is_open =
        |sweeps: &Sweeps| bitwise_and(gt(last_of_large_block(&sweeps.open), 0), sweeps.may_go_on());
    let end = while_loop(is_open, sweep, Sweeps::start(a));
    (triu(&end.t, -1), end.z)
}

/// Returns the last row of the last block of three or more rows; 0 if there is none.
fn last_of_large_block(open: &Array) -> Array {
    let n = open.size() as isize;
    let both = bitwise_and(slice_in_dim(open, 0, n - 1, 1, 0), slice_in_dim(open, 1, n, 1, 0));
    reduce_max(&where_(both, iota(DType::I32, n as usize - 1) + 2, 0), &[0])
}

/// Sweeps the last large block with the two eigenvalues of its last two rows as shifts, which may
/// be a complex pair. The reflections of three rows keep the matrix real.
///
/// Reference: Francis, "The QR transformation, part 2" (1962).
fn sweep(sweeps: &Sweeps) -> Sweeps {
    let Sweeps { t, z, open, .. } = sweeps;
    let last = last_of_large_block(open);
    let first = sweeps.first(&last);
    let at = |i: &Array, j: &Array| element(t, i, j);
    let before = &last - 1;
    let (second, third) = (&first + 1, &first + 2);
    let trace = at(&before, &before) + at(&last, &last);
    let determinant =
        at(&before, &before) * at(&last, &last) - at(&before, &last) * at(&last, &before);
    let aside = abs(at(&last, &before)) + abs(at(&before, &(&last - 2)));
    let is_exceptional = sweeps.is_exceptional();
    let trace = where_(&is_exceptional, &aside * 1.5, trace);
    let determinant = where_(&is_exceptional, &aside * &aside, determinant);
    let corner = at(&first, &first);
    let x = &corner * &corner + at(&first, &second) * at(&second, &first) - &trace * &corner
        + determinant;
    let y = at(&second, &first) * (&corner + at(&second, &second) - &trace);
    let w = at(&second, &first) * at(&third, &second);
    // A row and column of zeros, so that the last reflection, of two rows, has a third one too.
    let n = sizes(t).1;
    let padded = |m: &Array| pad(m, [(0, 1), (0, 1)]);
    let chase = |k: Array, (t, z): (Array, Array)| {
        let previous = maximum(&k - 1, 0);
        let begins = eq(&k, &first);
        let below = |offset: i32| element(&t, &(&k + offset), &previous);
        let in_block = le(&k + 2, &last);
        let x = where_(&begins, &x, below(0));
        let y = where_(&begins, &y, below(1));
        let w = where_(&in_block, where_(&begins, &w, below(2)), 0.0);
        let (v, factor) = reflection_of_three(&x, &y, &w);
        let rows = dynamic_slice_in_dim(&t, &k, 3, 0);
        let scaled = &v * &factor;
        let rows = &rows - outer_product(&scaled, &v.matmul(&rows));
        let t = dynamic_update_slice_in_dim(&t, &rows, &k, 0);
        // The elements that the reflection eliminates become exactly zero.
        let gone =
            index_mask(sizes(&t), |row, column| bitwise_and(eq(column, &previous), gt(row, &k)));
        let t = where_(bitwise_and(gone, bitwise_not(begins)), 0.0, t);
        let right = |m: &Array| {
            let columns = dynamic_slice_in_dim(m, &k, 3, 1);
            let columns = &columns - outer_product(&columns.matmul(&v), &scaled);
            dynamic_update_slice_in_dim(m, &columns, &k, 1)
        };
        (right(&t), right(&z))
    };
    let (t, z) = fori_loop(&first, &last, chase, (padded(t), padded(z)));
    let n = n as isize;
    let cut = |m: &Array| slice_in_dim(&slice_in_dim(m, 0, n, 1, 0), 0, n, 1, 1);
    sweeps.next(&cut(&t), cut(&z), last)
}

/// Returns `v` and the factor of the reflection `1 − factor · v vᵀ` that maps `(x, y, w)` to a
/// multiple of the first unit vector.
fn reflection_of_three(x: &Array, y: &Array, w: &Array) -> (Array, Array) {
    let v = stack([x, y, w], 0);
    let largest = abs(&v).max();
    let is_zero = eq(&largest, 0.0);
    let v = &v / where_(&is_zero, 1.0, &largest);
    let head = v.index(i![0]);
    let length = sqrt((&v * &v).sum());
    // Away from the first element, so that nothing cancels.
    let v = &v
        + where_(signbit(&head), -&length, length) * eq(iota(DType::I32, 3), 0).astype(v.dtype());
    let square = (&v * &v).sum();
    let factor = where_(&is_zero, 0.0, 2.0 / where_(&is_zero, 1.0, square));
    (v, factor)
}

/// Rotates the block of rows `k` and `k + 1`, if it is one: to a triangle if its eigenvalues are
/// real, to equal elements on the diagonal if they are complex.
fn standardize(k: Array, (t, z): (Array, Array)) -> (Array, Array) {
    let next = &k + 1;
    let (a, b) = (element(&t, &k, &k), element(&t, &k, &next));
    let (c, d) = (element(&t, &next, &k), element(&t, &next, &next));
    let is_block = ne(&c, 0.0);
    let half = (&a - &d) * 0.5;
    let discriminant = &half * &half + &b * &c;
    let is_real = ge(&discriminant, 0.0);
    // Real eigenvalues: the first column is an eigenvector of the one further from d.
    let root = sqrt(maximum(&discriminant, 0.0));
    let z_real = &half + where_(signbit(&half), -&root, root);
    let length = hypot(&c, &z_real);
    let safe = where_(eq(&length, 0.0), 1.0, &length);
    let (cosine_real, sine_real) = (&z_real / &safe, &c / &safe);
    // Complex eigenvalues: half the angle that makes the diagonal elements equal.
    let sum = &b + &c;
    let length = hypot(&sum, &half * 2.0);
    let safe = where_(eq(&length, 0.0), 1.0, &length);
    let cosine = sqrt((abs(&sum) / &safe + 1.0) * 0.5);
    let cosine = where_(eq(&length, 0.0), 1.0, cosine);
    let sine = -(&half / (&safe * &cosine)) * where_(signbit(&sum), -1.0, 1.0);
    let pick = |real: &Array, complex: &Array, none: f64| {
        where_(&is_block, where_(&is_real, real, complex), none)
    };
    let (c, s) = (pick(&cosine_real, &cosine, 1.0), pick(&sine_real, &sine, 0.0));
    let t = rotated_columns(&rotated_rows(&t, &k, &c, &s), &k, &c, &s);
    let mean = (element(&t, &k, &k) + element(&t, &next, &next)) * 0.5;
    let here = |i: &Array, j: &Array| {
        index_mask(sizes(&t), |row, column| bitwise_and(eq(row, i), eq(column, j)))
    };
    let on_diagonal = bitwise_or(here(&k, &k), here(&next, &next));
    let is_pair = bitwise_and(&is_block, bitwise_not(&is_real));
    let is_triangle = bitwise_and(&is_block, &is_real);
    let t = where_(bitwise_and(on_diagonal, is_pair), mean, &t);
    let t = where_(bitwise_and(here(&next, &k), is_triangle), 0.0, t);
    (t, rotated_columns(&z, &k, &c, &s))
}
