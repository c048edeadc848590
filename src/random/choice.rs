//! Random choices of elements and of classes.

use super::gumbel::{RandomMode, raw_gumbel};
use super::key::Key;
use super::parameters::batch_shape;
use super::permutation::{axis_of, raw_permuted};
use super::randint::raw_indices;
use super::sampler::{draw, expect_float};
use super::uniform::raw_unit;
use crate::core::{Array, DType, Loc, RuleError, Scalar, Shape, throw_operands};
use crate::ops::{searchsorted, take};
use crate::primitives::{
    ArrayLike, Like, add, argmax, broadcast_to, cumsum, inexact, iota, log, moveaxis, mul, reshape,
    slice_in_dim, sub, top_k,
};

/// Options of [`choice_with`].
#[derive(Clone, Copy, Debug)]
pub struct ChoiceOptions<'a> {
    /// Allows an element to be chosen several times. The default is true.
    pub replace: bool,
    /// The probability of each element, `[n]`, which sum to 1; uniform if `None`.
    pub p: Option<&'a Array>,
    /// The axis along which slices are chosen. The default is 0.
    pub axis: isize,
    /// The number of random bits per element. Used with `p` and without replacement.
    pub mode: RandomMode,
}

impl Default for ChoiceOptions<'_> {
    fn default() -> Self {
        ChoiceOptions { replace: true, p: None, axis: 0, mode: RandomMode::Low }
    }
}

/// Returns elements of `a` chosen uniformly with replacement: an array of shape `shape` of slices
/// of `a` along its first axis, or of the numbers `0..n`, `i32`, if `a` is a number `n`.
/// [`choice_with`] takes probabilities and another axis, and chooses without replacement.
///
/// Throws `Op` if there are no elements to choose from.
///
/// ```
/// use oxidax::prelude::*;
/// let cards = random::choice(random::key(0), [5], 52);
/// let rows = random::choice(random::key(1), [2], &zeros([10, 3]));
/// assert_eq!(rows.shape().dims(), [2, 3]);
/// ```
#[track_caller]
pub fn choice(key: Key, shape: impl Into<Shape>, a: impl ArrayLike) -> Array {
    choice_with(key, shape, a, ChoiceOptions::default())
}

/// Returns random elements, as [`choice`], with options. In the result the axes of `shape` replace
/// the axis of `a`.
///
/// Throws `Op` if there are no elements to choose from, if `shape` exceeds their number without
/// replacement, and if `p` is not a float vector of the axis' size.
///
/// ```no_run
/// use oxidax::prelude::*;
/// use oxidax::random::ChoiceOptions;
/// let hand = ChoiceOptions { replace: false, ..Default::default() };
/// let cards = random::choice_with(random::key(0), [5], 52, hand);
/// let p = Array::from_slice(&[0.1f32, 0.2, 0.7], [3])?;
/// let loaded = ChoiceOptions { p: Some(&p), ..Default::default() };
/// let outcomes = random::choice_with(random::key(1), [100], 3, loaded);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn choice_with(
    key: Key,
    shape: impl Into<Shape>,
    a: impl ArrayLike,
    options: ChoiceOptions<'_>,
) -> Array {
    const NAME: &str = "choice";
    let (shape, words) = (shape.into(), key.words(NAME));
    let (n, axis, array) = match a.like() {
        Like::Scalar(Scalar::Int(n)) if usize::try_from(n).is_ok() && i32::try_from(n).is_ok() => {
            (n as usize, 0, None)
        }
        Like::Array(x) if x.rank() > 0 => {
            let axis = axis_of(NAME, x, options.axis);
            (x.shape()[axis], axis, Some(x))
        }
        Like::Array(x) => {
            let error = RuleError::shape(format!("chooses among slices, got {}", x.aval()));
            throw_operands(NAME, error.help("pass a number for the choice among `0..n`"), &[x])
        }
        Like::Scalar(other) => {
            let message = format!("chooses among `0..n`, n up to 2³¹ - 1, got {other:?}");
            throw_operands(NAME, RuleError::value(message), &[])
        }
    };
    let operands: Vec<&Array> = array.into_iter().chain(options.p).collect();
    if let Some(error) = choice_error(n, shape.size(), &options) {
        throw_operands(NAME, error, &operands);
    }
    let count = shape.size();
    draw(|| {
        let indices = match (options.p.filter(|_| n > 0), options.replace) {
            (None, true) => raw_indices(&words, &shape, n),
            (None, false) => {
                let all = array.cloned().unwrap_or_else(|| iota(DType::I32, n));
                let chosen = slice_in_dim(
                    &raw_permuted(&words, &all, axis),
                    0,
                    count as isize,
                    1,
                    axis as isize,
                );
                return unflatten_axis(&chosen, axis, &shape);
            }
            (Some(p), true) => {
                let totals = cumsum(&inexact(p), 0);
                let last = reshape(&slice_in_dim(&totals, -1, n as isize, 1, 0), []);
                let unit = raw_unit(&words, &shape, totals.dtype());
                searchsorted(&totals, mul(last, sub(1, unit)))
            }
            (Some(p), false) => {
                let p = inexact(p);
                let noise = raw_gumbel(&words, p.shape(), p.dtype(), options.mode);
                top_k(&add(noise, log(&p)), count, 0).1
            }
        };
        match array {
            Some(x) => {
                unflatten_axis(&take(x, &reshape(&indices, [count]), axis as isize), axis, &shape)
            }
            None => reshape(&indices, &shape),
        }
    })
}

