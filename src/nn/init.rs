//! Initial weights.
//!
//! A weight's last axis counts its outputs, the one before its inputs; axes in front of those (a
//! kernel's height and width) multiply both fans. Bits are those of `jax.nn.initializers`.

use crate::core::{Array, Aval, DType, RuleError, Scalar, Shape, throw_operands};
use crate::primitives::{div, fill_of, mul, sqrt};
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
    let [.., n_in, n_out] = *shape.dims() else {
        let message = format!("a weight needs an axis of inputs and one of outputs, got {shape}");
        throw_operands("variance_scaling", RuleError::shape(message), &[]);
    };
    // The product of the other axes, without a division: a size may be 0.
    let field: usize = shape[..shape.rank() - 2].iter().product();
    let (fan_in, fan_out) = ((n_in * field) as f64, (n_out * field) as f64);
    let fan = match numbers.fan {
        Fan::In => fan_in,
        Fan::Out => fan_out,
        Fan::Average => (fan_in + fan_out) / 2.0,
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
