//! Promotion of operands, computation in `f32`, and polynomials.

use crate::core::{Array, Aval, DType, Loc, RuleError, trace};
use crate::ops::stack;
use crate::primitives::{
    Like, add, convert_element_type, fill_of, full_like, mul, promote_inexact,
};

/// Promotes operands to one float dtype and shape. Throws `Op` (dtype) for complex operands.
#[track_caller]
pub(super) fn real<const N: usize>(name: &str, operands: [Like<'_>; N]) -> [Array; N] {
    let operands = promote_inexact(name, operands);
    if operands[0].dtype().is_complex() {
        let message = format!("needs a real operand, got {}", operands[0].dtype());
        trace::throw_operands(name, RuleError::dtype(message), &operands.each_ref());
    }
    operands
}

/// Applies `f`, in `f32` if the operands are narrower, and converts the results to the dtype of the
/// operands. Operations have the source location of the caller.
#[track_caller]
pub(super) fn in_wide<const N: usize, const M: usize>(
    operands: [Array; N],
    f: impl FnOnce([Array; N]) -> [Array; M],
) -> [Array; M] {
    let dtype = operands[0].dtype();
    Loc::caller().scope(|| {
        if dtype.bits() >= 32 {
            return f(operands);
        }
        let wide = operands.map(|x| convert_element_type(&x, DType::F32));
        f(wide).map(|y| convert_element_type(&y, dtype))
    })
}

/// Evaluates a polynomial with these coefficients, highest power first, by Horner's rule.
pub(super) fn horner(x: &Array, coefficients: &[f64]) -> Array {
    let mut value = full_like(x, coefficients[0]);
    for &coefficient in &coefficients[1..] {
        value = add(mul(&value, x), coefficient);
    }
    value
}

/// Returns a vector of these numbers.
#[track_caller]
pub(super) fn listed(values: &[f64], dtype: DType) -> Array {
    let aval = Aval::new(dtype, []);
    let values: Vec<Array> = values.iter().map(|&value| fill_of(value.into(), &aval)).collect();
    stack(values.iter().collect::<Vec<_>>(), 0)
}
