//! Layer and root mean square normalization, with an optional addition before it.

mod norm;

use crate::Array;
use crate::core::{RuleError, throw_operands};
use crate::primitives::reshape;
use norm::Norm;

/// Options of [`rms_norm_with`] and [`add_rms_norm_with`].
#[derive(Clone, Debug, PartialEq)]
pub struct RmsNormOptions {
    /// A constant added to the mean square. 1e-6 by default.
    pub epsilon: f64,
    /// The number of rows of a block on all platforms, a multiple of 8 on TPUs. By default it is
    /// chosen by the number of features, and CPUs have one block.
    pub block_rows: Option<usize>,
}

impl Default for RmsNormOptions {
    fn default() -> RmsNormOptions {
        RmsNormOptions { epsilon: 1e-6, block_rows: None }
    }
}

/// Options of [`layer_norm_with`] and [`add_layer_norm_with`].
#[derive(Clone, Debug, PartialEq)]
pub struct LayerNormOptions {
    /// A constant added to the variance. 1e-6 by default.
    pub epsilon: f64,
    /// The number of rows of a block on all platforms, a multiple of 8 on TPUs. By default it is
    /// chosen by the number of features, and CPUs have one block.
    pub block_rows: Option<usize>,
}

impl Default for LayerNormOptions {
    fn default() -> LayerNormOptions {
        LayerNormOptions { epsilon: 1e-6, block_rows: None }
    }
}

/// Divides the features of each row by their root mean square, then multiplies by `scale`.
///
/// `x` is `float[…, d]` and `scale` is `float[d]`, each `bf16`, `f16` or `f32`. The result has the
/// type of `x`. Statistics and products are `f32`. The backward pass recomputes them from `x`.
///
/// Throws `Op` (shape) if sizes do not fit, and `Op` (dtype) for other dtypes.
///
/// ```
/// use oxidax::kernels::rms_norm;
/// use oxidax::prelude::*;
/// let norm = |x: Array, scale: Array| rms_norm(&x, &scale);
/// let (x, scale) = (Aval::new(DType::BF16, [8, 128, 768]), Aval::new(DType::F32, [768]));
/// assert_eq!(eval_shape(norm, (x, scale))?.aval().to_string(), "bf16[8,128,768]");
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Zhang, Sennrich, "Root mean square layer normalization" (2019).
#[track_caller]
pub fn rms_norm(x: &Array, scale: &Array) -> Array {
    rms_norm_with(x, scale, &RmsNormOptions::default())
}

/// Normalizes as [`rms_norm`] does, with options.
///
/// Throws as [`rms_norm`] does, and `Op` (value) for blocks without rows.
#[track_caller]
pub fn rms_norm_with(x: &Array, scale: &Array, options: &RmsNormOptions) -> Array {
    let [y] = apply("rms_norm", (x, None), scale, Statistic::MeanSquare, &options.into());
    y
}

/// Adds `residual` to `x`, and normalizes the sum as [`rms_norm`] does. Returns the normalized
/// features and the sum, of the type of `x` each.
///
/// The sum is rounded to the dtype of `x` and then normalized. `residual` has the type of `x`.
///
/// Throws as [`rms_norm`] does.
///
/// ```
/// use oxidax::kernels::add_rms_norm;
/// use oxidax::prelude::*;
/// let block = |x: Array, residual: Array, scale: Array| {
///     let (y, sum) = add_rms_norm(&x, &residual, &scale);
///     sum + silu(&y)
/// };
/// let (x, scale) = (Aval::new(DType::F32, [16, 80]), Aval::new(DType::F32, [80]));
/// assert_eq!(eval_shape(block, (x.clone(), x, scale))?.aval().to_string(), "f32[16,80]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "fused_add_rms_norm")]
#[track_caller]
pub fn add_rms_norm(x: &Array, residual: &Array, scale: &Array) -> (Array, Array) {
    add_rms_norm_with(x, residual, scale, &RmsNormOptions::default())
}

/// Adds and normalizes as [`add_rms_norm`] does, with options.
///
/// Throws as [`rms_norm_with`] does.
#[track_caller]
pub fn add_rms_norm_with(
    x: &Array,
    residual: &Array,
    scale: &Array,
    options: &RmsNormOptions,
) -> (Array, Array) {
    let operands = (x, Some(residual));
    let [y, sum] = apply("add_rms_norm", operands, scale, Statistic::MeanSquare, &options.into());
    (y, sum)
}

/// Normalizes the features of each row to mean 0 and variance 1, then multiplies by `scale` and
/// adds `bias`, `float[d]` each.
///
/// Types, statistics and the backward pass are those of [`rms_norm`].
///
/// Throws as [`rms_norm`] does.
///
/// ```
/// use oxidax::kernels::layer_norm;
/// use oxidax::prelude::*;
/// let norm = |x: Array, scale: Array, bias: Array| layer_norm(&x, &scale, Some(&bias));
/// let (x, scale) = (Aval::new(DType::F32, [8, 768]), Aval::new(DType::F32, [768]));
/// assert_eq!(eval_shape(norm, (x, scale.clone(), scale))?.aval().to_string(), "f32[8,768]");
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Ba, Kiros, Hinton, "Layer normalization" (2016).
#[track_caller]
pub fn layer_norm(x: &Array, scale: &Array, bias: Option<&Array>) -> Array {
    layer_norm_with(x, scale, bias, &LayerNormOptions::default())
}

