//! Polynomials as vectors of coefficients, the highest power first: `[2, 0, 1]` is `2x² + 1`.

use super::joining::append;
use super::linalg::{LstsqOptions, eigvals, lstsq_with};
use super::{take, unstack};
use crate::core::{Array, DType, Loc, RuleError, Scalar, trace};
use crate::primitives::{
    ArrayLike, Like, PaddingDim, add, broadcast_in_dim, broadcasted_iota, concatenate,
    convert_element_type, div, eq, full_like, inexact, iota, lax_pad, lt, minimum, mul, neg,
    promote_arrays, reshape, slice, sqrt, sub, where_, zeros, zeros_like,
};

#[track_caller]
fn vectors(name: &str, polynomials: &[&Array]) {
    if let Some(other) = polynomials.iter().find(|p| p.rank() != 1 || p.size() == 0) {
        let message = format!("takes vectors of at least one coefficient, got {}", other.aval());
        trace::throw_operands(name, RuleError::shape(message), polynomials);
    }
}

/// Pads `p` with zeros in front to `n` coefficients.
#[track_caller]
fn extended(p: &Array, n: usize) -> Array {
    let low = (n - p.size()) as isize;
    lax_pad(p, 0, &[PaddingDim { low, high: 0, interior: 0 }])
}

/// Returns the coefficients `start..end`.
#[track_caller]
fn coefficients(p: &Array, start: usize, end: usize) -> Array {
    slice(p, &[start], &[end], &[1])
}

/// Evaluates the polynomial at each element of `x` by Horner's rule, with promotion. Throws `Op`
/// (shape) unless `p` is a vector of at least one coefficient.
///
/// ```
/// use oxidax::prelude::*;
/// let (p, x) = (Aval::new(DType::F32, [3]), Aval::new(DType::F32, [2, 5]));
/// let y = eval_shape(|p: Array, x: Array| polyval(&p, &x), (p, x))?;
/// assert_eq!(y.aval().to_string(), "f32[2,5]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn polyval(p: &Array, x: impl ArrayLike) -> Array {
    vectors("polyval", &[p]);
    let x = match x.like() {
        Like::Array(x) => x.clone(),
        Like::Scalar(value) => crate::primitives::scalar(value),
    };
    let dtype = super::result_type([p.like(), x.like()]);
    let (p, x) = (convert_element_type(p, dtype), convert_element_type(&x, dtype));
    let mut value = crate::primitives::zeros_like(&x);
    for coefficient in unstack(&p, 0) {
        value = add(mul(&value, &x), coefficient);
    }
    value
}

/// Returns the complex roots of the polynomial, one fewer than coefficients: the eigenvalues of the
/// companion matrix. If leading coefficients are zero there are fewer roots, and the missing ones
/// are NaN, as with JAX's `strip_zeros=False`. All roots are NaN if all coefficients are zero.
///
/// Differentiable where all roots differ. Throws `Op` (shape) unless `p` is a vector of at least
/// one coefficient.
///
/// ```
/// use oxidax::prelude::*;
/// let p = Array::from_slice(&[0.0f32, 1.0, 2.0], [3])?;
/// let roots = real(&roots(&p)).to_vec::<f32>()?;
/// assert_eq!(roots[0], -2.0);
/// assert!(roots[1].is_nan());
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn roots(p: &Array) -> Array {
    vectors("roots", &[p]);
    let p = inexact(p);
    let n = p.size() - 1;
    if n == 0 {
        let dtype = p.dtype().complex().unwrap_or(DType::C64);
        return zeros(([0], dtype));
    }
    Loc::caller().scope(|| {
        let zero = eq(&p, 0);
        let index = iota(DType::I32, n + 1);
        let used = where_(&zero, n as i32 + 1, &index).min();
        let last = where_(&zero, -1, &index).max();
        // The coefficients from the first nonzero one on, padded with zeros. Rows of zeros in the
        // matrix give roots of exactly zero.
        let from = minimum(&used, n as i32);
        let shifted = take(&concatenate([&p, &zeros_like(&p)], 0), &(&index + &from), 0);
        let leading = coefficients(&shifted, 0, 1);
        let is_zero = eq(&leading, 0);
        let row = neg(div(coefficients(&shifted, 1, n + 1), where_(&is_zero, 1, leading)));
        let along = |axis| broadcasted_iota(DType::I32, [n, n], axis);
        let (i, j) = (along(0), along(1));
        let below = eq(&i, &j + 1) & lt(&i, sub(&last, &used));
        let companion = where_(eq(&i, 0), broadcast_in_dim(&row, [n, n], &[1]), 0);
        let companion = &companion + convert_element_type(&below, p.dtype());
        let w = eigvals(&companion);
        let is_valid = lt(iota(DType::I32, n), sub(n as i32, &used));
        where_(&is_valid, &w, full_like(&w, Scalar::Complex(f64::NAN, f64::NAN)))
    })
}

