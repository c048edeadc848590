//! Products of block-scaled operands, such as the microscaling formats.

use super::{MatmulOptions, matmul_with, repeat, swapaxes};
use crate::core::{Array, DType, RuleError, throw_operands};
use crate::primitives::{DotGeneral, convert_element_type, dot_general, mul};

/// Options of [`scaled_matmul_with`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScaledMatmulOptions {
    /// The dtype of sums and result, `f32`, `bf16` or `f16`. The default is `f32`.
    pub preferred_element_type: DType,
}

impl Default for ScaledMatmulOptions {
    fn default() -> Self {
        ScaledMatmulOptions { preferred_element_type: DType::F32 }
    }
}

/// Returns the product `[b, m, n]` of `lhs`, `[b, m, k]`, and `rhs`, `[b, n, k]`, whose blocks
/// along `k` are scaled: each element of `lhs_scales`, `[b, m, s]`, and of `rhs_scales`, `[b, n,
/// s]`, belongs to `k / s` consecutive elements. Operands and scales are converted to `f32` first.
///
/// The usual formats are blocks of 32 `f8_e4m3fn` with `f8_e8m0fnu` scales (mxfp8), and of 16
/// `f4_e2m1fn` with `f8_e4m3fn` scales (nvfp4).
///
/// Throws `Op` (shape) if shapes do not fit.
///
/// # Reference
/// Rouhani et al., "Microscaling data formats for deep learning", 2023.
///
/// ```
/// use oxidax::prelude::*;
/// let (x, y) = (array![[[1.0, 2.0, 3.0]]], array![[[4.0, 5.0, 6.0]]]);
/// let half = array![[[0.5]]];
/// assert_eq!(scaled_matmul(&x, &y, &half, &half).to_vec::<f32>()?, [8.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn scaled_matmul(lhs: &Array, rhs: &Array, lhs_scales: &Array, rhs_scales: &Array) -> Array {
    scaled_matmul_with([lhs, rhs], [lhs_scales, rhs_scales], ScaledMatmulOptions::default())
}

/// Returns the product of block-scaled operands, as [`scaled_matmul`], in another dtype.
#[track_caller]
pub fn scaled_matmul_with(
    operands: [&Array; 2],
    scales: [&Array; 2],
    options: ScaledMatmulOptions,
) -> Array {
    let [lhs, rhs] = operands;
    let fits = lhs.rank() == 3
        && rhs.rank() == 3
        && (lhs.shape()[0], lhs.shape()[2]) == (rhs.shape()[0], rhs.shape()[2])
        && scales[0].shape().last() == scales[1].shape().last();
    if !fits {
        let message = format!(
            "takes [b, m, k] and [b, n, k] with as many scales along k, got {} and {} with scales \
             {} and {}",
            lhs.aval(),
            rhs.aval(),
            scales[0].aval(),
            scales[1].aval()
        );
        throw_operands("scaled_matmul", RuleError::shape(message), &[lhs, rhs]);
    }
    let [x, y] = [0, 1].map(|side| scaled("scaled_matmul", operands[side], scales[side]));
    let product = matmul_with(&x, &swapaxes(&y, 1, 2), MatmulOptions::default());
    convert_element_type(&product, options.preferred_element_type)
}

/// Returns the product that `numbers` describes of operands times their scales, in
/// `numbers.preferred_element_type`, or `f32`. Each axis of the scales, if there are any, has the
/// size of the operand's or a divisor of it.
///
/// Throws `Op` (shape) for other scales.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::primitives::DotGeneral;
/// let numbers =
///     DotGeneral { lhs_contracting: vec![1], rhs_contracting: vec![0], ..Default::default() };
/// let (x, y) = (array![[1.0, 2.0]], array![[3.0], [4.0]]);
/// let product = scaled_dot(&x, &y, [Some(&array![[2.0]]), None], numbers);
/// assert_eq!(product.to_vec::<f32>()?, [22.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn scaled_dot(
    lhs: &Array,
    rhs: &Array,
    scales: [Option<&Array>; 2],
    numbers: DotGeneral,
) -> Array {
    let result = numbers.preferred_element_type.unwrap_or(DType::F32);
    let [x, y] = [(lhs, scales[0]), (rhs, scales[1])].map(|(x, scale)| match scale {
        Some(scale) => scaled("scaled_dot", x, scale),
        None => convert_element_type(x, DType::F32),
    });
    let wide = DotGeneral { preferred_element_type: Some(DType::F32), ..numbers };
    convert_element_type(&dot_general(&x, &y, wide), result)
}

/// Returns `x` times the scale of each block, in `f32`.
#[track_caller]
fn scaled(name: &str, x: &Array, scales: &Array) -> Array {
    let divides = |axis: usize| {
        let (size, blocks) = (x.shape()[axis], scales.shape()[axis]);
        blocks > 0 && size.is_multiple_of(blocks)
    };
    if scales.rank() != x.rank() || !(0..x.rank()).all(divides) {
        let message = format!("scales {} do not divide the axes of {}", scales.aval(), x.aval());
        throw_operands(name, RuleError::shape(message), &[x, scales]);
    }
    let mut factors = convert_element_type(scales, DType::F32);
    for axis in 0..x.rank() {
        let count = x.shape()[axis] / scales.shape()[axis];
        if count > 1 {
            factors = repeat(&factors, count, axis as isize);
        }
    }
    mul(convert_element_type(x, DType::F32), factors)
}
