//! Shapes and parameters of samplers, and their checks.

use super::key::Key;
use super::key_words::KeyWords;
use super::sampler::{expect_float, number_dtype, parameter};
use crate::core::{Array, Aval, DType, IntoAval, RuleError, Shape, throw_operands};
use crate::ops::promote_types;
use crate::primitives::Like;
use std::ops::RangeFull;

/// Shape of the result of a sampler: a shape that all parameters broadcast to, or `..` for their
/// joint shape; alone or in a pair with a dtype.
///
/// ```
/// use oxidax::prelude::*;
/// let mean = Aval::new(DType::F32, [3]);
/// let joint = |key: random::Key, mean: Array| random::poisson(key, .., &mean);
/// let samples = eval_shape(joint, (random::Key::of_type(), mean.clone()))?;
/// assert_eq!(samples.aval().to_string(), "i32[3]");
/// let rows = |key: random::Key, mean: Array| random::poisson(key, ([5, 3], DType::I64), &mean);
/// let samples = eval_shape(rows, (random::Key::of_type(), mean))?;
/// assert_eq!(samples.aval().to_string(), "i64[5,3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the shape of a sampler",
    label = "expected a shape such as `[2, 3]`, `..`, or a pair such as `([2, 3], DType::BF16)`"
)]
pub trait SampleShape {
    /// Returns the shape, or `None` for the joint shape of the parameters, and the dtype, or
    /// `default` if there is none.
    fn shape_and_dtype(self, default: DType) -> (Option<Shape>, DType);
}

impl<A: IntoAval> SampleShape for A {
    fn shape_and_dtype(self, default: DType) -> (Option<Shape>, DType) {
        let Aval { shape, dtype, .. } = self.into_aval(default);
        (Some(shape), dtype)
    }
}

impl SampleShape for RangeFull {
    fn shape_and_dtype(self, default: DType) -> (Option<Shape>, DType) {
        (None, default)
    }
}

impl SampleShape for (RangeFull, DType) {
    fn shape_and_dtype(self, _default: DType) -> (Option<Shape>, DType) {
        (None, self.1)
    }
}

/// `None` is equivalent to `..`, for choices made at run time.
impl SampleShape for Option<Shape> {
    fn shape_and_dtype(self, default: DType) -> (Option<Shape>, DType) {
        (self, default)
    }
}

impl SampleShape for (Option<Shape>, DType) {
    fn shape_and_dtype(self, _default: DType) -> (Option<Shape>, DType) {
        self
    }
}

/// Checked arguments of a sampler.
pub(super) struct CheckedArguments<const N: usize> {
    /// The words of the key.
    pub(super) words: KeyWords,
    /// The shape of the result.
    pub(super) shape: Shape,
    /// The parameters, which broadcast to the shape. Each has its own dtype.
    pub(super) parameters: [Array; N],
}

impl<const N: usize> CheckedArguments<N> {
    /// Checks a sampler of floats of `dtype`, to which the dtypes of the parameters must promote.
    #[track_caller]
    pub(super) fn floats(
        name: &str,
        key: &Key,
        shape: Option<Shape>,
        dtype: DType,
        parameters: [Like<'_>; N],
    ) -> CheckedArguments<N> {
        expect_float(name, dtype);
        let parameters = parameters.map(|value| parameter(value, dtype));
        expect_castable(name, dtype, &parameters);
        CheckedArguments::new(name, key, shape, parameters)
    }

    /// Checks a sampler whose parameters are arrays.
    #[track_caller]
    pub(super) fn new(
        name: &str,
        key: &Key,
        shape: Option<Shape>,
        parameters: [Array; N],
    ) -> CheckedArguments<N> {
        let words = key.words(name);
        let shape = sample_shape(name, shape, &parameters.each_ref());
        CheckedArguments { words, shape, parameters }
    }
}

/// Throws unless the dtypes of the parameters promote to `dtype`.
#[track_caller]
pub(super) fn expect_castable(name: &str, dtype: DType, parameters: &[Array]) {
    for x in parameters {
        if !x.aval().weak && promote_types(x.dtype(), dtype) != Some(dtype) {
            let message = format!("draws {dtype}, which {} does not promote to", x.aval());
            let error = RuleError::dtype(message).help("convert the parameter, or draw its dtype");
            throw_operands(name, error, &[x]);
        }
    }
}

/// Converts a parameter whose reciprocal is an exponent. A number keeps the width of numbers until
/// its reciprocal is computed.
#[track_caller]
pub(super) fn exponent(name: &str, dtype: DType, value: Like<'_>) -> Array {
    if let Like::Array(x) = value {
        expect_castable(name, dtype, std::slice::from_ref(x));
    }
    parameter(value, number_dtype(dtype))
}

/// Returns the shape of the result, to which the parameters broadcast.
#[track_caller]
pub(super) fn sample_shape(name: &str, shape: Option<Shape>, parameters: &[&Array]) -> Shape {
    let Some(shape) = shape else {
        let shapes: Vec<Shape> = parameters.iter().map(|x| x.shape().clone()).collect();
        return batch_shape(name, None, &shapes, parameters);
    };
    expect_broadcast(name, parameters, &shape);
    shape
}

/// Throws unless the parameters broadcast to `shape`.
#[track_caller]
pub(super) fn expect_broadcast(name: &str, parameters: &[&Array], shape: &Shape) {
    for parameter in parameters {
        if parameter.shape().broadcast(shape).as_ref() != Some(shape) {
            let message = format!("{} does not broadcast to the shape {shape}", parameter.aval());
            throw_operands(name, RuleError::shape(message), parameters);
        }
    }
}

/// Returns the shape of the result of distributions with parameters of the shapes `batches`,
/// without the axes within a distribution.
#[track_caller]
pub(super) fn batch_shape(
    name: &str,
    shape: Option<Shape>,
    batches: &[Shape],
    parameters: &[&Array],
) -> Shape {
    let mut joint = Shape::scalar();
    for batch in batches {
        match joint.broadcast(batch) {
            Some(wider) => joint = wider,
            None => {
                let shapes: Vec<String> = batches.iter().map(Shape::to_string).collect();
                let message = format!(
                    "the shapes {} of the distributions do not broadcast together",
                    shapes.join(", ")
                );
                throw_operands(name, RuleError::shape(message), parameters);
            }
        }
    }
    let Some(shape) = shape else { return joint };
    if joint.broadcast(&shape).as_ref() != Some(&shape) {
        let message = format!("distributions of shape {joint} do not broadcast to {shape}");
        throw_operands(name, RuleError::shape(message), parameters);
    }
    shape
}
