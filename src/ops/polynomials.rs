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

/// `p` with zeros in front, `n` coefficients in all.
#[track_caller]
fn longer(p: &Array, n: usize) -> Array {
    let low = (n - p.size()) as isize;
    lax_pad(p, 0, &[PaddingDim { low, high: 0, interior: 0 }])
}

/// Coefficients between two positions.
#[track_caller]
fn part(p: &Array, from: usize, to: usize) -> Array {
    slice(p, &[from], &[to], &[1])
}

/// The polynomial's value at each element of `x`, by Horner's rule, with promotion. Throws `Op` (shape)
/// if `p` is no vector of at least one coefficient.
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

/// The complex numbers where the polynomial is zero, one fewer than coefficients: eigenvalues of the
/// companion matrix. Zeros in front of the coefficients leave fewer roots, and NaN stands for those that
/// are missing, at the end, as a traced program cannot have fewer: JAX's `strip_zeros=False`. All NaN if
/// there are only zeros.
///
/// Has derivatives where no two roots coincide. Throws `Op` (shape) if `p` is no vector of at least one
/// coefficient.
///
/// ```no_run
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
        return zeros([0], dtype);
    }
    Loc::caller().scope(|| {
        let zero = eq(&p, 0);
        let place = iota(DType::I32, n + 1);
        let used = where_(&zero, n as i32 + 1, &place).min();
        let last = where_(&zero, -1, &place).max();
        // The coefficients from the first that is not zero on. What follows the last one is zero, and rows of
        // zeros in the matrix give its zeros exactly.
        let from = minimum(&used, n as i32);
        let shifted = take(&concatenate(&[&p, &zeros_like(&p)], 0), &(&place + &from), 0);
        let leading = part(&shifted, 0, 1);
        let nothing = eq(&leading, 0);
        let row = neg(&div(part(&shifted, 1, n + 1), where_(&nothing, 1, leading)));
        let along = |axis| broadcasted_iota(DType::I32, [n, n], axis);
        let (i, j) = (along(0), along(1));
        let below = eq(&i, &j + 1) & lt(&i, sub(&last, &used));
        let companion = where_(&eq(&i, 0), broadcast_in_dim(&row, [n, n], &[1]), 0);
        let companion = &companion + convert_element_type(&below, p.dtype());
        let w = eigvals(&companion);
        let there = lt(iota(DType::I32, n), sub(n as i32, &used));
        where_(&there, &w, full_like(&w, Scalar::Complex(f64::NAN, f64::NAN)))
    })
}

#[track_caller]
fn same_length(name: &str, p: &Array, q: &Array) -> [Array; 2] {
    vectors(name, &[p, q]);
    let n = p.size().max(q.size());
    promote_arrays(name, [longer(p, n).like(), longer(q, n).like()])
}

/// Sum of two polynomials, as many coefficients as the longer one has.
#[track_caller]
pub fn polyadd(p: &Array, q: &Array) -> Array {
    let [p, q] = same_length("polyadd", p, q);
    add(&p, &q)
}

/// Difference of two polynomials, as many coefficients as the longer one has.
#[track_caller]
pub fn polysub(p: &Array, q: &Array) -> Array {
    let [p, q] = same_length("polysub", p, q);
    sub(&p, &q)
}

/// Product of two polynomials: `[m], [n] → [m + n - 1]`. Zeros in front stay, as a traced program
/// cannot look for them.
#[track_caller]
pub fn polymul(p: &Array, q: &Array) -> Array {
    vectors("polymul", &[p, q]);
    let (long, short) = if p.size() < q.size() { (q, p) } else { (p, q) };
    let (n, dtype) = (short.size(), super::result_type([p.like(), q.like()]));
    let (long, short) = (convert_element_type(long, dtype), convert_element_type(short, dtype));
    let mut product = zeros([long.size() + n - 1], dtype);
    for (place, coefficient) in unstack(&short, 0).iter().enumerate() {
        let shifted =
            PaddingDim { low: place as isize, high: (n - 1 - place) as isize, interior: 0 };
        product = add(&product, lax_pad(&mul(&long, coefficient), 0, &[shifted]));
    }
    product
}

