//! The custom calls of jaxlib to LAPACK, as operations on arrays.
//!
//! Source of names, operands and results: `jaxlib/cpu/lapack.cc` and `lapack_kernels.cc` of JAX
//! 0.4.31 to 0.10.2. Before version 0.5 sizes and letters are operands; since then they are
//! attributes, and the name ends with `_ffi`.

use super::custom_calls::Parameters;
use super::{Operands, Traced, Translated, Translator};
use crate::control_flow::fori_loop;
use crate::core::{Array, DType, Shape};
use crate::primitives::{
    Eig, SvdOptions, TransposeA, TriangularSolve, abs, broadcast_to, broadcasted_iota, cholesky,
    conj, convert_element_type, dynamic_index_in_dim, dynamic_update_slice_in_dim, eigh, eq, ge,
    imag, lu, mul, real, reduce_sum, reshape, select, squeeze, sub, svd_with, transpose,
    triangular_solve, zeros_of,
};
use crate::transforms::vmap;

/// The arguments of a call: its arrays, and its letters and numbers.
struct Call<'c, 'm> {
    operands: &'c Operands<'m>,
    parameters: &'c Parameters<'m>,
    /// Operands that are known numbers, of calls before version 0.5.
    numbers: Vec<i128>,
    arrays: Vec<Array>,
}

impl Call<'_, '_> {
    /// Returns the array at a place from the end, 1 being the last.
    fn array(&self, from_end: usize) -> Option<&Array> {
        self.arrays.get(self.arrays.len().checked_sub(from_end)?)
    }

    /// Returns the matrices at a place from the end.
    fn matrices(&self, from_end: usize) -> Option<&Array> {
        self.array(from_end).filter(|x| x.rank() >= 2)
    }
}

fn arrays(each: impl IntoIterator<Item = Array>) -> Vec<Traced> {
    each.into_iter().map(Traced::Array).collect()
}

/// Returns the matrices with axes exchanged.
fn transposed(x: &Array) -> Array {
    let rank = x.rank();
    let mut axes: Vec<usize> = (0..rank).collect();
    axes.swap(rank - 1, rank - 2);
    transpose(x, &axes)
}

pub(super) fn adjoint(x: &Array) -> Array {
    conj(transposed(x))
}

impl<'m> Translator<'m> {
    /// Translates a call to LAPACK; `None` for another target.
    pub(super) fn linear_algebra(
        &self,
        operands: &Operands<'m>,
        target: &str,
        parameters: &Parameters<'m>,
    ) -> Translated<Option<Vec<Traced>>> {
        let Some(name) = target.strip_prefix("lapack_").or_else(|| target.strip_prefix("blas_"))
        else {
            return Ok(None);
        };
        let name = name.strip_suffix("_ffi").unwrap_or(name);
        let Some(routine) = name.strip_prefix(['s', 'd', 'c', 'z']) else { return Ok(None) };
        let is_old = !target.ends_with("_ffi");
        let numbers = operands.values.iter().filter_map(Traced::known);
        let call = Call {
            operands,
            parameters,
            numbers: match is_old {
                true => numbers.filter_map(|known| known.elements.first().copied()).collect(),
                false => Vec::new(),
            },
            arrays: operands
                .values
                .iter()
                .filter(|value| !is_old || value.known().is_none())
                .map(|value| self.array(value))
                .collect::<Translated<_>>()?,
        };
        let results = match routine {
            "potrf" => self.potrf(&call)?,
            "getrf" => self.getrf(&call),
            "geqrf" => self.geqrf(&call)?,
            "orgqr" | "ungqr" => self.orgqr(&call)?,
            "gesdd" => self.gesdd(&call)?,
            "syevd" | "heevd" => self.syevd(&call),
            "geev" => self.geev(&call)?,
            "trsm" => self.trsm(&call),
            _ => None,
        };
        let Some(results) = results else {
            let message = format!("the routine `{target}` is not supported");
            return Err(self.unsupported(operands.operation, &message));
        };
        Ok(Some(results))
    }

    /// Returns the codes of success, one for each matrix.
    fn successes(&self, call: &Call<'_, 'm>, index: usize) -> Translated<Array> {
        let (dtype, sizes) = self.result_type(call.operands, index)?;
        let batch = call.array(1).map(|a| a.shape()[..a.rank().saturating_sub(2)].to_vec());
        let batch = batch.unwrap_or_default();
        let stated: Option<Vec<usize>> = sizes.into_iter().collect();
        Ok(zeros_of(&crate::core::Aval::new(dtype, stated.unwrap_or(batch))))
    }