/// Returns the error of choosing `count` of `n` elements, if there is one.
fn choice_error(n: usize, count: usize, options: &ChoiceOptions<'_>) -> Option<RuleError> {
    if let Some(p) = options.p
        && (p.shape().dims() != [n] || !p.dtype().is_float())
    {
        let message = format!("the probabilities must be floats of shape [{n}], got {}", p.aval());
        return Some(RuleError::shape(message));
    }
    if n == 0 && count > 0 {
        return Some(RuleError::value(format!(
            "cannot choose {count} elements from an empty array"
        )));
    }
    if !options.replace && count > n {
        let message = format!("cannot choose {count} of {n} elements without replacement");
        return Some(RuleError::value(message));
    }
    None
}

/// Replaces axis `axis` of `x` by the axes of `shape`.
#[track_caller]
fn unflatten_axis(x: &Array, axis: usize, shape: &Shape) -> Array {
    let dims = x.shape();
    let all: Shape =
        dims[..axis].iter().chain(shape.iter()).chain(&dims[axis + 1..]).copied().collect();
    reshape(x, all)
}

/// Options of [`categorical_with`].
#[derive(Clone, Debug)]
pub struct CategoricalOptions {
    /// The axis of the classes. The default is -1.
    pub axis: isize,
    /// The shape of the result; the shape of `logits` without `axis` if `None`. That shape
    /// broadcasts to its last axes.
    pub shape: Option<Shape>,
    /// Allows a class to be drawn several times from one distribution. The default is true.
    pub replace: bool,
    /// The number of random bits per class.
    pub mode: RandomMode,
}

impl Default for CategoricalOptions {
    fn default() -> Self {
        CategoricalOptions { axis: -1, shape: None, replace: true, mode: RandomMode::Low }
    }
}

/// Returns random classes with unnormalized log-probabilities `logits`, in nats, along the last
/// axis:
/// `i32` of the shape of `logits` without that axis.
///
/// `logits` is `f16`, `bf16`, `f32` or `f64`. A class with a logit of negative infinity is never
/// drawn unless all are.
///
/// Throws `Op` (dtype) for other dtypes and `Op` (shape) for a scalar.
///
/// ```
/// use oxidax::prelude::*;
/// let logits = zeros([4, 10]);
/// let classes = random::categorical(random::key(0), &logits);
/// assert_eq!(classes.shape().dims(), [4]);
/// ```
///
/// # Reference
/// Gumbel: Statistical theory of extreme values (1954). The class is the argmax of logits and
/// Gumbel noise.
#[track_caller]
pub fn categorical(key: Key, logits: &Array) -> Array {
    categorical_with(key, logits, CategoricalOptions::default())
}

/// Returns random classes, as [`categorical`], along another axis, of another shape, or without
/// replacement: the draws of one distribution are then different classes, and the shape must end
/// with the shape of `logits` without the axis.
///
/// Throws `Op` for another dtype, axis or shape, and for more draws than classes without
/// replacement.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::random::CategoricalOptions;
/// let logits = zeros([4, 10]);
/// let options =
///     CategoricalOptions { shape: Some([3, 4].into()), replace: false, ..Default::default() };
/// let beam = random::categorical_with(random::key(0), &logits, options);
/// assert_eq!(beam.shape().dims(), [3, 4]);
/// ```
#[track_caller]
pub fn categorical_with(key: Key, logits: &Array, options: CategoricalOptions) -> Array {
    Loc::caller().scope(|| {
        const NAME: &str = "categorical";
        let CategoricalOptions { axis, shape, replace, mode } = options;
        let axis = axis_of(NAME, logits, axis);
        expect_float(NAME, logits.dtype());
        let batch = logits.shape().remove(axis);
        let shape = match shape {
            Some(shape) => batch_shape(NAME, Some(shape), std::slice::from_ref(&batch), &[logits]),
            None => batch.clone(),
        };
        let (draws, rest) = shape.split_at(shape.rank() - batch.rank());
        let n = logits.shape()[axis];
        let words = key.words(NAME);
        if !replace {
            let count = draws.iter().product();
            if count > n || *rest != *batch {
                let message = format!("cannot draw {shape} of {n} classes without replacement");
                let error = RuleError::shape(format!("{message}, from distributions {batch}"));
                throw_operands(NAME, error, &[logits]);
            }
            return draw(|| {
                let noisy = add(logits, raw_gumbel(&words, logits.shape(), logits.dtype(), mode));
                let classes = top_k(&moveaxis(&noisy, axis as isize, -1), count, -1).1;
                reshape(&moveaxis(&classes, -1, 0), &shape)
            });
        }
        let from_end = logits.rank() - axis;
        let noise_shape = shape.insert(shape.rank() + 1 - from_end, n);
        draw(|| {
            let noise = raw_gumbel(&words, &noise_shape, logits.dtype(), mode);
            argmax(&add(noise, broadcast_to(logits, &noise_shape)), -(from_end as isize))
        })
    })
}
