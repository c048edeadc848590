//! [`QuantizedWeight`]: a matrix of small integers with scales.

use crate::core::{Loc, RuleError, throw_operands};
use crate::ops::{axes, clip, pad};
use crate::primitives::{
    bitwise_and, concatenate, convert_element_type, eq, maximum, minimum, reshape, round,
    shift_left, shift_right_arithmetic, slice_in_dim, where_,
};
use crate::{Array, DType, Tree};

/// The integers of a [`QuantizedWeight`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Quantization {
    /// One byte for each weight.
    Int8 {
        /// The number of consecutive weights of a column with a common scale; `None` for one scale
        /// per column.
        group_size: Option<usize>,
    },
    /// Half a byte for each weight.
    Int4 {
        /// The number of consecutive weights of a column with a common scale, 32, 64 or 128.
        group_size: usize,
    },
}

impl Quantization {
    /// Returns the least and the greatest integer.
    fn range(self) -> (i32, i32) {
        match self {
            Quantization::Int8 { .. } => (-128, 127),
            Quantization::Int4 { .. } => (-8, 7),
        }
    }

    /// Returns the number of rows of a group in a matrix with `rows` rows.
    pub(super) fn group_rows(self, rows: usize) -> usize {
        match self {
            Quantization::Int8 { group_size: None } => rows,
            Quantization::Int8 { group_size: Some(size) } => size,
            Quantization::Int4 { group_size } => group_size,
        }
    }

    /// Returns the number of groups of a column with `rows` rows. Integers of 4 bits are stored in
    /// pairs of groups.
    fn n_groups(self, rows: usize) -> usize {
        let count = rows.div_ceil(self.group_rows(rows));
        match self {
            Quantization::Int8 { .. } => count,
            Quantization::Int4 { .. } => count.next_multiple_of(2),
        }
    }
}

/// A matrix `[k, n]` of small integers: an element is `scale · (integer - zero point)`, where a
/// group of rows of a column has one scale.
///
/// Rows are padded by zeros to whole groups. The struct is a [`Tree`], so it is an argument of
/// [`jit`](crate::jit::jit()) and a field of models.
///
/// ```
/// use oxidax::kernels::{Quantization, QuantizedWeight};
/// use oxidax::prelude::*;
/// let quantize = |w: Array| QuantizedWeight::quantize(&w, Quantization::Int4 { group_size: 64 });
/// let weight = eval_shape(quantize, Aval::new(DType::F32, [4096, 512]))?;
/// assert_eq!(weight.values.aval().to_string(), "i8[2048,512]");
/// assert_eq!(weight.scales.aval().to_string(), "f32[64,512]");
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// References: Dettmers et al., "LLM.int8()" (2022), for a scale per column; Frantar et al., "GPTQ"
/// (2022), and Lin et al., "AWQ" (2023), for scales of groups. Those methods also choose the
/// integers by calibration data. This type holds their results, and rounds to the nearest integer
/// in [`QuantizedWeight::quantize`].
#[derive(Clone, Debug, Tree)]
pub struct QuantizedWeight {
    /// The integers. For [`Quantization::Int8`], `i8[k, n]`. For [`Quantization::Int4`],
    /// `i8[k / 2, n]`: the low four bits of the bytes of group `p` are group `2 p` of the matrix,
    /// the high four bits group `2 p + 1`.
    pub values: Array,
    /// The scales, `f32[groups, n]`.
    pub scales: Array,
    /// The zero points, `f32[groups, n]`; 0 if `None`.
    pub zero_points: Option<Array>,
    /// The number of rows of the matrix, without padding.
    #[tree(static)]
    pub rows: usize,
    /// The integers.
    #[tree(static)]
    pub quantization: Quantization,
}

impl QuantizedWeight {
    /// Rounds a matrix `[k, n]` of floats to integers around zero. The largest magnitude of each
    /// group becomes 127 or 7.
    ///
    /// Throws `Op` (shape) for another rank, an empty matrix or a group size of 0, and `Op` (dtype)
    /// for a matrix that is not of floats.
    #[track_caller]
    pub fn quantize(weight: &Array, quantization: Quantization) -> QuantizedWeight {
        check(weight, quantization);
        Loc::caller().scope(|| {
            let grouped = grouped(weight, quantization);
            let greatest = quantization.range().1;
            let scales = grouped.abs().max_axes(axes(1).keepdims()) / f64::from(greatest);
            let scales = where_(eq(&scales, 0.0), 1.0, &scales);
            let integers = clip(&round(grouped / &scales), -greatest, greatest);
            QuantizedWeight::of_groups(&integers, &scales, None, weight.shape()[0], quantization)
        })
    }

