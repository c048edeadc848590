//! Weight initializers.
//!
//! The last axis of a weight is that of the outputs, the one before that of the inputs. Other axes,
//! such as the height and width of a kernel, multiply both fans. The values are bit-equal to those
//! of `jax.nn.initializers`.

use crate::core::{Array, Aval, DType, IntoAval, Loc, RuleError, Scalar, Shape, throw_operands};
use crate::primitives::{
    convert_element_type, div, dynamic_update_slice, exp, fill_of, log, moveaxis, mul, neg,
    reshape, sqrt, sub,
};
use crate::random::{self, Key};

/// The fan by which the variance is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fan {
    /// The number of inputs of an output. Keeps the variance of activations.
    In,
    /// The number of outputs of an input. Keeps the variance of gradients.
    Out,
    /// The mean of both.
    Average,
    /// The geometric mean of both.
    GeometricAverage,
}

/// The distribution of random weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Distribution {
    /// The normal distribution.
    Normal,
    /// The normal distribution truncated at two standard deviations, scaled to the same variance.
    TruncatedNormal,
    /// The uniform distribution around zero.
    Uniform,
}

/// The parameters of [`variance_scaling`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VarianceScaling {
    /// The product of variance and fan.
    pub scale: f64,
    /// The fan by which `scale` is divided.
    pub fan: Fan,
    /// The distribution of the weights.
    pub distribution: Distribution,
}

/// The standard deviation of the standard normal distribution truncated at ±2.
const TRUNCATED_DEVIATION: f64 = 0.879_625_661_034_239_8;

/// Draws normal weights of mean 0 and standard deviation `deviation`.
#[track_caller]
pub fn normal(key: Key, shape: impl IntoAval, deviation: f64) -> Array {
    let Aval { shape, dtype, .. } = shape.into_aval(DType::F32);
    let deviation = number(deviation, dtype);
    mul(random::normal(key, (shape, dtype)), deviation)
}

/// Draws normal weights of mean 0 and standard deviation `deviation`, truncated at twice that.
///
/// The standard deviation after truncation is `0.88 · deviation`.
#[track_caller]
pub fn truncated_normal(key: Key, shape: impl IntoAval, deviation: f64) -> Array {
    truncated_normal_with(key, shape, deviation, TruncatedNormalOptions::default())
}

/// Options of [`truncated_normal_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TruncatedNormalOptions {
    /// The lower bound, in standard deviations. The default is -2.
    pub lower: f64,
    /// The upper bound, in standard deviations. The default is 2.
    pub upper: f64,
}

impl Default for TruncatedNormalOptions {
    fn default() -> Self {
        TruncatedNormalOptions { lower: -2.0, upper: 2.0 }
    }
}

/// Draws truncated normal weights, as [`truncated_normal`], with other bounds.
#[track_caller]
pub fn truncated_normal_with(
    key: Key,
    shape: impl IntoAval,
    deviation: f64,
    options: TruncatedNormalOptions,
) -> Array {
    let Aval { shape, dtype, .. } = shape.into_aval(DType::F32);
    let deviation = number(deviation, dtype);
    mul(random::truncated_normal(key, (shape, dtype), options.lower..options.upper), deviation)
}

/// Draws uniform weights in `0.0..scale`.
#[track_caller]
pub fn uniform(key: Key, shape: impl IntoAval, scale: f64) -> Array {
    let Aval { shape, dtype, .. } = shape.into_aval(DType::F32);
    mul(random::uniform(key, (shape, dtype), 0.0..1.0), number(scale, dtype))
}

/// Returns weights that are all `value`.
#[track_caller]
pub fn constant(shape: impl IntoAval, value: f64) -> Array {
    fill_of(Scalar::Float(value), &shape.into_aval(DType::F32))
}

/// Returns zero weights.
#[track_caller]
pub fn zeros(shape: impl IntoAval) -> Array {
    constant(shape, 0.0)
}

/// Returns weights that are all 1.
#[track_caller]
pub fn ones(shape: impl IntoAval) -> Array {
    constant(shape, 1.0)
}

/// Draws weights of variance `scale / fan`, real or complex. Truncated and uniform complex weights
/// are bounded in their modulus.
///
/// Throws `Op` (shape) if the weight has fewer than two axes.
#[track_caller]
pub fn variance_scaling(key: Key, shape: impl IntoAval, numbers: VarianceScaling) -> Array {
    let Aval { shape, dtype, .. } = shape.into_aval(DType::F32);
    let n = shape.rank();
    if n < 2 {
        let message = format!("a weight needs an axis of inputs and one of outputs, got {shape}");
        throw_operands("variance_scaling", RuleError::shape(message), &[]);
    }
    let axes = FanAxes { inputs: vec![n - 2], outputs: vec![n - 1], batch: Vec::new() };
    variance_scaling_with(key, (shape, dtype), numbers, &axes)
}

