//! Functions of matrices.

use super::expect_square;
use super::norms::{MatrixNorm, matrix_norm};
use super::solve::{inv, solve};
use crate::control_flow::custom_jvp;
use crate::core::{Array, DType, Loc, RuleError, throw_operands};
use crate::ops::{DiagonalOptions, diagonal_with, eye, matmul, trace_with};
use crate::primitives::{
    self, ArrayList, abs, ceil, convert_element_type, eq, expand_dims, gt, inexact, iota, log, lt,
    maximum, minimum, ne, real, reduce_max, reduce_prod, reduce_sum, references, sign, where_,
};

#[track_caller]
fn square(name: &str, a: &Array) -> Array {
    expect_square(name, a);
    inexact(a)
}

/// Returns the diagonal of `u`, and the sign of the row permutation, 1 or -1.
fn pivots(a: &Array) -> (Array, Array) {
    let (packed, pivots, _) = primitives::lu(a);
    let step = iota(DType::I32, a.shape()[a.rank() - 1]);
    let swapped = convert_element_type(&ne(&pivots, step), DType::I32);
    let count = reduce_sum(&swapped, &[-1]);
    let odd = eq(primitives::rem(&count, 2), 1);
    let parity = where_(&odd, -1, primitives::ones_like(&count));
    (diagonal_with(&packed, DiagonalOptions::LAST_AXES), convert_element_type(&parity, a.dtype()))
}

/// Returns the determinant of each matrix of `a`: `[…, n, n]` to `[…]`.
///
/// The derivative is `det(a) · trace(a⁻¹ da)`, which is NaN where `a` is singular.
///
/// ```
/// use oxidax::prelude::*;
/// let a = Array::from_slice(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?;
/// assert!((linalg::det(&a).item::<f32>()? + 2.0).abs() < 1e-6);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn det(a: &Array) -> Array {
    let a = square("det", a);
    let f = |a: &Array| {
        let (diagonal, parity) = pivots(a);
        reduce_prod(&diagonal, &[-1]) * parity
    };
    let rule = |a: &Array, da: &Array| {
        let value = det(a);
        let change = trace_with(&solve(a, da), DiagonalOptions::LAST_AXES);
        (value.clone(), value * change)
    };
    Loc::caller().scope(|| custom_jvp(f, rule)(&a))
}

/// Returns the sign of each determinant (a number of modulus 1 for complex matrices) and the
/// logarithm of its modulus: `[…, n, n]` to two arrays `[…]`. They are 0 and negative infinity for
/// singular matrices.
#[track_caller]
pub fn slogdet(a: &Array) -> (Array, Array) {
    let a = square("slogdet", a);
    let f = |a: &Array| {
        let (diagonal, parity) = pivots(a);
        let sign = reduce_prod(&sign(&diagonal), &[-1]) * parity;
        (sign, reduce_sum(&log(abs(&diagonal)), &[-1]))
    };
    let rule = |a: &Array, da: &Array| {
        let (sign, value) = slogdet(a);
        let change = trace_with(&solve(a, da), DiagonalOptions::LAST_AXES);
        let dsign = match a.dtype().is_complex() {
            // The imaginary part of the change rotates the sign.
            true => {
                let imaginary = &change - convert_element_type(&real(&change), change.dtype());
                &sign * imaginary
            }
            false => primitives::zeros_like(&sign),
        };
        ((sign, value), (dsign, real(&change)))
    };
    Loc::caller().scope(|| custom_jvp(f, rule)(&a))
}

/// Returns the matrix power `aⁿ`: the identity for 0, powers of the inverse for negative `n`.
#[track_caller]
pub fn matrix_power(a: &Array, n: i32) -> Array {
    let a = square("matrix_power", a);
    let mut base = if n < 0 { inv(&a) } else { a.clone() };
    let mut rest = n.unsigned_abs();
    let mut power: Option<Array> = None;
    while rest > 0 {
        if rest % 2 == 1 {
            power = Some(match power {
                Some(power) => matmul(&power, &base),
                None => base.clone(),
            });
        }
        rest /= 2;
        if rest > 0 {
            base = matmul(&base, &base);
        }
    }
    power.unwrap_or_else(|| {
        let identity = eye((a.shape()[a.rank() - 1], a.dtype()));
        primitives::broadcast_to(&identity, a.shape().clone())
    })
}