    /// Returns zeros of the type of a result that nothing uses.
    fn unused(&self, call: &Call<'_, 'm>, index: usize) -> Translated<Array> {
        let (dtype, sizes) = self.result_type(call.operands, index)?;
        let sizes: Option<Vec<usize>> = sizes.into_iter().collect();
        let unknown =
            || self.unsupported(call.operands.operation, "the shape of a result is not known");
        Ok(zeros_of(&crate::core::Aval::new(dtype, sizes.ok_or_else(unknown)?)))
    }

    fn is_lower(&self, call: &Call<'_, 'm>, position: usize) -> bool {
        match self.letter(call.parameters, "uplo") {
            Some(letter) => letter == 'L',
            None => call.numbers.get(position).is_none_or(|flag| *flag != 0),
        }
    }

    fn potrf(&self, call: &Call<'_, 'm>) -> Translated<Option<Vec<Traced>>> {
        let Some(a) = call.matrices(1) else { return Ok(None) };
        let factor = match self.is_lower(call, 0) {
            true => cholesky(a),
            false => adjoint(&cholesky(&adjoint(a))),
        };
        Ok(Some(arrays([factor, self.successes(call, 1)?])))
    }

    fn getrf(&self, call: &Call<'_, 'm>) -> Option<Vec<Traced>> {
        let (packed, pivots, _) = lu(call.matrices(1)?);
        // LAPACK counts from 1.
        let pivots = convert_element_type(&pivots, DType::I32);
        let one = convert_element_type(&crate::primitives::ones_like(&pivots), DType::I32);
        let success = self.successes(call, 2).ok()?;
        Some(arrays([packed, crate::primitives::add(&pivots, &one), success]))
    }

    fn geqrf(&self, call: &Call<'_, 'm>) -> Translated<Option<Vec<Traced>>> {
        let Some(a) = call.matrices(1) else { return Ok(None) };
        let (packed, taus) = for_each_matrix(&[a], reflectors);
        let mut results = vec![packed, taus];
        for index in 2..call.operands.operation.results().len() {
            results.push(match index {
                2 => self.successes(call, index)?,
                _ => self.unused(call, index)?,
            });
        }
        Ok(Some(arrays(results)))
    }

    fn orgqr(&self, call: &Call<'_, 'm>) -> Translated<Option<Vec<Traced>>> {
        let (Some(a), Some(taus)) = (call.matrices(2), call.array(1)) else { return Ok(None) };
        if taus.rank() + 1 != a.rank() {
            return Ok(None);
        }
        let (q, _) = for_each_matrix(&[a, taus], |arrays| {
            let q = product_of_reflectors(arrays);
            (q.clone(), q)
        });
        let mut results = vec![q];
        for index in 1..call.operands.operation.results().len() {
            results.push(match index {
                1 => self.successes(call, index)?,
                _ => self.unused(call, index)?,
            });
        }
        Ok(Some(arrays(results)))
    }

    fn gesdd(&self, call: &Call<'_, 'm>) -> Translated<Option<Vec<Traced>>> {
        let Some(a) = call.matrices(1) else { return Ok(None) };
        let full_matrices = match self.letter(call.parameters, "mode") {
            Some(letter) => letter == 'A',
            // The flags are: both bases are wanted, they are full.
            None => call.numbers.first().is_some_and(|flag| *flag != 0),
        };
        let wants_bases = self.letter(call.parameters, "mode") != Some('N');
        let count = call.operands.operation.results().len();
        let (u, s, vt) = svd_with(a, SvdOptions { full_matrices, ..Default::default() });
        let mut results = vec![a.clone(), s];
        match wants_bases {
            true => results.extend([u, vt]),
            false => results.extend([self.unused(call, 2)?, self.unused(call, 3)?]),
        }
        results.push(self.successes(call, 4)?);
        for index in 5..count {
            results.push(self.unused(call, index)?);
        }
        Ok(Some(arrays(results)))
    }

    fn syevd(&self, call: &Call<'_, 'm>) -> Option<Vec<Traced>> {
        let a = call.matrices(1)?;
        // `eigh` reads the whole matrix, LAPACK a triangle of it.
        let [m, n] = [a.shape()[a.rank() - 2], a.shape()[a.rank() - 1]];
        let [row, column] = [0, 1].map(|axis| broadcasted_iota(DType::I32, [m, n], axis));
        let keep = match self.is_lower(call, 0) {
            true => ge(&row, &column),
            false => ge(&column, &row),
        };
        let keep = broadcast_to(&keep, a.shape().clone());
        let (v, w) = eigh(&select(&keep, a, &adjoint(a)));
        let mut results = vec![v, w, self.successes(call, 2).ok()?];
        for index in 3..call.operands.operation.results().len() {
            results.push(self.unused(call, index).ok()?);
        }
        Some(arrays(results))
    }

