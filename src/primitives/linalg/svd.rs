//! Singular value decomposition.

use super::algorithms::{SvdAlgorithm, check_subset};
use super::matrices::{
    adjoint, as_columns, as_rows, diagonal, expect_matrices, identity, product, sizes,
};
use super::qr::{QrOptions, qr, qr_with};
use crate::core::{
    Analysis, Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, Loc, LowerCtx,
    Primitive, Registered, RuleError, RuleResult, Sample, Tangent, bind, trace,
};
use crate::primitives::composite::{lower_by, lower_while};
use crate::primitives::rules::{arity, move_axis};
use crate::primitives::{
    abs, add, bitwise_and, broadcasted_iota, concatenate, conj, convert_element_type, div, eq, ge,
    gt, lt, mul, neg, real, reduce_max, reduce_sum, reshape, resize_axis, rsqrt, sign,
    slice_in_dim, sort_multi, sqrt, sub, where_, zeros, zeros_of,
};
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Singular value decomposition `a = u · diag(s) · vᴴ`, with orthonormal `u` and `v` and decreasing
/// `s ≥ 0`.
///
/// | | |
/// |-|-|
/// | operand    | `a: {f32, f64, c64, c128}[…, m, n]` |
/// | results    | `u: […, m, k]`, `s: […, k]`, `vᴴ: […, k, n]` with `k = min(m, n)`; with `full_matrices` `u` and `vᴴ` are square |
/// | lowering   | QR, then one-sided Jacobi rotations of the columns of `r`, in a loop |
/// | derivative | `ds = real(diag(uᴴ da v))`; of `u` and `v` without `full_matrices`, not a number where singular values coincide |
///
/// Small singular values have high relative precision.
///
/// Reference: Demmel and Veselić, "Jacobi's method is more accurate than QR", SIAM J. Matrix Anal.
/// Appl. 13 (1992); Brent and Luk, "The solution of singular-value and symmetric eigenvalue
/// problems on multiprocessor arrays", SIAM J. Sci. Stat. Comput. 6 (1985), for the order of the
/// rotations. Townsend, "Differentiating the singular value decomposition" (2016).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Svd {
    /// Returns square `u` and `vᴴ`.
    pub full_matrices: bool,
}

/// A QR decomposition without the columns that complete the basis.
const REDUCED: QrOptions = QrOptions { full_matrices: false };

/// Options of [`svd_with`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SvdOptions {
    /// Returns square orthonormal factors. The default is true, as in `jax.lax.linalg`.
    pub full_matrices: bool,
    /// The indices of the singular values that are returned, with their vectors: `0..3` for the
    /// three largest. The default is all. Others require `full_matrices: false`.
    pub subset_by_index: Option<Range<usize>>,
    /// The algorithm.
    pub algorithm: SvdAlgorithm,
}

impl Default for SvdOptions {
    fn default() -> SvdOptions {
        SvdOptions { full_matrices: true, subset_by_index: None, algorithm: SvdAlgorithm::Default }
    }
}