#[track_caller]
fn same_length(name: &str, p: &Array, q: &Array) -> [Array; 2] {
    vectors(name, &[p, q]);
    let n = p.size().max(q.size());
    promote_arrays(name, [extended(p, n).like(), extended(q, n).like()])
}

/// Returns the sum of two polynomials, with the number of coefficients of the longer one.
#[track_caller]
pub fn polyadd(p: &Array, q: &Array) -> Array {
    let [p, q] = same_length("polyadd", p, q);
    add(&p, &q)
}

/// Returns the difference of two polynomials, with the number of coefficients of the longer one.
#[track_caller]
pub fn polysub(p: &Array, q: &Array) -> Array {
    let [p, q] = same_length("polysub", p, q);
    sub(&p, &q)
}

/// Returns the product of two polynomials: `[m], [n] → [m + n - 1]`. Leading zeros are kept.
#[track_caller]
pub fn polymul(p: &Array, q: &Array) -> Array {
    vectors("polymul", &[p, q]);
    let (long, short) = if p.size() < q.size() { (q, p) } else { (p, q) };
    let (n, dtype) = (short.size(), super::result_type([p.like(), q.like()]));
    let (long, short) = (convert_element_type(long, dtype), convert_element_type(short, dtype));
    let mut product = zeros(([long.size() + n - 1], dtype));
    for (power, coefficient) in unstack(&short, 0).iter().enumerate() {
        let shifted =
            PaddingDim { low: power as isize, high: (n - 1 - power) as isize, interior: 0 };
        product = add(&product, lax_pad(&mul(&long, coefficient), 0, &[shifted]));
    }
    product
}

/// Returns the quotient and the remainder of two polynomials, in floats: `[m], [n] → [m - n + 1],
/// [m]`. The quotient is `[0]` if the divisor is longer. Infinite or NaN if the first coefficient
/// of the divisor is 0.
#[track_caller]
pub fn polydiv(p: &Array, divisor: &Array) -> (Array, Array) {
    vectors("polydiv", &[p, divisor]);
    let (m, n) = (p.size(), divisor.size());
    let dtype = inexact(&zeros(([0], super::result_type([p.like(), divisor.like()])))).dtype();
    let divisor = convert_element_type(divisor, dtype);
    let mut rest = convert_element_type(p, dtype);
    if m < n {
        return (zeros(([1], dtype)), rest);
    }
    let lead = coefficients(&divisor, 0, 1);
    let mut quotient = Vec::with_capacity(m - n + 1);
    for index in 0..=m - n {
        let factor = div(coefficients(&rest, index, index + 1), &lead);
        let padding =
            PaddingDim { low: index as isize, high: (m - n - index) as isize, interior: 0 };
        rest = sub(&rest, lax_pad(&mul(&divisor, &factor), 0, &[padding]));
        quotient.push(factor);
    }
    (concatenate(&quotient, 0), rest)
}

/// Returns the derivative of order `order`, with `order` coefficients fewer; `[0]` beyond the
/// degree.
#[track_caller]
pub fn polyder(p: &Array, order: usize) -> Array {
    vectors("polyder", &[p]);
    let mut p = p.clone();
    for _ in 0..order {
        let n = p.size();
        if n == 1 {
            return crate::primitives::zeros_like(&p);
        }
        let powers = crate::primitives::rev(&super::arange(n as i32), &[0]);
        p = mul(
            coefficients(&p, 0, n - 1),
            convert_element_type(&coefficients(&powers, 0, n - 1), p.dtype()),
        );
    }
    p
}