/// The axes of inputs and outputs of a weight. All other axes multiply both fans.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FanAxes {
    /// The axes of the inputs.
    pub inputs: Vec<usize>,
    /// The axes of the outputs.
    pub outputs: Vec<usize>,
    /// Batch axes, which count for neither fan.
    pub batch: Vec<usize>,
}

/// Draws weights of variance `scale / fan` for another layout of axes.
///
/// ```no_run
/// use oxidax::nn::init::{self, Distribution, Fan, FanAxes, VarianceScaling};
/// use oxidax::prelude::*;
/// // The query projection of 12 heads of 64 features.
/// let numbers =
///     VarianceScaling { scale: 1.0, fan: Fan::In, distribution: Distribution::TruncatedNormal };
/// let axes = FanAxes { inputs: vec![0], outputs: vec![1, 2], batch: vec![] };
/// let shape = [768, 12, 64];
/// let weight = init::variance_scaling_with(random::key(0), shape, numbers, &axes);
/// ```
///
/// Throws `Op` (shape) if an axis is out of range.
#[doc(alias = "variance_scaling")]
#[track_caller]
pub fn variance_scaling_with(
    key: Key,
    shape: impl IntoAval,
    numbers: VarianceScaling,
    axes: &FanAxes,
) -> Array {
    let Aval { shape, dtype, .. } = shape.into_aval(DType::F32);
    let kinds = [&axes.inputs, &axes.outputs, &axes.batch];
    if let Some(axis) = kinds.into_iter().flatten().find(|&&axis| axis >= shape.rank()) {
        let error = RuleError::shape(format!("a weight of shape {shape} has no axis {axis}"));
        throw_operands("variance_scaling", error, &[]);
    }
    // Products of the sizes of some axes, without a division: a size may be 0.
    let product = |includes: &dyn Fn(&usize) -> bool| -> f64 {
        let sizes = (0..shape.rank()).filter(|axis| includes(axis)).map(|axis| shape[axis]);
        sizes.product::<usize>() as f64
    };
    // An axis of both inputs and outputs is divided out twice, as in JAX.
    let both = product(&|axis| axes.inputs.contains(axis) && axes.outputs.contains(axis));
    let field = product(&|axis| !kinds.iter().any(|kind| kind.contains(axis))) / both;
    let fan_in = product(&|axis| axes.inputs.contains(axis)) * field;
    let fan_out = product(&|axis| axes.outputs.contains(axis)) * field;
    let fan = match numbers.fan {
        Fan::In => fan_in,
        Fan::Out => fan_out,
        Fan::Average => (fan_in + fan_out) / 2.0,
        Fan::GeometricAverage => (fan_in * fan_out).sqrt(),
    };
    let variance = number(numbers.scale / fan, dtype);
    let unit: Aval = (shape, dtype).into_aval(dtype);
    match (numbers.distribution, dtype.is_complex()) {
        (Distribution::Normal, _) => mul(random::normal(key, unit), sqrt(&variance)),
        (Distribution::TruncatedNormal, false) => {
            let scale = div(sqrt(&variance), number(TRUNCATED_DEVIATION, dtype));
            mul(random::truncated_normal(key, unit, -2.0..2.0), scale)
        }
        (Distribution::TruncatedNormal, true) => {
            let scale = div(sqrt(&variance), number(COMPLEX_TRUNCATED_DEVIATION, dtype));
            mul(complex_truncated_normal(key, &unit, 2.0), scale)
        }
        (Distribution::Uniform, false) => {
            let unit = random::uniform(key, unit, -1.0..1.0);
            mul(unit, sqrt(mul(number(3.0, dtype), variance)))
        }
        (Distribution::Uniform, true) => mul(uniform_in_disk(key, &unit), sqrt(&variance)),
    }
}

/// The square root of `1 - 5 / e⁴`, by which JAX divides complex normal weights truncated at
/// modulus 2. Their standard deviation is 0.962, since the truncation also scales the density.
const COMPLEX_TRUNCATED_DEVIATION: f64 = 0.953_111_643_804_912_1;

/// Draws complex numbers with these moduli and uniform arguments.
#[track_caller]
fn with_uniform_argument(key: Key, modulus: &Array, aval: &Aval) -> Array {
    let turns = random::uniform(key, (aval.shape.clone(), aval.dtype.real()), 0.0..1.0);
    let angle = mul(convert_element_type(&turns, aval.dtype), 2.0 * std::f64::consts::PI);
    let i = fill_of(Scalar::Complex(0.0, 1.0), &Aval::new(aval.dtype, Shape::scalar()));
    let unit = exp(mul(&angle, &i));
    mul(convert_element_type(modulus, aval.dtype), unit)
}