impl Primitive for Svd {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [a] = arity(operands)?;
        expect_matrices(a)?;
        let rank = a.rank();
        let (m, n) = (a.shape[rank - 2], a.shape[rank - 1]);
        let k = m.min(n);
        let batch = a.shape.remove(rank - 1).remove(rank - 2);
        let exemplar =
            |rows, columns| a.with_shape(batch.insert(rank - 2, columns).insert(rank - 2, rows));
        let (left, right) = if self.full_matrices { (m, n) } else { (k, k) };
        let s = Aval { dtype: a.dtype.real(), ..a.with_shape(batch.insert(rank - 2, k)) };
        Ok(vec![exemplar(m, left), s, exemplar(right, n)])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let (m, n) = sizes(&primals[0]);
        if self.full_matrices && m != n {
            return Err(RuleError::unsupported(
                "singular vectors of a matrix that is not square have no derivative with \
                full_matrices",
            )
            .help("use full_matrices = false"));
        }
        let outputs = bind(self.clone(), &[&primals[0]]);
        let (u, s, vh) = (&outputs[0], &outputs[1], &outputs[2]);
        let Tangent::Dense(da) = &tangents[0] else {
            let zeros = outputs.iter().map(Tangent::zero_like).collect();
            return Ok((outputs, zeros));
        };
        let v = adjoint(vh);
        let c = product(&product(&adjoint(u), da), &v);
        let ds = real(diagonal(&c));
        let wide = |x: &Array| convert_element_type(x, da.dtype());
        let like = real(&c);
        let (columns, rows) = (as_columns(s, &like), as_rows(s, &like));
        let same = eq(identity(&like), 1);
        let gaps = mul(add(&columns, &rows), sub(&columns, &rows));
        let inverse = where_(&same, 0, div(1.0, where_(&same, 1, &gaps)));
        let (columns, rows, inverse) = (wide(&columns), wide(&rows), wide(&inverse));
        let symmetric = |x: Array| &x + adjoint(&x);
        // The phase of a pair of complex vectors is arbitrary; its change is shared between the
        // two.
        let no_zeros = where_(eq(s, 0), 1, s);
        let phase = mul(&c - adjoint(&c), wide(&(identity(&like) * 0.5)))
            / wide(&as_columns(&no_zeros, &like));
        let mut du = product(u, &(&inverse * symmetric(&c * &columns) + phase));
        let mut dv = product(&v, &(&inverse * symmetric(&rows * &c)));
        // The component outside of the span of the vectors.
        if m > n {
            let moved = product(da, &v);
            let outside = &moved - product(u, &product(&adjoint(u), &moved));
            du += &outside / wide(&as_columns(s, &real(&outside)));
        }
        if n > m {
            let moved = product(&adjoint(da), u);
            let outside = &moved - product(&v, &product(vh, &moved));
            dv += &outside / wide(&as_columns(s, &real(&outside)));
        }
        let dvh = adjoint(&dv);
        Ok((outputs, vec![du.into(), ds.into(), dvh.into()]))
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        _: &BatchAxis,
    ) -> RuleResult<Batched> {
        let a = move_axis(&operands[0], axes[0].unwrap_or(0), 0);
        Ok(Batched { outputs: bind(self.clone(), &[&a]), axes: vec![Some(0); 3] })
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        if operands[0].ty().dims().contains(&0) {
            return lower_by(ctx, operands, |_| results.iter().map(empty_like).collect());
        }
        let full = self.full_matrices;
        let start = lower_by(ctx, operands, |a| start(&a[0]))?;
        let end = lower_while(ctx, &start[1..], has_open_terms, sweep_step)?;
        let last = [operands[0].clone(), start[0].clone(), end[1].clone(), end[2].clone()];
        lower_by(ctx, &last, |x| finish(x, full))
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        let rank = operands[0].rank();
        let k = operands[0].shape[rank - 2].min(operands[0].shape[rank - 1]) as u64;
        // About ten sweeps.
        let flops = k.saturating_mul(60).saturating_mul(operands[0].size() as u64);
        Cost { flops, ..Cost::whole(operands, results) }
    }
    fn analysis(&self) -> Option<&dyn Analysis> {
        Some(self)
    }
}

impl Analysis for Svd {
    fn kernel_obstacle(&self) -> Option<&'static str> {
        Some("sorts with a library")
    }
}

fn empty_like(aval: &Aval) -> Array {
    if aval.rank() < 2 { zeros_of(aval) } else { identity(&zeros_of(aval)) }
}

/// Returns the q of the taller of `a` and its adjoint, and the state of the loop: the number of
/// steps done and since the last rotation, the columns of r, and the accumulated rotations. Both
/// get a column of zeros if their number is odd.
pub(super) fn start(a: &Array) -> Vec<Array> {
    let (m, n) = sizes(a);
    let tall = if m >= n { a.clone() } else { adjoint(a) };
    let (q, r) = qr_with(&tall, REDUCED);
    let k = m.min(n);
    let even = |x: &Array| resize_axis(x, x.rank() - 1, k + k % 2);
    let v = identity(&r);
    vec![q, zeros(([2], DType::I32)), even(&r), even(&v)]
}

/// Limit of sweeps over all pairs of columns.
const SWEEPS: i32 = 60;

/// Tests `[steps done, steps since a rotation]`: continues until a whole sweep rotated nothing.
pub(super) fn has_open_terms(state: &[Array]) -> Array {
    let steps = rounds(&state[1]);
    let done = reshape(&slice_in_dim(&state[0], 0, 1, 1, 0), []);
    let idle = reshape(&slice_in_dim(&state[0], 1, 2, 1, 0), []);
    bitwise_and(lt(&done, SWEEPS * steps), lt(&idle, steps))
}

/// Returns the number of steps in which every pair of columns meets once.
fn rounds(x: &Array) -> i32 {
    (sizes(x).1.max(2) - 1) as i32
}

