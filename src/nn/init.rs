//! Initial weights.
//!
//! A weight's last axis counts its outputs, the one before its inputs; axes in front of those (a
//! kernel's height and width) multiply both fans. Bits are those of `jax.nn.initializers`.

use crate::core::{Array, Aval, DType, RuleError, Scalar, Shape, throw_operands};
use crate::primitives::{div, dynamic_update_slice, fill_of, moveaxis, mul, reshape, sqrt};
use crate::random::{self, Key};

/// What the variance is divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fan {
    /// The number of inputs that an output sums: keeps the variance going forward.
    In,
    /// The number of outputs that an input goes to: keeps it going back.
    Out,
    /// Their mean.
    Average,
    /// Their geometric mean.
    GeometricAverage,
}

/// What the weights are drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Distribution {
    /// The normal distribution.
    Normal,
    /// The normal distribution within two standard deviations, widened to keep the variance.
    TruncatedNormal,
    /// The uniform distribution around zero.
    Uniform,
}

/// The numbers of [`variance_scaling`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VarianceScaling {
    /// The variance times the fan.
    pub scale: f64,
    /// The fan.
    pub fan: Fan,
    /// The distribution.
    pub distribution: Distribution,
}

/// The standard deviation of a normal number cut at ±2.
const TRUNCATED_DEVIATION: f64 = 0.879_625_661_034_239_8;

/// Normal weights of mean 0 and standard deviation `deviation`.
#[track_caller]
pub fn normal(key: Key, shape: impl Into<Shape>, dtype: DType, deviation: f64) -> Array {
    let deviation = number(deviation, dtype);
    mul(random::normal(key, shape, dtype), deviation)
}

/// Normal weights of mean 0 and standard deviation `deviation`, cut at twice that; what is left
/// deviates by 0.88 of it.
#[track_caller]
pub fn truncated_normal(key: Key, shape: impl Into<Shape>, dtype: DType, deviation: f64) -> Array {
    let deviation = number(deviation, dtype);
    mul(random::truncated_normal(key, shape, dtype, -2.0..2.0), deviation)
}

/// Uniform weights in `0.0..scale`.
#[track_caller]
pub fn uniform(key: Key, shape: impl Into<Shape>, dtype: DType, scale: f64) -> Array {
    mul(random::uniform(key, shape, dtype, 0.0..1.0), number(scale, dtype))
}

/// `value` everywhere.
#[track_caller]
pub fn constant(shape: impl Into<Shape>, dtype: DType, value: f64) -> Array {
    fill_of(Scalar::Float(value), &Aval::new(dtype, shape.into()))
}

/// Zeros.
#[track_caller]
pub fn zeros(shape: impl Into<Shape>, dtype: DType) -> Array {
    constant(shape, dtype, 0.0)
}

/// Ones.
#[track_caller]
pub fn ones(shape: impl Into<Shape>, dtype: DType) -> Array {
    constant(shape, dtype, 1.0)
}

/// Weights of variance `scale / fan`.
///
/// Throws `Op` (shape) if the weight has fewer than two axes.
#[track_caller]
pub fn variance_scaling(
    key: Key,
    shape: impl Into<Shape>,
    dtype: DType,
    numbers: VarianceScaling,
) -> Array {
    let shape = shape.into();
    let n = shape.rank();
    if n < 2 {
        let message = format!("a weight needs an axis of inputs and one of outputs, got {shape}");
        throw_operands("variance_scaling", RuleError::shape(message), &[]);
    }
    let axes = FanAxes { inputs: vec![n - 2], outputs: vec![n - 1], batch: Vec::new() };
    variance_scaling_along(key, shape, dtype, numbers, &axes)
}

/// Which axes of a weight count what; all others multiply both fans.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FanAxes {
    /// Those whose product is the number of inputs.
    pub inputs: Vec<usize>,
    /// Those whose product is the number of outputs.
    pub outputs: Vec<usize>,
    /// Those that number weights of their own, and count for neither.
    pub batch: Vec<usize>,
}