/// Integrates the polynomial once for each of the integration constants, which adds one coefficient
/// each time. Integers become floats.
///
/// ```
/// use oxidax::prelude::*;
/// let twice = eval_shape(|p: Array| polyint(&p, &[0.0, 1.0]), Aval::new(DType::F32, [3]))?;
/// assert_eq!(twice.aval().to_string(), "f32[5]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn polyint(p: &Array, constants: &[f64]) -> Array {
    vectors("polyint", &[p]);
    let mut p = inexact(p);
    for &constant in constants {
        let n = p.size();
        let powers = crate::primitives::rev(&super::arange(n as i32), &[0]);
        let powers = convert_element_type(&add(powers, 1), p.dtype());
        let last = full_like(&coefficients(&p, 0, 1), constant);
        p = append(&div(&p, powers), &last, 0);
    }
    p
}

/// Returns the monic polynomial with these roots, `Π (x - rᵢ)`: `[n] → [n + 1]`. Throws `Op`
/// (shape) unless the roots are a vector. The characteristic polynomial of a matrix: not yet.
#[track_caller]
pub fn poly(roots: &Array) -> Array {
    if roots.rank() != 1 {
        let message = format!("takes a vector of roots, got {}", roots.aval());
        trace::throw_operands("poly", RuleError::shape(message), &[roots]);
    }
    let roots = inexact(roots);
    let one = crate::primitives::ones(([1], roots.dtype()));
    let mut product = one.clone();
    for root in unstack(&roots, 0) {
        let factor = append(&one, &reshape(&neg(&root), [1]), 0);
        product = polymul(&product, &factor);
    }
    product
}

/// Returns the coefficients, `[degree + 1]`, of the least squares fit of a polynomial to the values
/// `y`,
/// `[n]`, at `x`, `[n]`. For `y` of `[n, k]` the result has `k` columns. Integers become floats.
///
/// Columns of powers are normalized first. Throws `Op` (shape) unless `x` is a vector and `y` has
/// the same length.
#[track_caller]
pub fn polyfit(x: &Array, y: &Array, degree: usize) -> Array {
    polyfit_with(x, y, degree, PolyfitOptions::default())
}

/// Options of [`polyfit_with`].
#[derive(Clone, Copy, Debug, Default)]
pub struct PolyfitOptions<'a> {
    /// Weights of the residuals, `[n]`, before they are squared. All are 1 if `None`.
    pub w: Option<&'a Array>,
    /// Singular values up to `rcond` times the largest count as zero; `n · ε` if `None`.
    pub rcond: Option<f64>,
}

/// Fits a polynomial, as [`polyfit`], with weights or another tolerance.
///
/// Throws `Op` (shape) unless the weights have the shape of `x`.
#[track_caller]
pub fn polyfit_with(x: &Array, y: &Array, degree: usize, options: PolyfitOptions<'_>) -> Array {
    Loc::caller().scope(|| {
        if x.rank() != 1 || y.shape().first() != Some(&x.size()) {
            let message = format!("takes vectors of one size, got {} and {}", x.shape(), y.shape());
            trace::throw_operands("polyfit", RuleError::shape(message), &[x, y]);
        }
        let powers = super::vander(&inexact(x), degree + 1);
        let (powers, y) = match options.w {
            None => (powers, y.clone()),
            Some(w) if w.shape() == x.shape() => {
                let column = reshape(w, [w.size(), 1]);
                let rows = if y.rank() == 1 { mul(y, w) } else { mul(y, &column) };
                (mul(&powers, &column), rows)
            }
            Some(w) => {
                let message = format!("weights {} for {}", w.shape(), x.shape());
                trace::throw_operands("polyfit", RuleError::shape(message), &[x, w])
            }
        };
        let scale = sqrt(mul(&powers, &powers).sum_axes(super::axes(0).keepdims()));
        let rcond = options.rcond.unwrap_or(x.size() as f64 * powers.dtype().epsilon());
        let options = LstsqOptions { rcond: Some(rcond) };
        let solution = lstsq_with(&div(&powers, &scale), &y, options).x;
        match y.rank() {
            1 => div(solution, reshape(&scale, [degree + 1])),
            _ => div(solution, reshape(&scale, [degree + 1, 1])),
        }
    })
}