/// One step: orthogonalizes each column of the left half and the column at the same index in the
/// right half. Then all except the first move by one index in a circle.
pub(super) fn sweep_step(state: &[Array]) -> Vec<Array> {
    let [counts, x, v] = state else { unreachable!("three arrays") };
    let half = (sizes(x).1 / 2) as isize;
    let halves =
        |x: &Array| (slice_in_dim(x, 0, half, 1, -1), slice_in_dim(x, half, 2 * half, 1, -1));
    let (left, right) = halves(x);
    let axis = [left.rank() as isize - 2];
    let square = |x: &Array| reduce_sum(&real(mul(x, conj(x))), &axis);
    let (alpha, beta) = (square(&left), square(&right));
    let gamma = reduce_sum(&mul(conj(&left), &right), &axis);
    let modulus = abs(&gamma);
    // Sums over many rows have as many roundings.
    let epsilon = x.dtype().epsilon() * (sizes(x).0 as f64).sqrt().max(4.0);
    let needed = gt(&modulus, sqrt(mul(&alpha, &beta)) * epsilon);
    let one = |x: &Array| where_(&needed, x, 1);
    let zeta = div(sub(&beta, &alpha), one(&modulus) * 2.0);
    let toward = where_(ge(&zeta, 0), 1.0, -1.0);
    let tangent = div(toward, abs(&zeta) + sqrt(&(&zeta * &zeta + 1.0)));
    let cosine = where_(&needed, rsqrt(&(&tangent * &tangent + 1.0)), 1);
    let sine = where_(&needed, &cosine * &tangent, 0);
    let wide = |d: &Array| convert_element_type(d, x.dtype());
    // With its phase removed from the right column, the product of the two is real.
    let phase = where_(&needed, div(&gamma, wide(&one(&modulus))), 1);
    let rotated = |x: &Array| {
        let (left, right) = halves(x);
        let right = &right * as_columns(&conj(&phase), &right);
        let (c, s) = (as_columns(&wide(&cosine), &left), as_columns(&wide(&sine), &left));
        let (left, right) = (&left * &c - &right * &s, &left * &s + &right * &c);
        circled(&left, &right, half)
    };
    let any = reduce_max(&convert_element_type(&needed, DType::I32), &all_axes(&needed));
    let done = slice_in_dim(counts, 0, 1, 1, 0) + 1;
    let idle = slice_in_dim(counts, 1, 2, 1, 0) + 1;
    let idle = where_(gt(&any, 0), 0, idle);
    vec![concatenate(&[done, idle], 0), rotated(x), rotated(v)]
}

fn all_axes(x: &Array) -> Vec<isize> {
    (0..x.rank() as isize).collect()
}

/// Returns the columns after a move: the first stays, the others rotate through the two halves.
fn circled(left: &Array, right: &Array, half: isize) -> Array {
    let part = |x: &Array, from, to| slice_in_dim(x, from, to, 1, -1);
    if half < 2 {
        return concatenate([left, right], -1);
    }
    let parts = [
        part(left, 0, 1),
        part(right, 0, 1),
        part(left, 1, half - 1),
        part(right, 1, half),
        part(left, half - 1, half),
    ];
    concatenate(&parts, -1)
}

/// Computes `u`, `s` and `vᴴ` from orthogonal columns and the accumulated rotations.
pub(super) fn finish(x: &[Array], full: bool) -> Vec<Array> {
    let [a, q, columns, v] = x else { unreachable!("four arrays") };
    let (m, n) = sizes(a);
    let k = m.min(n);
    let axis = [columns.rank() as isize - 2];
    let lengths = sqrt(reduce_sum(&real(mul(columns, conj(columns))), &axis));
    // A padding column has no rotations and is sorted last.
    let rotations = reduce_sum(&real(mul(v, conj(v))), &axis);
    let key = where_(gt(&rotations, 0.5), neg(&lengths), f64::INFINITY);
    let rank = columns.rank();
    let position = broadcasted_iota(DType::I32, key.shape().clone(), rank - 2);
    let order = sort_multi(&[&key, &position], -1, 1).swap_remove(1);
    // A permutation as a matrix: column j of the product is column order[j].
    let spread = as_columns(&order, &square_over(&order));
    let row = broadcasted_iota(DType::I32, spread.shape().clone(), rank - 2);
    let permutation = convert_element_type(&eq(&row, &spread), columns.dtype());
    let first = |x: &Array| slice_in_dim(&product(x, &permutation), 0, k as isize, 1, -1);
    let (columns, v) = (first(columns), first(v));
    let lengths = sqrt(reduce_sum(&real(mul(&columns, conj(&columns))), &axis));
    // Reflections give an orthonormal basis even if columns are zero. Its vectors are the columns
    // up to a phase.
    let (left, r) = qr_with(&columns, REDUCED);
    let phases = diagonal(&r);
    let phases = where_(eq(&phases, 0), 1, sign(&phases));
    let left = product(q, &(&left * as_columns(&phases, &left)));
    let complete = |x: &Array, size: usize| {
        if full && sizes(x).1 < size {
            let (basis, _) = qr(x);
            let rest = slice_in_dim(&basis, sizes(x).1 as isize, size as isize, 1, -1);
            concatenate(&[x.clone(), rest], -1)
        } else {
            x.clone()
        }
    };
    if m >= n {
        vec![complete(&left, m), lengths, adjoint(&v)]
    } else {
        vec![v, lengths, adjoint(&complete(&left, n))]
    }
}

