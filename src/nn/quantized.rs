//! Linear layers with weights of eight bits, for inference.

use super::Linear;
use crate::core::{Array, DType, Loc, RuleError, throw_operands};
use crate::ops::{axes, clip, matmul};
use crate::primitives::{
    DotGeneral, abs, convert_element_type, div, dot_general, eq, round, where_,
};
use crate::tree::Tree;

/// The largest integer that is used, so that the range is symmetric.
const LARGEST: f64 = 127.0;

/// `x` along `axis` as integers times a scale: `q: i8` of `x`'s shape, and the scale, `f32`, with the axis kept
/// at size 1, so that `q · scale` differs from `x` by half a scale at most. The scale is 1 where `x` is zero
/// along the whole axis.
///
/// Throws `Op` (dtype) if `x` is not a real float.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let x = Array::from_slice(&[127.0f32, -63.5, 0.0], [3])?;
/// let (q, scale) = nn::quantize(&x, 0);
/// assert_eq!((q.to_vec::<i8>()?, scale.to_vec::<f32>()?), (vec![127, -64, 0], vec![1.0]));
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn quantize(x: &Array, axis: isize) -> (Array, Array) {
    if !x.dtype().is_float() {
        let error = RuleError::dtype(format!("quantizes real floats, got {}", x.dtype()));
        throw_operands("quantize", error, &[x]);
    }
    Loc::caller().scope(|| {
        let x = convert_element_type(x, DType::F32);
        let scale = div(abs(&x).max_axes(axes(axis).keepdims()), LARGEST);
        let scale = where_(&eq(&scale, 0), 1, &scale);
        let nearest = round(&div(&x, &scale));
        (convert_element_type(&clip(&nearest, -LARGEST, LARGEST), DType::I8), scale)
    })
}

/// A [`Linear`] layer whose weight is integers of eight bits, with a scale for each output: a quarter of the
/// memory. For inference: rounding has no derivative.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(
///     |key: random::Key, x: Array| {
///         nn::QuantizedLinear::of(&nn::Linear::new(key, 784, 10)).forward(&x)
///     },
///     (random::Key::of_type(), Aval::new(DType::BF16, [8, 784])),
/// )?;
/// assert_eq!(y.aval().to_string(), "bf16[8,10]");
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// Reference: Dettmers et al., "LLM.int8(): 8-bit matrix multiplication for transformers at scale" (2022),
/// section 2.1, without its outliers.
#[derive(Clone, Debug, Tree)]
pub struct QuantizedLinear {
    /// The map divided by the scales, rounded: `i8[in, out]`.
    pub weight: Array,
    /// What each output is multiplied with: `f32[1, out]`.
    pub scale: Array,
    /// The offset, `[out]`.
    pub bias: Option<Array>,
}

impl QuantizedLinear {
    /// The layer with its weight quantized.
    #[track_caller]
    pub fn of(layer: &Linear) -> QuantizedLinear {
        let (weight, scale) = quantize(&layer.weight, 0);
        QuantizedLinear { weight, scale, bias: layer.bias.clone() }
    }

    /// `x · weight + bias`, from `[…, in]` to `[…, out]`, in the dtype of `x`, with `x` quantized too: by rows, as
    /// it comes. Products of integers are summed exactly, in `i32`.
    ///
    /// Each output is off by at most `Σ |x| · s / 2 + Σ |w| · r / 2 + n · r · s / 4`, for `n` inputs, its scale
    /// `s` and the row's scale `r = max |x| / 127`.
    ///
    /// Throws `Op` if the last axis of `x` is not `in`, or `x` is not a real float.
    #[track_caller]
    pub fn forward(&self, x: &Array) -> Array {
        let (q, rows) = quantize(x, -1);
        let how = DotGeneral {
            lhs_contracting: vec![x.rank() - 1],
            rhs_contracting: vec![0],
            preferred_element_type: Some(DType::I32),
            ..DotGeneral::default()
        };
        let sums = convert_element_type(&dot_general(&q, &self.weight, how), DType::F32);
        self.finished(&(sums * rows), x)
    }

    /// The same with `x` as it is: only the weight is off, each output by at most `Σ |x| · s / 2`. Slower where
    /// integers are multiplied faster than floats.
    #[track_caller]
    pub fn forward_weight_only(&self, x: &Array) -> Array {
        let weight = convert_element_type(&self.weight, x.dtype());
        let product = matmul(x, &weight);
        self.finished(&convert_element_type(&product, DType::F32), x)
    }

    /// Sums by outputs, scaled, with the bias, in the dtype of `x`.
    #[track_caller]
    fn finished(&self, sums: &Array, x: &Array) -> Array {
        let scaled = sums * self.scale.reshape([self.weight.shape()[1]]);
        let y = match &self.bias {
            Some(bias) => scaled + convert_element_type(bias, DType::F32),
            None => scaled,
        };
        convert_element_type(&y, x.dtype())
    }
}