/// Draws complex numbers that are uniform in a disk, with mean 0 and variance 1.
#[track_caller]
fn uniform_in_disk(key: Key, aval: &Aval) -> Array {
    let [modulus_key, angle_key] = key.split();
    let real = (aval.shape.clone(), aval.dtype.real());
    let modulus = sqrt(mul(random::uniform(modulus_key, real, 0.0..1.0), 2.0));
    with_uniform_argument(angle_key, &modulus, aval)
}

/// Draws complex normal numbers of variance 1, truncated at the modulus `upper`.
#[track_caller]
fn complex_truncated_normal(key: Key, aval: &Aval, upper: f64) -> Array {
    let [modulus_key, angle_key] = key.split();
    let real = aval.dtype.real();
    let unit = random::uniform(modulus_key, (aval.shape.clone(), real), 0.0..1.0);
    // The squared modulus has an exponential distribution.
    let below = sub(1.0, exp(number(-upper * upper, real)));
    let modulus = sqrt(neg(log(sub(1.0, mul(below, unit)))));
    with_uniform_argument(angle_key, &modulus, aval)
}

/// Options of [`orthogonal_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OrthogonalInitOptions {
    /// A factor of the weights. 1 by default.
    pub scale: f64,
    /// The axis of the columns. Negative axes count from the end. -1 by default.
    pub column_axis: isize,
}

impl Default for OrthogonalInitOptions {
    fn default() -> OrthogonalInitOptions {
        OrthogonalInitOptions { scale: 1.0, column_axis: -1 }
    }
}

/// Draws a matrix with orthonormal columns, or orthonormal rows if there are fewer rows than
/// columns.
///
/// A shape `[…, n]` is a matrix of `n` columns. The dtype is `f32` (the default), `f64`, `c64` or
/// `c128`.
///
/// Throws `Op` (shape) if the weight has fewer than two axes, `Op` (dtype) for another dtype.
///
/// # Reference
/// Saxe, McClelland, Ganguli: Exact solutions to the nonlinear dynamics of learning in deep linear
/// neural networks (2013).
#[track_caller]
pub fn orthogonal(key: Key, shape: impl IntoAval) -> Array {
    orthogonal_with(key, shape, OrthogonalInitOptions::default())
}

/// Draws a scaled matrix with orthonormal columns along an axis, or orthonormal rows.
///
/// Throws `Op` (shape) if the axis is out of range or the weight has fewer than two axes.
#[doc(alias = "orthogonal")]
#[track_caller]
pub fn orthogonal_with(key: Key, shape: impl IntoAval, options: OrthogonalInitOptions) -> Array {
    Loc::caller().scope(|| {
    let Aval { shape, dtype, .. } = shape.into_aval(DType::F32);
    let OrthogonalInitOptions { scale, column_axis } = options;
    let rank = shape.rank() as isize;
    let axis = if column_axis < 0 { column_axis + rank } else { column_axis };
    if rank < 2 || axis < 0 || axis >= rank {
        let message = format!(
            "a weight needs two axes and a column axis among them, got {shape} and {column_axis}"
        );
        throw_operands("orthogonal", RuleError::shape(message), &[]);
    }
    if shape.size() == 0 {
        return constant((shape, dtype), 0.0);
    }
    let n_columns = shape[axis as usize];
    let row_shape = shape.remove(axis as usize);
    let options = random::OrthogonalOptions { m: Some(n_columns) };
    let matrix = random::orthogonal_with(key, ([], dtype), row_shape.size(), options);
    let weight = reshape(&matrix, row_shape.insert(row_shape.rank(), n_columns));
    mul(number(scale, dtype), moveaxis(&weight, -1, axis))
})
}

/// Draws a convolution kernel, `[window…, in, out]`, that is [`orthogonal`], times `scale`, at the
/// centre of its window and zero elsewhere.
///
/// The layer then preserves distances. `in` must not exceed `out`.
///
/// Throws `Op` (shape) for other sizes, or unless the window has one to three axes.
///
/// # Reference
/// Xiao et al., "Dynamical isometry and a mean field theory of CNNs" (2018).
#[track_caller]
pub fn delta_orthogonal(key: Key, shape: impl IntoAval, scale: f64) -> Array {
    let options = OrthogonalInitOptions { scale, ..OrthogonalInitOptions::default() };
    delta_orthogonal_with(key, shape, options)
}

