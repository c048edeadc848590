//! Random choices: among elements, and among classes.

use super::gumbel::{RandomMode, raw_gumbel};
use super::key::Key;
use super::parameters::batch_shape;
use super::permutation::{axis_of, raw_permuted};
use super::randint::raw_positions;
use super::sampler::{draw, expect_float};
use super::uniform::raw_unit;
use crate::core::{Array, DType, RuleError, Scalar, Shape, throw_operands};
use crate::ops::{searchsorted, take};
use crate::primitives::{
    ArrayLike, Like, add, argmax, broadcast_to, cumsum, inexact, iota, log, moveaxis, mul, reshape,
    slice_in_dim, sub, top_k,
};

/// How [`choice_with`] chooses.
#[derive(Clone, Copy, Debug)]
pub struct ChoiceOptions<'a> {
    /// Whether an element can be chosen again.
    pub replace: bool,
    /// The probability of each element, `[n]`; all alike if `None`. They should sum up to 1.
    pub p: Option<&'a Array>,
    /// The axis along which slices are chosen.
    pub axis: isize,
    /// How many random bits an element takes; counts with `p` and without replacement.
    pub mode: RandomMode,
}

impl Default for ChoiceOptions<'_> {
    /// With replacement, all alike, along the first axis.
    fn default() -> Self {
        ChoiceOptions { replace: true, p: None, axis: 0, mode: RandomMode::Low }
    }
}

/// Elements of `a` by chance, each as likely as any other and possible again: an array of shape `shape` of the
/// slices of `a` along its first axis, or, where `a` is a number `n`, of the numbers `0..n` as `i32`.
/// [`choice_with`] has probabilities, other axes, and choices without replacement.
///
/// Throws `Op` if there is nothing to choose from.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let cards = random::choice(random::key(0), [5], 52);
/// let rows = random::choice(random::key(1), [2], &zeros([10, 3], DType::F32));
/// assert_eq!(rows.shape().dims(), [2, 3]);
/// ```
#[track_caller]
pub fn choice(key: Key, shape: impl Into<Shape>, a: impl ArrayLike) -> Array {
    choice_with(key, shape, a, ChoiceOptions::default())
}

/// As [`choice`], with [`ChoiceOptions`]. Along `axis` the result has the axes of `shape`, and otherwise those
/// of `a`.
///
/// Throws `Op` if there is nothing to choose from, if more is to be chosen than there is, without replacement,
/// and if `p` is not a float vector of the axis' size.
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
    if let Some(error) = refused(n, shape.size(), &options) {
        throw_operands(NAME, error, &operands);
    }
    let count = shape.size();
    draw(|| {
        let positions = match (options.p.filter(|_| n > 0), options.replace) {
            (None, true) => raw_positions(&words, &shape, n),
            (None, false) => {
                let all = array.cloned().unwrap_or_else(|| iota(DType::I32, n));
                let chosen = slice_in_dim(
                    &raw_permuted(&words, &all, axis),
                    0,
                    count as isize,
                    1,
                    axis as isize,
                );
                return shaped(&chosen, axis, &shape);
            }
            (Some(p), true) => {
                let totals = cumsum(&inexact(p), 0, false);
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
            Some(x) => shaped(&take(x, &reshape(&positions, [count]), axis as isize), axis, &shape),
            None => reshape(&positions, &shape),
        }
    })
}

/// What is wrong with a choice of `count` of `n`.
fn refused(n: usize, count: usize, options: &ChoiceOptions<'_>) -> Option<RuleError> {
    if let Some(p) = options.p
        && (p.shape().dims() != [n] || !p.dtype().is_float())
    {
        let message = format!("the probabilities must be floats of shape [{n}], got {}", p.aval());
        return Some(RuleError::shape(message));
    }
    if n == 0 && count > 0 {
        return Some(RuleError::value(format!("there is nothing to choose {count} elements from")));
    }
    if !options.replace && count > n {
        let message = format!("cannot choose {count} of {n} elements without replacement");
        return Some(RuleError::value(message));
    }
    None
}

/// `x` with its axis `axis` in the shape `shape`.
#[track_caller]
fn shaped(x: &Array, axis: usize, shape: &Shape) -> Array {
    let dims = x.shape();
    let all: Shape =
        dims[..axis].iter().chain(shape.iter()).chain(&dims[axis + 1..]).copied().collect();
    reshape(x, all)
}

