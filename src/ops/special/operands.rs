//! What special functions do with their operands before they compute, and with narrow floats.

use crate::core::{Array, Aval, DType, Loc, RuleError, trace};
use crate::ops::stack;
use crate::primitives::{
    Like, add, convert_element_type, fill_of, full_like, mul, promote_inexact,
};

/// The operands of `name`, promoted to one float dtype and shape. Throws `Op` (dtype) for complex ones.
#[track_caller]
pub(super) fn real<const N: usize>(name: &str, operands: [Like<'_>; N]) -> [Array; N] {
    let operands = promote_inexact(name, operands);
    if operands[0].dtype().is_complex() {
        let message = format!("needs a real operand, got {}", operands[0].dtype());
        trace::throw_operands(name, RuleError::dtype(message), &operands.each_ref());
    }
    operands
}

/// What `f` makes of the operands, in `f32` if they are narrower than that, and back in their dtype; all of it
/// said to be at the caller's line.
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

/// The polynomial in `x` with these coefficients, the highest power first, by Horner's rule.
pub(super) fn horner(x: &Array, coefficients: &[f64]) -> Array {
    let mut value = full_like(x, coefficients[0]);
    for &coefficient in &coefficients[1..] {
        value = add(mul(&value, x), coefficient);
    }
    value
}

/// A vector of these numbers.
#[track_caller]
pub(super) fn listed(values: &[f64], dtype: DType) -> Array {
    let aval = Aval::new(dtype, []);
    let values: Vec<Array> = values.iter().map(|&value| fill_of(value.into(), &aval)).collect();
    stack(values.iter().collect::<Vec<_>>(), 0)
}