/// Draws an orthogonal convolution kernel, as [`delta_orthogonal`], with another axis of columns
/// among those of inputs and outputs.
#[track_caller]
pub fn delta_orthogonal_with(
    key: Key,
    shape: impl IntoAval,
    options: OrthogonalInitOptions,
) -> Array {
    let Aval { shape, dtype, .. } = shape.into_aval(DType::F32);
    let is_kernel = match *shape.dims() {
        [ref window @ .., n_in, n_out] => {
            (1..=3).contains(&window.len()) && !window.contains(&0) && n_in <= n_out
        }
        _ => false,
    };
    if !is_kernel {
        let message = format!(
            "a kernel [window…, in, out] needs one to three window axes and in <= out, got {shape}"
        );
        throw_operands("delta_orthogonal", RuleError::shape(message), &[]);
    }
    let n = shape.rank() - 2;
    let centre = orthogonal_with(key, (&shape[n..], dtype), options);
    let start: Vec<i32> = shape[..n].iter().map(|&k| (k as i32 - 1) / 2).chain([0, 0]).collect();
    let centre = reshape(&centre, [&vec![1; n][..], &shape[n..]].concat());
    dynamic_update_slice(&constant((shape, dtype), 0.0), &centre, &start)
}

/// Converts a number to the dtype of the weights.
#[track_caller]
fn number(value: f64, dtype: DType) -> Array {
    fill_of(Scalar::Float(value), &Aval::new(dtype, Shape::scalar()))
}

macro_rules! scalings {
    ($($(#[$doc:meta])*
    $name:ident, $along:ident: $scale:literal, $fan:ident, $distribution:ident;)*) => {$(
        #[doc = concat!("Draws weights as [`", stringify!($name), "`], for other axes.")]
        ///
        /// Throws `Op` (shape) if an axis is out of range.
        #[track_caller]
        pub fn $along(key: Key, shape: impl IntoAval, axes: &FanAxes) -> Array {
            let numbers = VarianceScaling {
                scale: $scale,
                fan: Fan::$fan,
                distribution: Distribution::$distribution,
            };
            variance_scaling_with(key, shape, numbers, axes)
        }

        $(#[$doc])*
        #[track_caller]
        pub fn $name(key: Key, shape: impl IntoAval) -> Array {
            let numbers = VarianceScaling {
                scale: $scale,
                fan: Fan::$fan,
                distribution: Distribution::$distribution,
            };
            variance_scaling(key, shape, numbers)
        }
    )*};
}

scalings!(
    /// Draws Glorot's uniform weights, of variance 1 over the mean of the fans.
    ///
    /// # Reference
    /// Glorot, Bengio: Understanding the difficulty of training deep feedforward neural networks
    /// (2010), equation 16.
    #[doc(alias = "xavier_uniform")]
    glorot_uniform, glorot_uniform_with: 1.0, Average, Uniform;

    /// Draws Glorot's truncated normal weights, of variance 1 over the mean of the fans.
    ///
    /// # Reference
    /// Glorot, Bengio: Understanding the difficulty of training deep feedforward neural networks
    /// (2010), equation 12.
    #[doc(alias = "xavier_normal")]
    glorot_normal, glorot_normal_with: 1.0, Average, TruncatedNormal;

    /// Draws LeCun's uniform weights, of variance 1 over the number of inputs.
    ///
    /// # Reference
    /// LeCun, Bottou, Orr, Müller: Efficient BackProp (1998), section 4.6.
    lecun_uniform, lecun_uniform_with: 1.0, In, Uniform;

    /// Draws LeCun's truncated normal weights, of variance 1 over the number of inputs.
    ///
    /// # Reference
    /// LeCun, Bottou, Orr, Müller: Efficient BackProp (1998), section 4.6.
    lecun_normal, lecun_normal_with: 1.0, In, TruncatedNormal;

    /// Draws He's uniform weights, of variance 2 over the number of inputs, for layers before a
    /// `relu`.
    ///
    /// # Reference
    /// He, Zhang, Ren, Sun: Delving deep into rectifiers (2015), equation 10.
    #[doc(alias = "kaiming_uniform")]
    he_uniform, he_uniform_with: 2.0, In, Uniform;

    /// Draws He's truncated normal weights, of variance 2 over the number of inputs, for layers
    /// before a `relu`.
    ///
    /// # Reference
    /// He, Zhang, Ren, Sun: Delving deep into rectifiers (2015), equation 10.
    #[doc(alias = "kaiming_normal")]
    he_normal, he_normal_with: 2.0, In, TruncatedNormal;
);