/// Options of [`matrix_rank_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MatrixRankOptions {
    /// Singular values up to `rtol` times the largest count as zero; `max(m, n) · ε` if `None`.
    pub rtol: Option<f64>,
    /// The matrices are Hermitian, so that their eigenvalues suffice. The default is false.
    pub hermitian: bool,
}

/// Returns the rank of each matrix, `i32[…]`: the number of singular values larger than
/// `max(m, n) · ε` times the largest.
#[track_caller]
pub fn matrix_rank(a: &Array) -> Array {
    matrix_rank_with(a, MatrixRankOptions::default())
}

/// Returns the rank of each matrix, as [`matrix_rank`], with another tolerance.
#[track_caller]
pub fn matrix_rank_with(a: &Array, options: MatrixRankOptions) -> Array {
    let a = inexact(a);
    if a.rank() < 2 {
        return convert_element_type(&primitives::reduce_or(&ne(&a, 0), &all_axes(&a)), DType::I32);
    }
    let s =
        if options.hermitian { primitives::abs(super::eigvalsh(&a)) } else { super::svdvals(&a) };
    let sides = a.shape()[a.rank() - 2].max(a.shape()[a.rank() - 1]);
    let rtol = options.rtol.unwrap_or(sides as f64 * a.dtype().epsilon());
    let cutoff = expand_dims(&(reduce_max(&s, &[-1]) * rtol), &[-1]);
    reduce_sum(&convert_element_type(&gt(&s, cutoff), DType::I32), &[-1])
}

fn all_axes(x: &Array) -> Vec<isize> {
    (0..x.rank() as isize).collect()
}

/// Returns the condition number of each matrix, its largest singular value over its smallest:
/// `[…, m, n]` to `[…]`.
#[track_caller]
pub fn cond(a: &Array) -> Array {
    let s = super::svdvals(a);
    reduce_max(&s, &[-1]) / primitives::reduce_min(&s, &[-1])
}

/// Returns the condition number of each square matrix in another norm: `‖a‖ · ‖a⁻¹‖`, and for
/// [`MatrixNorm::Spectral`](super::MatrixNorm) and its smallest counterpart the quotient of
/// singular values. [`cond`] has the spectral norm.
///
/// Throws `Op` (shape) unless the matrices are square, but for quotients of singular values.
#[track_caller]
pub fn cond_with(a: &Array, norm: super::MatrixNorm) -> Array {
    use super::MatrixNorm;
    match norm {
        MatrixNorm::Spectral => cond(a),
        MatrixNorm::NegSpectral => {
            let s = super::svdvals(a);
            primitives::reduce_min(&s, &[-1]) / reduce_max(&s, &[-1])
        }
        norm => super::matrix_norm(a, norm) * super::matrix_norm(&super::inv(a), norm),
    }
}

/// Returns the product of a chain of matrices, `[m₀, m₁]` to `[mₙ₋₁, mₙ]`, in the order that takes
/// the fewest operations. The first may be a row vector `[m₁]` and the last a column vector.
///
/// Throws `Op` for fewer than two matrices and for sizes that do not fit.
///
/// Reference: Cormen, Leiserson, Rivest and Stein, "Introduction to Algorithms", 4th edition,
/// section 14.2.
#[track_caller]
pub fn multi_dot<F>(matrices: impl ArrayList<F>) -> Array {
    multi_dot_all(&references(&matrices.into_arrays()))
}

