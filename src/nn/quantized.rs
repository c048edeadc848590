//! Linear layers with 8-bit weights, for inference.

use super::Linear;
use crate::core::{Array, DType, Loc, RuleError, throw_operands};
use crate::ops::{axes, clip, matmul};
use crate::primitives::{
    DotGeneral, abs, convert_element_type, div, dot_general, eq, round, where_,
};
use crate::tree::Tree;

/// The largest quantized integer. The range is symmetric.
const LARGEST: f64 = 127.0;

/// Quantizes `x` along `axis` to `i8` integers `q` and an `f32` scale.
///
/// `q · scale` differs from `x` by at most half a scale. `q` has the shape of `x`. The scale has
/// size 1 along `axis`, and is 1 where `x` is zero along the whole axis.
///
/// Throws `Op` (dtype) if `x` is not a real float.
///
/// ```
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
        let scale = where_(eq(&scale, 0), 1, &scale);
        let nearest = round(div(&x, &scale));
        (convert_element_type(&clip(&nearest, -LARGEST, LARGEST), DType::I8), scale)
    })
}

/// A [`Linear`] layer with 8-bit integer weights and a scale for each output.
///
/// It takes a quarter of the memory. It is for inference: rounding has no derivative.
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
/// Reference: Dettmers et al., "LLM.int8(): 8-bit matrix multiplication for transformers at scale"
/// (2022), section 2.1, without its outliers.
#[derive(Clone, Debug, Tree)]
pub struct QuantizedLinear {
    /// The quantized weight, `i8[in, out]`.
    pub weight: Array,
    /// The scale of each output, `f32[1, out]`.
    pub scale: Array,
    /// The bias, `[out]`.
    pub bias: Option<Array>,
}

impl QuantizedLinear {
    /// Quantizes the weight of a layer.
    #[track_caller]
    pub fn of(layer: &Linear) -> QuantizedLinear {
        let (weight, scale) = quantize(&layer.weight, 0);
        QuantizedLinear { weight, scale, bias: layer.bias.clone() }
    }

    /// Computes `x · weight + bias`, `[…, in] → […, out]`, in the dtype of `x`.
    ///
    /// `x` is quantized too, row by row. Products of integers are summed exactly, in `i32`. With
    /// `n` inputs, the scale `s` of the output and the scale `r = max |x| / 127` of the row, the
    /// error of an output is at most `Σ |x| · s / 2 + Σ |w| · r / 2 + n · r · s / 4`.
    ///
    /// Throws `Op` if the last axis of `x` is not `in`, or `x` is not a real float.
    #[track_caller]
    pub fn forward(&self, x: &Array) -> Array {
        let (q, rows) = quantize(x, -1);
        let dimensions = DotGeneral {
            lhs_contracting: vec![x.rank() - 1],
            rhs_contracting: vec![0],
            preferred_element_type: Some(DType::I32),
            ..DotGeneral::default()
        };
        let sums = convert_element_type(&dot_general(&q, &self.weight, dimensions), DType::F32);
        self.scale_and_bias(&(sums * rows), x)
    }

    /// Computes `x · weight + bias` without quantizing `x`.
    ///
    /// The error of an output is at most `Σ |x| · s / 2`. It is slower than
    /// [`QuantizedLinear::forward`] on devices that multiply integers faster than floats.
    #[track_caller]
    pub fn forward_weight_only(&self, x: &Array) -> Array {
        let weight = convert_element_type(&self.weight, x.dtype());
        let product = matmul(x, &weight);
        self.scale_and_bias(&convert_element_type(&product, DType::F32), x)
    }

    /// Applies the scale of each output and the bias, in the dtype of `x`.
    #[track_caller]
    fn scale_and_bias(&self, sums: &Array, x: &Array) -> Array {
        let y = Loc::caller().scope(|| {
            let scaled = sums * self.scale.reshape([self.weight.shape()[1]]);
            match &self.bias {
                Some(bias) => scaled + convert_element_type(bias, DType::F32),
                None => scaled,
            }
        });
        convert_element_type(&y, x.dtype())
    }
}
