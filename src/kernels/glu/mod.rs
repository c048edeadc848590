//! Gated linear units.

mod activation;
mod elementwise;
mod linear;

use crate::Array;
use crate::core::{RuleError, throw_operands};
use crate::primitives::reshape;

pub use activation::GluActivation;

/// Options of [`sigmoid_and_mul_with`], [`silu_and_mul_with`] and [`gelu_and_mul_with`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GluOptions {
    /// The number of rows and of features of a block on all platforms. By default blocks are chosen
    /// by the sizes, and CPUs have one block.
    pub block_sizes: Option<(usize, usize)>,
}

/// Returns `sigmoid(gate) · up` for each element. [`glu`](crate::ops::glu()) is the same of the two
/// halves of one array, without a kernel.
///
/// Operands are of one type, `bf16`, `f16` or `f32`, which the result has. It is computed in `f32`.
/// The backward pass needs the operands only.
///
/// Throws `Op` (shape) if the types differ, and `Op` (dtype) for other dtypes.
///
/// # Reference
/// Dauphin et al., "Language modeling with gated convolutional networks" (2017).
#[doc(alias = "gated_linear_unit")]
#[track_caller]
pub fn sigmoid_and_mul(gate: &Array, up: &Array) -> Array {
    sigmoid_and_mul_with(gate, up, &GluOptions::default())
}

/// Returns the result of [`sigmoid_and_mul`], with options.
///
/// Throws as [`sigmoid_and_mul`] does, and `Op` (value) for blocks without elements.
#[track_caller]
pub fn sigmoid_and_mul_with(gate: &Array, up: &Array, options: &GluOptions) -> Array {
    apply("sigmoid_and_mul", gate, up, GluActivation::Sigmoid, options)
}

/// Returns `silu(gate) · up` for each element. Types are those of [`sigmoid_and_mul`].
///
/// Throws as [`sigmoid_and_mul`] does.
///
/// ```
/// use oxidax::kernels::silu_and_mul;
/// use oxidax::prelude::*;
/// let unit = |gate: Array, up: Array| silu_and_mul(&gate, &up);
/// let x = Aval::new(DType::BF16, [4, 128, 2048]);
/// assert_eq!(eval_shape(unit, (x.clone(), x))?.aval().to_string(), "bf16[4,128,2048]");
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Shazeer, "GLU variants improve transformer" (2020).
#[doc(alias = "swiglu")]
#[track_caller]
pub fn silu_and_mul(gate: &Array, up: &Array) -> Array {
    silu_and_mul_with(gate, up, &GluOptions::default())
}

/// Returns the result of [`silu_and_mul`], with options.
///
/// Throws as [`sigmoid_and_mul`] does, and `Op` (value) for blocks without elements.
#[track_caller]
pub fn silu_and_mul_with(gate: &Array, up: &Array, options: &GluOptions) -> Array {
    apply("silu_and_mul", gate, up, GluActivation::Silu, options)
}

/// Returns `gelu(gate) · up` for each element, with the approximation of GELU by `tanh`. Types are
/// those of [`sigmoid_and_mul`].
///
/// Throws as [`sigmoid_and_mul`] does.
///
/// # Reference
/// Shazeer, "GLU variants improve transformer" (2020).
#[doc(alias("geglu", "gelu_tanh_and_mul"))]
#[track_caller]
pub fn gelu_and_mul(gate: &Array, up: &Array) -> Array {
    gelu_and_mul_with(gate, up, &GluOptions::default())
}

/// Returns the result of [`gelu_and_mul`], with options.
///
/// Throws as [`sigmoid_and_mul`] does, and `Op` (value) for blocks without elements.
#[track_caller]
pub fn gelu_and_mul_with(gate: &Array, up: &Array, options: &GluOptions) -> Array {
    apply("gelu_and_mul", gate, up, GluActivation::Gelu, options)
}

#[track_caller]
fn apply(
    name: &'static str,
    gate: &Array,
    up: &Array,
    activation: GluActivation,
    options: &GluOptions,
) -> Array {
    if let Err(error) = check(gate, up, options.block_sizes) {
        throw_operands(name, error, &[gate, up]);
    }
    let features = gate.shape().last().copied().unwrap_or(1);
    if gate.size() == 0 {
        return gate.clone();
    }
    let shape = [gate.size() / features, features];
    let unit = elementwise::Glu {
        name,
        activation,
        shape,
        dtype: gate.dtype(),
        block_sizes: options.block_sizes,
    };
    reshape(&unit.apply(&reshape(gate, shape), &reshape(up, shape)), gate.shape())
}