/// How [`categorical_with`] chooses.
#[derive(Clone, Debug)]
pub struct CategoricalOptions {
    /// The axis of the classes.
    pub axis: isize,
    /// The shape of the result; that of the distributions if `None`.
    pub shape: Option<Shape>,
    /// Whether one distribution's draws may be alike.
    pub replace: bool,
    /// How many random bits a class takes.
    pub mode: RandomMode,
}

impl Default for CategoricalOptions {
    /// One draw each, along the last axis.
    fn default() -> Self {
        CategoricalOptions { axis: -1, shape: None, replace: true, mode: RandomMode::Low }
    }
}

/// Random classes by their unnormalized log-probabilities (in nats) along `axis`: `i32` of the shape
/// of `logits` without that axis.
///
/// `logits` is `f16`, `bf16`, `f32` or `f64`; a logit of negative infinity is never drawn unless all
/// are.
///
/// Throws `Op` for another dtype or axis.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let logits = zeros([4, 10], DType::F32);
/// let classes = random::categorical(random::key(0), &logits, -1);
/// assert_eq!(classes.shape().dims(), [4]);
/// ```
///
/// # Reference
/// Gumbel: Statistical theory of extreme values (1954); the maximum of logits and Gumbel noise.
#[track_caller]
pub fn categorical(key: Key, logits: &Array, axis: isize) -> Array {
    categorical_with(key, logits, CategoricalOptions { axis, ..Default::default() })
}

/// As [`categorical`], many draws at once: `i32` of shape `shape`, to the last axes of which the shape of
/// `logits` without `axis` broadcasts.
///
/// Throws `Op` for another dtype, axis or shape.
#[track_caller]
pub fn categorical_shape(key: Key, logits: &Array, axis: isize, shape: impl Into<Shape>) -> Array {
    let shape = Some(shape.into());
    categorical_with(key, logits, CategoricalOptions { axis, shape, ..Default::default() })
}

/// As [`categorical_shape`], with [`CategoricalOptions`]. Without replacement the draws of one distribution are
/// different classes; the shape must then end with that of `logits` without the axis.
///
/// Throws `Op` for another dtype, axis or shape, and for more draws than classes, without replacement.
///
/// ```no_run
/// use oxidax::prelude::*;
/// use oxidax::random::CategoricalOptions;
/// let logits = zeros([4, 10], DType::F32);
/// let options = CategoricalOptions { shape: Some([3, 4].into()), replace: false, ..Default::default() };
/// let beam = random::categorical_with(random::key(0), &logits, options);
/// assert_eq!(beam.shape().dims(), [3, 4]);
/// ```
#[track_caller]
pub fn categorical_with(key: Key, logits: &Array, options: CategoricalOptions) -> Array {
    const NAME: &str = "categorical";
    let CategoricalOptions { axis, shape, replace, mode } = options;
    let at = axis_of(NAME, logits, axis);
    expect_float(NAME, logits.dtype());
    let batch = logits.shape().remove(at);
    let shape = match shape {
        Some(shape) => batch_shape(NAME, shape, std::slice::from_ref(&batch), &[logits]),
        None => batch.clone(),
    };
    let (many, each) = shape.split_at(shape.rank() - batch.rank());
    let n = logits.shape()[at];
    let words = key.words(NAME);
    if !replace {
        let count = many.iter().product();
        if count > n || *each != *batch {
            let message = format!("cannot draw {shape} of {n} classes without replacement");
            let error = RuleError::shape(format!("{message}, from distributions {batch}"));
            throw_operands(NAME, error, &[logits]);
        }
        return draw(|| {
            let noisy = add(logits, raw_gumbel(&words, logits.shape(), logits.dtype(), mode));
            let classes = top_k(&moveaxis(&noisy, at as isize, -1), count, -1).1;
            reshape(&moveaxis(&classes, -1, 0), &shape)
        });
    }
    let from_the_back = logits.rank() - at;
    let drawn = shape.insert(shape.rank() + 1 - from_the_back, n);
    draw(|| {
        let noise = raw_gumbel(&words, &drawn, logits.dtype(), mode);
        argmax(&add(noise, broadcast_to(logits, &drawn)), -(from_the_back as isize))
    })
}