/// Normalizes as [`layer_norm`] does, with options.
///
/// Throws as [`rms_norm_with`] does.
///
/// ```
/// use oxidax::kernels::{LayerNormOptions, layer_norm_with};
/// use oxidax::prelude::*;
/// let options = LayerNormOptions { epsilon: 1e-5, ..LayerNormOptions::default() };
/// let norm = move |x: Array, scale: Array| layer_norm_with(&x, &scale, None, &options);
/// let (x, scale) = (Aval::new(DType::F32, [8, 768]), Aval::new(DType::F32, [768]));
/// assert_eq!(eval_shape(norm, (x, scale))?.aval().to_string(), "f32[8,768]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn layer_norm_with(
    x: &Array,
    scale: &Array,
    bias: Option<&Array>,
    options: &LayerNormOptions,
) -> Array {
    let statistic = Statistic::MeanAndVariance(bias);
    let [y] = apply("layer_norm", (x, None), scale, statistic, &options.into());
    y
}

/// Adds `residual` to `x`, and normalizes the sum as [`layer_norm`] does. Returns the normalized
/// features and the sum, of the type of `x` each, as [`add_rms_norm`] does.
///
/// Throws as [`rms_norm`] does.
#[doc(alias = "fused_add_layer_norm")]
#[track_caller]
pub fn add_layer_norm(
    x: &Array,
    residual: &Array,
    scale: &Array,
    bias: Option<&Array>,
) -> (Array, Array) {
    add_layer_norm_with(x, residual, scale, bias, &LayerNormOptions::default())
}

/// Adds and normalizes as [`add_layer_norm`] does, with options.
///
/// Throws as [`rms_norm_with`] does.
#[track_caller]
pub fn add_layer_norm_with(
    x: &Array,
    residual: &Array,
    scale: &Array,
    bias: Option<&Array>,
    options: &LayerNormOptions,
) -> (Array, Array) {
    let statistic = Statistic::MeanAndVariance(bias);
    let operands = (x, Some(residual));
    let [y, sum] = apply("add_layer_norm", operands, scale, statistic, &options.into());
    (y, sum)
}

/// The statistics that features are normalized by.
#[derive(Clone, Copy)]
enum Statistic<'a> {
    MeanSquare,
    /// With the bias, if there is one.
    MeanAndVariance(Option<&'a Array>),
}

/// Options of all norms.
struct Options {
    epsilon: f64,
    block_rows: Option<usize>,
}

impl From<&RmsNormOptions> for Options {
    fn from(&RmsNormOptions { epsilon, block_rows }: &RmsNormOptions) -> Options {
        Options { epsilon, block_rows }
    }
}

impl From<&LayerNormOptions> for Options {
    fn from(&LayerNormOptions { epsilon, block_rows }: &LayerNormOptions) -> Options {
        Options { epsilon, block_rows }
    }
}

/// Checks the operands, and returns the result, with a second operand also the sum.
#[track_caller]
fn apply<const N: usize>(
    name: &'static str,
    (x, residual): (&Array, Option<&Array>),
    scale: &Array,
    statistic: Statistic<'_>,
    options: &Options,
) -> [Array; N] {
    let bias = match statistic {
        Statistic::MeanSquare => None,
        Statistic::MeanAndVariance(bias) => bias,
    };
    if let Err(error) = check(x, residual, scale, bias, options) {
        throw_operands(name, error, &[x, scale]);
    }
    let features = scale.size();
    let norm = Norm {
        name,
        rows: x.size() / features,
        features,
        dtype: x.dtype(),
        is_centred: matches!(statistic, Statistic::MeanAndVariance(_)),
        has_residual: residual.is_some(),
        has_bias: bias.is_some(),
        epsilon: options.epsilon,
        block_rows: options.block_rows,
        scoped_rows: None,
    };
    let matrix = |x: &Array| reshape(x, [norm.rows, features]);
    let row = |x: &Array| reshape(x, [1, features]);
    let mut operands = vec![matrix(x)];
    operands.extend(residual.map(matrix));
    operands.push(row(scale));
    operands.extend(bias.map(row));
    let outputs = if norm.rows == 0 { vec![matrix(x); N] } else { norm.apply(&operands) };
    let outputs: Vec<Array> = outputs.iter().map(|y| reshape(y, x.shape())).collect();
    outputs.try_into().expect("there is a sum if there is a second operand")
}

fn check(
    x: &Array,
    residual: Option<&Array>,
    scale: &Array,
    bias: Option<&Array>,
    options: &Options,
) -> Result<(), RuleError> {
    let features = x.shape().last().copied().unwrap_or(0);
    if features == 0 {
        return Err(RuleError::shape(format!("x {} has no features", x.aval())));
    }
    for (name, vector) in [("scale", Some(scale)), ("bias", bias)] {
        let Some(vector) = vector else { continue };
        super::parts::check_dtype(name, vector)?;
        if vector.shape().dims() != [features] {
            let message = format!("x {} takes a {name} of [{features}]", x.aval());
            return Err(RuleError::shape(format!("{message}, got {}", vector.aval())));
        }
    }
    super::parts::check_dtype("x", x)?;
    if let Some(residual) = residual.filter(|other| !other.aval().same_type(x.aval())) {
        let message = format!("x is {}, the residual {}", x.aval(), residual.aval());
        return Err(RuleError::shape(message).help("both must have one shape and dtype"));
    }
    if options.block_rows == Some(0) {
        return Err(RuleError::value("block_rows must be positive, got 0"));
    }
    Ok(())
}