    /// Rounds a matrix `[k, n]` of floats to integers with a zero point for each group: its least
    /// and greatest number become the least and the greatest integer. Zero is represented exactly.
    ///
    /// Throws as [`QuantizedWeight::quantize`] does.
    #[track_caller]
    pub fn quantize_with_zero_points(
        weight: &Array,
        quantization: Quantization,
    ) -> QuantizedWeight {
        check(weight, quantization);
        Loc::caller().scope(|| {
            let grouped = grouped(weight, quantization);
            let (least, greatest) = quantization.range();
            let low = minimum(grouped.min_axes(axes(1).keepdims()), 0.0);
            let high = maximum(grouped.max_axes(axes(1).keepdims()), 0.0);
            let scales = (high - &low) / f64::from(greatest - least);
            let scales = where_(eq(&scales, 0.0), 1.0, &scales);
            let zeros = f64::from(least) - round(low / &scales);
            let integers = clip(&(round(grouped / &scales) + &zeros), least, greatest);
            let rows = weight.shape()[0];
            QuantizedWeight::of_groups(&integers, &scales, Some(&zeros), rows, quantization)
        })
    }

    /// Stores integers `[groups, group rows, n]`, with scales and zero points `[groups, 1, n]`.
    fn of_groups(
        integers: &Array,
        scales: &Array,
        zero_points: Option<&Array>,
        rows: usize,
        quantization: Quantization,
    ) -> QuantizedWeight {
        let [groups, group, n] = [0, 1, 2].map(|axis| integers.shape()[axis]);
        let integers = convert_element_type(integers, DType::I32);
        let bytes = match quantization {
            Quantization::Int8 { .. } => reshape(&integers, [groups * group, n]),
            Quantization::Int4 { .. } => {
                let pairs = reshape(&integers, [groups / 2, 2, group, n]);
                let [low, high] = [0, 1].map(|half| slice_in_dim(&pairs, half, half + 1, 1, 1));
                let bytes = bitwise_and(low, 15) + high * 16;
                reshape(&bytes, [groups / 2 * group, n])
            }
        };
        QuantizedWeight {
            values: convert_element_type(&bytes, DType::I8),
            scales: reshape(scales, [groups, n]),
            zero_points: zero_points.map(|zeros| reshape(zeros, [groups, n])),
            rows,
            quantization,
        }
    }

    /// Returns the shape of the matrix, `[k, n]`.
    pub fn shape(&self) -> [usize; 2] {
        [self.rows, self.scales.shape()[1]]
    }

    /// Returns the matrix as `f32[k, n]`.
    #[track_caller]
    pub fn dequantize(&self) -> Array {
        Loc::caller().scope(|| {
            let group = self.quantization.group_rows(self.rows);
            let [groups, n] = [0, 1].map(|axis| self.scales.shape()[axis]);
            let integers = match self.quantization {
                Quantization::Int8 { .. } => reshape(&self.values, [groups, group, n]),
                Quantization::Int4 { .. } => {
                    let bytes = reshape(&self.values, [groups / 2, 1, group, n]);
                    let pairs = concatenate(halves(&bytes), 1);
                    reshape(&pairs, [groups, group, n])
                }
            };
            let per_group = |x: &Array| reshape(x, [groups, 1, n]);
            let mut weights = convert_element_type(&integers, DType::F32);
            if let Some(zeros) = &self.zero_points {
                weights -= per_group(zeros);
            }
            let weights = reshape(&(weights * per_group(&self.scales)), [groups * group, n]);
            slice_in_dim(&weights, 0, self.rows as isize, 1, 0)
        })
    }
}

/// Returns the low and the high four bits of bytes as `i32`, with their signs.
pub(super) fn halves(bytes: &Array) -> [Array; 2] {
    let bytes = convert_element_type(bytes, DType::I32);
    [shift_right_arithmetic(shift_left(&bytes, 28), 28), shift_right_arithmetic(&bytes, 4)]
}

#[track_caller]
fn check(weight: &Array, quantization: Quantization) {
    let name = "QuantizedWeight::quantize";
    let refuse =
        |message: String| -> ! { throw_operands(name, RuleError::shape(message), &[weight]) };
    if weight.rank() != 2 || weight.shape().contains(&0) {
        refuse(format!("takes a matrix [k, n] with elements, got {}", weight.aval()));
    }
    if !weight.dtype().is_float() {
        let message = format!("takes a matrix of floats, got {}", weight.aval());
        throw_operands(name, RuleError::dtype(message), &[weight]);
    }
    if quantization.group_rows(weight.shape()[0]) == 0 {
        refuse(format!("a group size of 0 in {quantization:?}"));
    }
}

/// Returns a matrix as `f32[groups, group rows, n]`, padded by zeros.
fn grouped(weight: &Array, quantization: Quantization) -> Array {
    let [k, n] = [0, 1].map(|axis| weight.shape()[axis]);
    let (groups, group) = (quantization.n_groups(k), quantization.group_rows(k));
    let weight = convert_element_type(weight, DType::F32);
    let padded = pad(&weight, [(0, groups * group - k), (0, 0)]);
    reshape(&padded, [groups, group, n])
}