    fn geev(&self, call: &Call<'_, 'm>) -> Translated<Option<Vec<Traced>>> {
        let Some(a) = call.matrices(1) else { return Ok(None) };
        let code = |name, position: usize| match self.letter(call.parameters, name) {
            Some(letter) => letter == 'V',
            None => call.numbers.get(position).is_some_and(|code| *code == i128::from(b'V')),
        };
        let count = call.numbers.len();
        let (left, right) = (
            code("compute_left", count.wrapping_sub(2)),
            code("compute_right", count.wrapping_sub(1)),
        );
        if left {
            let message = "left eigenvectors are not supported";
            return Err(self.unsupported(call.operands.operation, message));
        }
        let mut found = crate::core::bind(Eig { eigenvectors: right }, &[a]);
        let w = found.remove(0);
        // Before version 0.5 the first results are work space: two matrices of real numbers, and
        // of complex ones a matrix and a vector.
        let mut results = Vec::new();
        let n_results = call.operands.operation.results().len();
        let is_real = !a.dtype().is_complex();
        let tail = if is_real { 5 } else { 4 };
        for index in 0..n_results.saturating_sub(tail) {
            results.push(self.unused(call, index)?);
        }
        match is_real {
            true => results.extend([real(&w), imag(&w)]),
            false => results.push(w),
        }
        results.push(self.unused(call, results.len())?);
        results.push(match found.pop() {
            Some(vectors) => vectors,
            None => self.unused(call, results.len())?,
        });
        results.push(self.successes(call, results.len())?);
        Ok(Some(arrays(results)))
    }

    fn trsm(&self, call: &Call<'_, 'm>) -> Option<Vec<Traced>> {
        let (a, b) = (call.matrices(2)?, call.matrices(1)?);
        let flag = |name: &str, letter: char, position: usize, code: i128| match self
            .letter(call.parameters, name)
        {
            Some(found) => found == letter,
            None => call.numbers.get(position).is_some_and(|found| *found == code),
        };
        // The numbers are: left side, lower, transposition (0, 1, 2), unit diagonal, and sizes.
        let transpose_a = if flag("trans_x", 'C', 2, 2) {
            TransposeA::Adjoint
        } else if flag("trans_x", 'T', 2, 1) {
            TransposeA::Transpose
        } else {
            TransposeA::NoTranspose
        };
        let how = TriangularSolve {
            left_side: flag("side", 'L', 0, 1),
            lower: flag("uplo", 'L', 1, 1),
            transpose_a,
            unit_diagonal: flag("diag", 'U', 3, 1),
        };
        Some(arrays([triangular_solve(a, b, how)]))
    }
}

/// Applies a function to each matrix of a batch.
fn for_each_matrix(
    operands: &[&Array],
    f: impl Fn(Vec<Array>) -> (Array, Array),
) -> (Array, Array) {
    let first = operands[0];
    let batch = first.shape()[..first.rank() - 2].to_vec();
    if batch.is_empty() {
        return f(operands.iter().map(|x| (*x).clone()).collect());
    }
    let n_batch = batch.len();
    let count: usize = batch.iter().product();
    let flat = operands.iter().map(|x| {
        let sizes = [count].into_iter().chain(x.shape()[n_batch..].iter().copied());
        reshape(x, sizes.collect::<Shape>())
    });
    let flat: Vec<Array> = flat.collect();
    let (a, b): (Array, Array) = vmap(|x: Vec<Array>| f(x)).apply(flat);
    let back = |y: &Array| {
        let sizes = batch.iter().copied().chain(y.shape()[1..].iter().copied());
        reshape(y, sizes.collect::<Shape>())
    };
    (back(&a), back(&b))
}

/// Returns the column `j` of a matrix, of shape `[m]`.
fn column(a: &Array, j: &Array) -> Array {
    squeeze(&dynamic_index_in_dim(a, j, 1), &[1])
}

/// Returns `a` with another column `j`.
fn with_column(a: &Array, x: &Array, j: &Array) -> Array {
    dynamic_update_slice_in_dim(a, &reshape(x, [x.size(), 1]), j, 1)
}

