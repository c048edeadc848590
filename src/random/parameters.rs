//! What samplers with parameters start from: shapes and parameters, checked.

use super::key::Key;
use super::sampler::{expect_float, number_dtype, parameter};
use crate::core::{Array, DType, RuleError, Shape, throw_operands};
use crate::ops::promote_types;
use crate::primitives::Like;
use std::ops::RangeFull;

/// The shape that a sampler with parameters draws: a shape that all parameters broadcast to, or `..`
/// for the one that they broadcast to together.
///
/// ```
/// use oxidax::prelude::*;
/// let drawn = eval_shape(
///     |key: random::Key, mean: Array| {
///         (random::poisson(key.clone(), .., DType::I32, &mean), random::poisson(key, [5, 3], DType::I32, &mean))
///     },
///     (random::Key::of_type(), Aval::new(DType::F32, [3])),
/// )?;
/// assert_eq!(drawn.0.aval().to_string(), "i32[3]");
/// assert_eq!(drawn.1.aval().to_string(), "i32[5,3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
pub trait SampleShape {
    /// The shape, or `None` for that of the parameters.
    fn given(self) -> Option<Shape>;
}

impl<S: Into<Shape>> SampleShape for S {
    fn given(self) -> Option<Shape> {
        Some(self.into())
    }
}

impl SampleShape for RangeFull {
    fn given(self) -> Option<Shape> {
        None
    }
}

/// `None` is `..`, for where only the run tells.
impl SampleShape for Option<Shape> {
    fn given(self) -> Option<Shape> {
        self
    }
}

/// A checked call of a sampler.
pub(super) struct Prepared<const N: usize> {
    /// The words of its key.
    pub(super) words: [Array; 2],
    /// What is drawn.
    pub(super) shape: Shape,
    /// The parameters, which broadcast to the shape, in dtypes of their own.
    pub(super) parameters: [Array; N],
}

impl<const N: usize> Prepared<N> {
    /// A sampler of floats of `dtype`, to which the parameters' dtypes must promote.
    #[track_caller]
    pub(super) fn floats(
        name: &str,
        key: &Key,
        shape: impl SampleShape,
        dtype: DType,
        parameters: [Like<'_>; N],
    ) -> Prepared<N> {
        expect_float(name, dtype);
        let parameters = parameters.map(|value| parameter(value, dtype));
        expect_castable(name, dtype, &parameters);
        Prepared::new(name, key, shape, parameters)
    }

    /// A sampler whose parameters are arrays already.
    #[track_caller]
    pub(super) fn new(
        name: &str,
        key: &Key,
        shape: impl SampleShape,
        parameters: [Array; N],
    ) -> Prepared<N> {
        let words = key.words(name);
        let shape = sample_shape(name, shape, &parameters.each_ref());
        Prepared { words, shape, parameters }
    }
}

/// Throws unless the parameters keep what they are as numbers of `dtype`.
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

/// A parameter whose reciprocal is an exponent: a number has the width of numbers, not that of `dtype`, until
/// its reciprocal is taken.
#[track_caller]
pub(super) fn exponent(name: &str, dtype: DType, value: Like<'_>) -> Array {
    if let Like::Array(x) = value {
        expect_castable(name, dtype, std::slice::from_ref(x));
    }
    parameter(value, number_dtype(dtype))
}

/// The shape to draw, which the parameters broadcast to.
#[track_caller]
pub(super) fn sample_shape(name: &str, shape: impl SampleShape, parameters: &[&Array]) -> Shape {
    let Some(shape) = shape.given() else {
        let shapes: Vec<Shape> = parameters.iter().map(|x| x.shape().clone()).collect();
        return batch_shape(name, .., &shapes, parameters);
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

/// The shape to draw of distributions whose parameters have the shapes `batches`, axes within a
/// distribution left out.
#[track_caller]
pub(super) fn batch_shape(
    name: &str,
    shape: impl SampleShape,
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
    let Some(shape) = shape.given() else { return joint };
    if joint.broadcast(&shape).as_ref() != Some(&shape) {
        let message = format!("distributions of shape {joint} do not broadcast to {shape}");
        throw_operands(name, RuleError::shape(message), parameters);
    }
    shape
}