#[track_caller]
fn multi_dot_all(matrices: &[&Array]) -> Array {
    let n = matrices.len();
    if n < 2 {
        let message = format!("needs at least two matrices, got {n}");
        throw_operands("multi_dot", RuleError::shape(message), matrices);
    }
    let inside = |at: usize| (at > 0 && at + 1 < n, matrices[at].rank());
    if let Some(wrong) = (0..n).find(|&at| !matches!(inside(at), (_, 2) | (false, 1))) {
        let message = format!("operand {wrong} must be a matrix, got {}", matrices[wrong].aval());
        throw_operands("multi_dot", RuleError::shape(message), matrices);
    }
    // The number of rows of each matrix, and the number of columns of the last.
    let mut sizes: Vec<usize> = (0..n)
        .map(|at| if at == 0 && matrices[0].rank() == 1 { 1 } else { matrices[at].shape()[0] })
        .collect();
    let last = matrices[n - 1];
    sizes.push(if last.rank() == 1 { 1 } else { last.shape()[1] });
    let mut least = vec![vec![0usize; n]; n];
    let mut split = vec![vec![0usize; n]; n];
    for length in 2..=n {
        for from in 0..=n - length {
            let to = from + length - 1;
            let cost = |at: usize| {
                let product =
                    sizes[from].saturating_mul(sizes[at + 1]).saturating_mul(sizes[to + 1]);
                least[from][at].saturating_add(least[at + 1][to]).saturating_add(product)
            };
            let best = (from..to).min_by_key(|&at| cost(at)).unwrap_or(from);
            (least[from][to], split[from][to]) = (cost(best), best);
        }
    }
    #[track_caller]
    fn multiply(matrices: &[&Array], split: &[Vec<usize>], from: usize, to: usize) -> Array {
        if from == to {
            return matrices[from].clone();
        }
        let at = split[from][to];
        matmul(&multiply(matrices, split, from, at), &multiply(matrices, split, at + 1, to))
    }
    multiply(matrices, &split, 0, n - 1)
}

/// Coefficients of the Padé approximant of degree 13 to the exponential.
const PADE_13: [f64; 14] = [
    64_764_752_532_480_000.0,
    32_382_376_266_240_000.0,
    7_771_770_303_897_600.0,
    1_187_353_796_428_800.0,
    129_060_195_264_000.0,
    10_559_470_521_600.0,
    670_442_572_800.0,
    33_522_128_640.0,
    1_323_241_920.0,
    40_840_800.0,
    960_960.0,
    16_380.0,
    182.0,
    1.0,
];

/// Largest norm for which that approximant is exact to double precision.
const THETA_13: f64 = 5.371_920_351_148_152;

/// Maximum number of halvings: norms up to 2¹⁶ times the bound are supported.
const MAX_SQUARINGS: i32 = 16;

/// Returns the exponential of each matrix of `a`, `[…, n, n]`; NaN where the norm exceeds about
/// 350,000.
///
/// Reference: Higham, "The scaling and squaring method for the matrix exponential revisited", SIAM
/// J. Matrix Anal. Appl. 26 (2005).
#[track_caller]
pub fn expm(a: &Array) -> Array {
    let a = square("expm", a);
    let wide = |d: &Array| convert_element_type(&expand_dims(d, &[-1, -2]), a.dtype());
    let norm = matrix_norm(&a, MatrixNorm::L1);
    let halvings = maximum(ceil(&(log(&(norm / THETA_13)) / std::f64::consts::LN_2)), 0);
    let too_large = gt(&halvings, MAX_SQUARINGS);
    let halvings = primitives::stop_gradient(minimum(&halvings, MAX_SQUARINGS));
    let a = &a * wide(&primitives::exp2(&-&halvings));
    let identity = eye((a.shape()[a.rank() - 1], a.dtype()));
    let c = PADE_13;
    let a2 = matmul(&a, &a);
    let a4 = matmul(&a2, &a2);
    let a6 = matmul(&a4, &a2);
    let sum = |six: f64, four: f64, two: f64| &a6 * six + &a4 * four + &a2 * two;
    let high = matmul(&a6, &sum(c[13], c[11], c[9]));
    let odd = matmul(&a, &(high + sum(c[7], c[5], c[3]) + &identity * c[1]));
    let high = matmul(&a6, &sum(c[12], c[10], c[8]));
    let even = high + sum(c[6], c[4], c[2]) + &identity * c[0];
    let mut power = solve(&(&even - &odd), &(&even + &odd));
    for step in 0..MAX_SQUARINGS {
        let more = expand_dims(&lt(f64::from(step), &halvings), &[-1, -2]);
        power = where_(&more, matmul(&power, &power), &power);
    }
    where_(expand_dims(&too_large, &[-1, -2]), f64::NAN, power)
}