/// Factors a matrix into Householder reflectors `I - τ v vᴴ`, as `geqrf` does: `r` is above the
/// diagonal, and the vectors, whose first element is 1, are below it.
///
/// Source: Golub and Van Loan, "Matrix Computations", 4th edition (2013), section 5.1.
fn reflectors(mut operands: Vec<Array>) -> (Array, Array) {
    let a = operands.swap_remove(0);
    let (m, n) = (a.shape()[0], a.shape()[1]);
    let count = m.min(n);
    let taus = zeros_of(&crate::core::Aval::new(a.dtype(), [count]));
    if count == 0 {
        return (a, taus);
    }
    let rows = broadcasted_iota(DType::I32, [m], 0);
    let step = |j: Array, (a, taus): (Array, Array)| {
        let x = column(&a, &j);
        let zero = crate::primitives::zeros_like(&x);
        let below = crate::primitives::gt(&rows, &j);
        let tail = select(&below, &x, &zero);
        let alpha = squeeze(&dynamic_index_in_dim(&x, &j, 0), &[0]);
        let tail_norm = real(mul(&tail, conj(&tail))).sum();
        let size = real(mul(&alpha, conj(&alpha)));
        let norm = crate::primitives::sqrt(crate::primitives::add(&size, &tail_norm));
        // β has the sign opposite to that of α.
        let is_negative = crate::primitives::lt(real(&alpha), 0.0);
        let beta = select(&is_negative, &norm, &crate::primitives::neg(&norm));
        let is_done = match alpha.dtype().is_complex() {
            true => eq(crate::primitives::add(&tail_norm, abs(imag(&alpha))), 0.0),
            false => eq(&tail_norm, 0.0),
        };
        let wide = |x: &Array| convert_element_type(x, alpha.dtype());
        let one = crate::primitives::ones_like(&alpha);
        let beta = wide(&beta);
        let safe_beta = select(&is_done, &one, &beta);
        let tau = crate::primitives::div(sub(&safe_beta, &alpha), &safe_beta);
        let tau = select(&is_done, &crate::primitives::zeros_like(&tau), &tau);
        let scale = select(&is_done, &one, &sub(&alpha, &safe_beta));
        let v = crate::primitives::div(&tail, &scale);
        let at = eq(&rows, &j);
        let v = select(&at, &crate::primitives::ones_like(&v), &v);
        // vᴴ a, and a - τ̄ v (vᴴ a).
        let projected = mul(reshape(&conj(&v), [m, 1]), &a);
        let projected = reduce_sum(&projected, &[0]);
        let moved = sub(&a, mul(conj(&tau), mul(reshape(&v, [m, 1]), reshape(&projected, [1, n]))));
        // Columns before j are done, and column j holds β and the vector.
        let head = select(&at, &broadcast_to(&select(&is_done, &alpha, &beta), [m]), &x);
        let stored = select(&below, &v, &head);
        let columns = broadcast_to(&broadcasted_iota(DType::I32, [n], 0), [m, n]);
        let later = crate::primitives::gt(&columns, &j);
        let a = select(&later, &moved, &a);
        (
            with_column(&a, &stored, &j),
            dynamic_update_slice_in_dim(&taus, &reshape(&tau, [1]), &j, 0),
        )
    };
    fori_loop(0, count as i64, step, (a, taus))
}

/// Returns the first columns of the product of reflectors, as `orgqr` does.
fn product_of_reflectors(operands: Vec<Array>) -> Array {
    let (a, taus) = (&operands[0], &operands[1]);
    let (m, n) = (a.shape()[0], a.shape()[1]);
    let count = taus.size();
    let rows = broadcasted_iota(DType::I32, [m], 0);
    let [row, column_of] = [0, 1].map(|axis| broadcasted_iota(DType::I32, [m, n], axis));
    let identity = convert_element_type(&eq(&row, &column_of), a.dtype());
    if count == 0 {
        return identity;
    }
    let last = count as i64 - 1;
    let step = |i: Array, q: Array| {
        let j = sub(convert_element_type(&crate::primitives::scalar(last), i.dtype()), &i);
        let x = column(a, &j);
        let below = crate::primitives::gt(&rows, &j);
        let v = select(&below, &x, &crate::primitives::zeros_like(&x));
        let v = select(&eq(&rows, &j), &crate::primitives::ones_like(&v), &v);
        let tau = squeeze(&dynamic_index_in_dim(taus, &j, 0), &[0]);
        let projected = mul(reshape(&conj(&v), [m, 1]), &q);
        let projected = reduce_sum(&projected, &[0]);
        sub(&q, mul(&tau, mul(reshape(&v, [m, 1]), reshape(&projected, [1, n]))))
    };
    fori_loop(0, count as i64, step, identity)
}