/// As [`variance_scaling`], for a weight of another layout.
///
/// ```no_run
/// use oxidax::nn::init::{self, Distribution, Fan, FanAxes, VarianceScaling};
/// use oxidax::prelude::*;
/// // To the queries of 12 heads of 64 features.
/// let numbers =
///     VarianceScaling { scale: 1.0, fan: Fan::In, distribution: Distribution::TruncatedNormal };
/// let axes = FanAxes { inputs: vec![0], outputs: vec![1, 2], batch: vec![] };
/// let shape = [768, 12, 64];
/// let weight = init::variance_scaling_along(random::key(0), shape, DType::F32, numbers, &axes);
/// ```
///
/// Throws `Op` (shape) if there is no such axis.
#[doc(alias = "variance_scaling")]
#[track_caller]
pub fn variance_scaling_along(
    key: Key,
    shape: impl Into<Shape>,
    dtype: DType,
    numbers: VarianceScaling,
    axes: &FanAxes,
) -> Array {
    let shape = shape.into();
    let kinds = [&axes.inputs, &axes.outputs, &axes.batch];
    if let Some(axis) = kinds.into_iter().flatten().find(|&&axis| axis >= shape.rank()) {
        let error = RuleError::shape(format!("a weight of shape {shape} has no axis {axis}"));
        throw_operands("variance_scaling", error, &[]);
    }
    // Products of the sizes of some axes, without a division: a size may be 0.
    let product = |counts: &dyn Fn(&usize) -> bool| -> f64 {
        (0..shape.rank()).filter(|axis| counts(axis)).map(|axis| shape[axis]).product::<usize>()
            as f64
    };
    // An axis that counts both inputs and outputs is divided out twice, as JAX does.
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
    match numbers.distribution {
        Distribution::Normal => mul(random::normal(key, shape, dtype), sqrt(&variance)),
        Distribution::TruncatedNormal => {
            let scale = div(sqrt(&variance), number(TRUNCATED_DEVIATION, dtype));
            mul(random::truncated_normal(key, shape, dtype, -2.0..2.0), scale)
        }
        Distribution::Uniform => {
            let unit = random::uniform(key, shape, dtype, -1.0..1.0);
            mul(unit, sqrt(&mul(number(3.0, dtype), variance)))
        }
    }
}

/// `scale` times a matrix with orthonormal columns, or rows where there are fewer of them: `[…, n]` is taken as
/// a matrix of `n` columns. `dtype` is `f32`, `f64`, `c64` or `c128`.
///
/// Throws `Op` (shape) if the weight has fewer than two axes, `Op` (dtype) for another dtype.
///
/// # Reference
/// Saxe, McClelland, Ganguli: Exact solutions to the nonlinear dynamics of learning in deep linear neural
/// networks (2013).
#[track_caller]
pub fn orthogonal(key: Key, shape: impl Into<Shape>, dtype: DType, scale: f64) -> Array {
    let shape = shape.into();
    let column_axis = shape.rank() as isize - 1;
    orthogonal_along(key, shape, dtype, scale, column_axis)
}

/// As [`orthogonal`], with the columns along another axis; negative ones count from the back.
///
/// Throws `Op` (shape) if there is no such axis.
#[doc(alias = "orthogonal")]
#[track_caller]
pub fn orthogonal_along(
    key: Key,
    shape: impl Into<Shape>,
    dtype: DType,
    scale: f64,
    column_axis: isize,
) -> Array {
    let shape = shape.into();
    let rank = shape.rank() as isize;
    let at = if column_axis < 0 { column_axis + rank } else { column_axis };
    if rank < 2 || at < 0 || at >= rank {
        let message = format!(
            "a weight needs two axes and its columns one of them, got {shape} and axis {column_axis}"
        );
        throw_operands("orthogonal", RuleError::shape(message), &[]);
    }
    if shape.size() == 0 {
        return constant(shape, dtype, 0.0);
    }
    let n_columns = shape[at as usize];
    let rest = shape.remove(at as usize);
    let matrix = random::semi_orthogonal(key, [], dtype, rest.size(), n_columns);
    let weight = reshape(&matrix, rest.insert(rest.rank(), n_columns));
    mul(number(scale, dtype), moveaxis(&weight, -1, at))
}

