//! Sine and cosine of complex numbers, circular and hyperbolic, by real functions of the parts.
//!
//! By the addition theorems, all four are products of a sine or cosine of one part and a hyperbolic
//! sine or cosine of the other. The expansions of the plugins compute a hyperbolic sine as a
//! difference of exponentials, which loses four of seven digits near 0.

use crate::core::{Aval, DType, LowerCtx, RuleResult};
use crate::primitives::comparison::{ComparisonDirection, compare_attributes};
use crate::stablehlo::{TensorType, Value};

/// A circular or hyperbolic function.
#[derive(Clone, Copy)]
pub(super) enum Wave {
    Sin,
    Cos,
    Sinh,
    Cosh,
}

/// Writes `product` with `at_zero` where the angle is 0. The other factor of the product may have
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

/// Writes a real function as one operation and a complex one by functions of its parts.
pub(super) fn lower_wave(
    ctx: &mut LowerCtx<'_>,
    wave: Wave,
    operands: &[Value],
    results: &[Aval],
) -> RuleResult<Vec<Value>> {
    let name = match wave {
        Wave::Sin => "sine",
        Wave::Cos => "cosine",
        Wave::Sinh => "chlo.sinh",
        Wave::Cosh => "chlo.cosh",
    };
    Ok(vec![if results[0].dtype.is_complex() {
        lower_complex(ctx, wave, &operands[0], &results[0])
    } else {
        ctx.op(name, operands)
    }])
}

/// Writes a function of complex `z`, whose type the result shares.
fn lower_complex(ctx: &mut LowerCtx<'_>, wave: Wave, z: &Value, result: &Aval) -> Value {
    let dtype = result.dtype.real();
    let part = Aval { dtype, ..result.clone() }.stablehlo();
    let [re, im] = ["real", "imag"].map(|name| ctx.op_as(name, std::slice::from_ref(z), "", &part));
    // The function oscillates along the angle and grows along the other part.
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