/// Quotient and remainder of two polynomials: `[m], [n] → [m - n + 1], [m]`, in floats. The quotient is
/// `[0]` if the divisor is longer. Infinite or NaN if the divisor's first coefficient is 0.
#[track_caller]
pub fn polydiv(p: &Array, divisor: &Array) -> (Array, Array) {
    vectors("polydiv", &[p, divisor]);
    let (m, n) = (p.size(), divisor.size());
    let dtype = inexact(&zeros([0], super::result_type([p.like(), divisor.like()]))).dtype();
    let divisor = convert_element_type(divisor, dtype);
    let mut rest = convert_element_type(p, dtype);
    if m < n {
        return (zeros([1], dtype), rest);
    }
    let lead = part(&divisor, 0, 1);
    let mut quotient = Vec::with_capacity(m - n + 1);
    for place in 0..=m - n {
        let factor = div(part(&rest, place, place + 1), &lead);
        let around =
            PaddingDim { low: place as isize, high: (m - n - place) as isize, interior: 0 };
        rest = sub(&rest, lax_pad(&mul(&divisor, &factor), 0, &[around]));
        quotient.push(factor);
    }
    (concatenate(&quotient, 0), rest)
}

/// The derivative, taken `order` times: `order` coefficients fewer, `[0]` beyond the degree.
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
        p = mul(part(&p, 0, n - 1), convert_element_type(&part(&powers, 0, n - 1), p.dtype()));
    }
    p
}

/// An antiderivative, taken once for each of the integration constants: one coefficient more each
/// time. Integers become floats.
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
        let last = full_like(&part(&p, 0, 1), constant);
        p = append(&div(&p, powers), &last, 0);
    }
    p
}

/// The polynomial with the given roots, `[n] → [n + 1]`, its first coefficient 1: `Π (x - rᵢ)`. Throws
/// `Op` (shape) if they are no vector; the characteristic polynomial of a matrix is not made here.
#[track_caller]
pub fn poly(roots: &Array) -> Array {
    if roots.rank() != 1 {
        let message = format!("takes a vector of roots, got {}", roots.aval());
        trace::throw_operands("poly", RuleError::shape(message), &[roots]);
    }
    let roots = inexact(roots);
    let one = crate::primitives::ones([1], roots.dtype());
    let mut product = one.clone();
    for root in unstack(&roots, 0) {
        let factor = append(&one, &reshape(&neg(&root), [1]), 0);
        product = polymul(&product, &factor);
    }
    product
}

/// The coefficients, `[degree + 1]`, of the polynomial that fits the values `y`, `[n]`, at `x`, `[n]`, with the least
/// sum of squared errors; for `y` of `[n, k]` one column for each of its own. Integers become floats.
///
/// Columns of powers are scaled to one length first. Throws `Op` (shape) if `x` is no vector or `y` has
/// another length.
#[track_caller]
pub fn polyfit(x: &Array, y: &Array, degree: usize) -> Array {
    if x.rank() != 1 || y.shape().first() != Some(&x.size()) {
        let message = format!("takes vectors of one size, got {} and {}", x.shape(), y.shape());
        trace::throw_operands("polyfit", RuleError::shape(message), &[x, y]);
    }
    let powers = super::vander(&inexact(x), degree + 1);
    let scale = sqrt(&mul(&powers, &powers).sum_axes(super::axes(0).keepdims()));
    let rcond = x.size() as f64 * powers.dtype().epsilon();
    let options = LstsqOptions { rcond: Some(rcond) };
    let solution = lstsq_with(&div(&powers, &scale), y, options).x;
    match y.rank() {
        1 => div(solution, reshape(&scale, [degree + 1])),
        _ => div(solution, reshape(&scale, [degree + 1, 1])),
    }
}