/// A convolution's kernel, `[window…, in, out]`, zero but in the middle of its window, where it is
/// [`orthogonal`]: the layer then keeps distances. `in` must not exceed `out`.
///
/// Throws `Op` (shape) for other sizes, or unless the window has one to three axes.
///
/// # Reference
/// Xiao et al., "Dynamical isometry and a mean field theory of CNNs" (2018).
#[track_caller]
pub fn delta_orthogonal(key: Key, shape: impl Into<Shape>, dtype: DType, scale: f64) -> Array {
    let shape = shape.into();
    let fits = match *shape.dims() {
        [ref window @ .., n_in, n_out] => {
            (1..=3).contains(&window.len()) && !window.contains(&0) && n_in <= n_out
        }
        _ => false,
    };
    if !fits {
        let message = format!(
            "a kernel [window…, in, out] needs one to three axes of a window and in <= out, got {shape}"
        );
        throw_operands("delta_orthogonal", RuleError::shape(message), &[]);
    }
    let n = shape.rank() - 2;
    let middle = orthogonal(key, &shape[n..], dtype, scale);
    let start: Vec<i32> = shape[..n].iter().map(|&k| (k as i32 - 1) / 2).chain([0, 0]).collect();
    let middle = reshape(&middle, [&vec![1; n][..], &shape[n..]].concat());
    dynamic_update_slice(&constant(shape, dtype, 0.0), &middle, &start)
}

/// A number rounded to the dtype of the weights.
#[track_caller]
fn number(value: f64, dtype: DType) -> Array {
    fill_of(Scalar::Float(value), &Aval::new(dtype, Shape::scalar()))
}

macro_rules! scalings {
    ($($(#[$doc:meta])* $name:ident: $scale:literal, $fan:ident, $distribution:ident;)*) => {$(
        $(#[$doc])*
        #[track_caller]
        pub fn $name(key: Key, shape: impl Into<Shape>, dtype: DType) -> Array {
            let numbers = VarianceScaling {
                scale: $scale,
                fan: Fan::$fan,
                distribution: Distribution::$distribution,
            };
            variance_scaling(key, shape, dtype, numbers)
        }
    )*};
}

scalings!(
    /// Glorot's uniform weights: variance 1 over the mean of the fans.
    ///
    /// # Reference
    /// Glorot, Bengio: Understanding the difficulty of training deep feedforward neural networks
    /// (2010), equation 16.
    #[doc(alias = "xavier_uniform")]
    glorot_uniform: 1.0, Average, Uniform;

    /// Glorot's normal weights, truncated: variance 1 over the mean of the fans.
    ///
    /// # Reference
    /// Glorot, Bengio: Understanding the difficulty of training deep feedforward neural networks
    /// (2010), equation 12.
    #[doc(alias = "xavier_normal")]
    glorot_normal: 1.0, Average, TruncatedNormal;

    /// LeCun's uniform weights: variance 1 over the inputs.
    ///
    /// # Reference
    /// LeCun, Bottou, Orr, Müller: Efficient BackProp (1998), section 4.6.
    lecun_uniform: 1.0, In, Uniform;

    /// LeCun's normal weights, truncated: variance 1 over the inputs.
    ///
    /// # Reference
    /// LeCun, Bottou, Orr, Müller: Efficient BackProp (1998), section 4.6.
    lecun_normal: 1.0, In, TruncatedNormal;

    /// He's uniform weights, for layers before a `relu`: variance 2 over the inputs.
    ///
    /// # Reference
    /// He, Zhang, Ren, Sun: Delving deep into rectifiers (2015), equation 10.
    #[doc(alias = "kaiming_uniform")]
    he_uniform: 2.0, In, Uniform;

    /// He's normal weights, truncated, for layers before a `relu`: variance 2 over the inputs.
    ///
    /// # Reference
    /// He, Zhang, Ren, Sun: Delving deep into rectifiers (2015), equation 10.
    #[doc(alias = "kaiming_normal")]
    he_normal: 2.0, In, TruncatedNormal;
);
