//! Sine and cosine of complex numbers, circular and hyperbolic, by real functions of the parts.
//!
//! All four are made of products of a sine or cosine of one part and a hyperbolic sine or cosine of the
//! other, by the addition theorems. The plugins' own expansions take a hyperbolic sine as a difference
//! of exponentials, which leaves three digits of seven near 0.

use crate::core::{Aval, DType, LowerCtx};
use crate::primitives::comparison::{ComparisonDirection, compare_attributes};
use crate::stablehlo::{TensorType, Value};

/// The functions.
#[derive(Clone, Copy)]
pub(super) enum Wave {
    Sin,
    Cos,
    Sinh,
    Cosh,
}

/// The product of the angle's sine with a factor, or `at_zero` where the angle is 0: the factor may have
/// overflowed, and 0 · ∞ is NaN.
fn unless_zero(
    ctx: &mut LowerCtx<'_>,
    dtype: DType,
    angle: &Value,
    product: Value,
    at_zero: Value,
) -> Value {
    let part = angle.ty().clone();
    let bool = TensorType::new(DType::Bool.stablehlo(), part.dims());
    let zero = ctx.constant("0.0", &part);
    let attributes = compare_attributes(ComparisonDirection::Eq, dtype, false);
    let is_zero = ctx.op_as("compare", &[angle.clone(), zero], &attributes, &bool);
    ctx.op_as("select", &[is_zero, at_zero, product], "", &part)
}

/// Writes a function of `z`, whose complex aval the result shares.
pub(super) fn lower_wave(ctx: &mut LowerCtx<'_>, wave: Wave, z: &Value, result: &Aval) -> Value {
    let dtype = result.dtype.real();
    let part = Aval { dtype, ..result.clone() }.stablehlo();
    let [re, im] = ["real", "imag"].map(|name| ctx.op_as(name, std::slice::from_ref(z), "", &part));
    // Along the angle the function swings, along the other part it grows.
    let (angle, growth) = match wave {
        Wave::Sin | Wave::Cos => (re, im),
        Wave::Sinh | Wave::Cosh => (im, re),
    };
    let [angle, growth] = [angle, growth].map(|value| vec![value]);
    let [sin, cos] = ["sine", "cosine"].map(|name| ctx.op(name, &angle));
    let [sinh, cosh] = ["chlo.sinh", "chlo.cosh"].map(|name| ctx.op(name, &growth));
    let (angle, growth) = (&angle[0], &growth[0]);

    let (re, im) = match wave {
        Wave::Sin | Wave::Sinh => {
            let product = ctx.op("multiply", &[sin, cosh]);
            let sin_cosh = unless_zero(ctx, dtype, angle, product, angle.clone());
            let cos_sinh = ctx.op("multiply", &[cos, sinh]);
            match wave {
                Wave::Sin => (sin_cosh, cos_sinh),
                _ => (cos_sinh, sin_cosh),
            }
        }
        Wave::Cos | Wave::Cosh => {
            let product = ctx.op("multiply", &[sin, sinh]);
            let sign = ctx.op("sign", std::slice::from_ref(growth));
            let at_zero = ctx.op("multiply", &[angle.clone(), sign]);
            let sin_sinh = unless_zero(ctx, dtype, angle, product, at_zero);
            let cos_cosh = ctx.op("multiply", &[cos, cosh]);
            match wave {
                Wave::Cos => (cos_cosh, ctx.op("negate", &[sin_sinh])),
                _ => (cos_cosh, sin_sinh),
            }
        }
    };
    ctx.op_as("complex", &[re, im], "", &result.stablehlo())
}