fn check(gate: &Array, up: &Array, block: Option<(usize, usize)>) -> Result<(), RuleError> {
    if !gate.aval().same_type(up.aval()) {
        let message = format!("gate is {}, up {}", gate.aval(), up.aval());
        return Err(RuleError::shape(message).help("both must have one shape and dtype"));
    }
    if let Some((0, _) | (_, 0)) = block {
        return Err(RuleError::value("block_sizes must be positive"));
    }
    super::parts::check_dtype("gate", gate)
}

/// Options of [`linear_glu_with`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinearGluOptions {
    /// The function of the gate. The default is [`GluActivation::Silu`].
    pub activation: GluActivation,
    /// The number of rows and of results of a block on all platforms, multiples of 128 on TPUs. The
    /// default is 128 each, and one block on CPUs.
    pub block_sizes: Option<(usize, usize)>,
}

/// Returns `silu(x · w_gate) · (x · w_up)`, the first half of a gated feed-forward layer.
/// [`linear_glu_with`] has other activations.
///
/// `x` is `float[…, d]` and the weights are `[d, f]`, of one dtype, `bf16`, `f16` or `f32`. The
/// result is `[…, f]` of this dtype. Both products are summed in `f32` and are not stored: the
/// backward pass computes them again, and writes their gradients, which are rounded to the dtype of
/// the operands.
///
/// Throws `Op` (shape) if sizes do not fit, and `Op` (dtype) for other dtypes.
///
/// ```
/// use oxidax::kernels::linear_glu;
/// use oxidax::prelude::*;
/// let half = |x: Array, w: Array, v: Array| linear_glu(&x, &w, &v);
/// let (x, w) = (Aval::new(DType::BF16, [4, 128, 768]), Aval::new(DType::BF16, [768, 2048]));
/// assert_eq!(eval_shape(half, (x, w.clone(), w))?.aval().to_string(), "bf16[4,128,2048]");
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Shazeer, "GLU variants improve transformer" (2020).
#[doc(alias("fused_swiglu", "fused_geglu"))]
#[track_caller]
pub fn linear_glu(x: &Array, w_gate: &Array, w_up: &Array) -> Array {
    linear_glu_with(x, w_gate, w_up, &LinearGluOptions::default())
}

/// Returns `activation(x · w_gate) · (x · w_up)` as [`linear_glu`] does, with options.
///
/// Throws as [`linear_glu`] does, and `Op` (value) for blocks without elements.
///
/// ```
/// use oxidax::kernels::{GluActivation, LinearGluOptions, linear_glu_with};
/// use oxidax::prelude::*;
/// let options =
///     LinearGluOptions { activation: GluActivation::Gelu, ..LinearGluOptions::default() };
/// let half = move |x: Array, w: Array, v: Array| linear_glu_with(&x, &w, &v, &options);
/// let (x, w) = (Aval::new(DType::F32, [4, 80]), Aval::new(DType::F32, [80, 200]));
/// assert_eq!(eval_shape(half, (x, w.clone(), w))?.aval().to_string(), "f32[4,200]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn linear_glu_with(
    x: &Array,
    w_gate: &Array,
    w_up: &Array,
    options: &LinearGluOptions,
) -> Array {
    if let Err(error) = check_linear(x, w_gate, w_up, options) {
        throw_operands("linear_glu", error, &[x, w_gate, w_up]);
    }
    let [features, results] = w_gate.dims();
    let rows = x.size() / features;
    let shape = x.shape().remove(x.rank() - 1).insert(x.rank() - 1, results);
    let layer = linear::LinearGlu {
        activation: options.activation,
        rows,
        features,
        results,
        dtype: x.dtype(),
        block_sizes: options.block_sizes,
    };
    if rows * results == 0 {
        return crate::primitives::zeros((shape, x.dtype()));
    }
    reshape(&layer.apply(&reshape(x, [rows, features]), w_gate, w_up), shape)
}

fn check_linear(
    x: &Array,
    w_gate: &Array,
    w_up: &Array,
    options: &LinearGluOptions,
) -> Result<(), RuleError> {
    let (gate, features) = (w_gate.aval(), x.shape().last().copied());
    let fits = features.is_some_and(|d| d > 0 && gate.rank() == 2 && gate.shape[0] == d);
    if !fits || !gate.same_type(w_up.aval()) || gate.dtype != x.dtype() {
        let message = format!("x {}, w_gate {gate} and w_up {} do not fit", x.aval(), w_up.aval());
        return Err(RuleError::shape(message).help("x is `[…, d]`, and both weights are `[d, f]`"));
    }
    if let Some((0, _) | (_, 0)) = options.block_sizes {
        return Err(RuleError::value("block_sizes must be positive"));
    }
    super::parts::check_dtype("x", x)
}