/// Returns a square matrix for each vector of `x`; only its shape is used.
fn square_over(x: &Array) -> Array {
    let n = x.shape()[x.rank() - 1];
    zeros((x.shape().insert(x.rank(), n), x.dtype()))
}

/// Returns the singular value decomposition `(u, s, vᴴ)` of each matrix. See [`Svd`] for its rules.
///
/// ```
/// use oxidax::prelude::*;
/// let options = SvdOptions { full_matrices: false, ..Default::default() };
/// let factors = |a: Array| svd_with(&a, options.clone());
/// let (u, s, vh) = eval_shape(factors, Aval::new(DType::F32, [3, 2]))?;
/// assert_eq!((u.shape().dims(), s.shape().dims()), (&[3, 2][..], &[2][..]));
/// assert_eq!(vh.shape().dims(), [2, 2]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn svd(a: &Array) -> (Array, Array, Array) {
    svd_with(a, SvdOptions::default())
}

/// Returns the decomposition of [`svd`], with options.
///
/// Throws `Op` for a range that is out of bounds or excludes values of full matrices, and for an
/// algorithm that is not available.
#[track_caller]
pub fn svd_with(a: &Array, options: SvdOptions) -> (Array, Array, Array) {
    let SvdOptions { full_matrices, subset_by_index, algorithm } = options;
    algorithm.expect_available(a);
    let outputs = bind(Svd { full_matrices }, &[a]);
    let [u, s, vh] = <[Array; 3]>::try_from(outputs).expect("three results");
    let Some(subset) = subset_by_index else { return (u, s, vh) };
    let n = s.shape()[s.rank() - 1];
    let error = match check_subset(&subset, n) {
        Ok(()) if full_matrices && subset != (0..n) => Some(
            RuleError::value("a subset of the singular values has no full matrices of vectors")
                .help("use full_matrices: false"),
        ),
        Ok(()) => None,
        Err(error) => Some(error),
    };
    if let Some(error) = error {
        trace::throw_operands("svd", error, &[a]);
    }
    if subset == (0..n) {
        return (u, s, vh);
    }
    let (start, end) = (subset.start as isize, subset.end as isize);
    let part = |x: &Array, axis| slice_in_dim(x, start, end, 1, axis);
    Loc::caller().scope(|| (part(&u, -1), part(&s, -1), part(&vh, -2)))
}

impl Registered for Svd {
    const NAME: &'static str = "svd";
    fn exemplars() -> Vec<Exemplar> {
        let exemplar = |full_matrices, dtype, shape: &[usize]| {
            Exemplar::new(Svd { full_matrices }, [Sample::uniform(dtype, shape, -2.0, 2.0)])
        };
        vec![
            exemplar(false, DType::F32, &[4, 3]),
            exemplar(false, DType::F64, &[2, 2, 3]),
            exemplar(true, DType::F64, &[3, 3]),
            // The phase of complex vectors is arbitrary, and finite differences see it jump.
            exemplar(false, DType::C64, &[3, 2]).without_derivative(),
            exemplar(true, DType::F32, &[4, 2]).without_derivative(),
            exemplar(true, DType::F32, &[2, 4]).without_derivative(),
            exemplar(false, DType::F32, &[0, 3]),
            exemplar(true, DType::F32, &[3, 0]).without_derivative(),
            exemplar(false, DType::F32, &[1, 1]),
            Exemplar::new(
                Svd { full_matrices: false },
                [Sample::listed(DType::F32, [3, 3], &[0.0])],
            )
            .without_derivative(),
        ]
    }
}
