//! Gradient clipping.

use super::adam::absolute_square;
use super::leaves::Leaf;
use super::optimizer::Optimizer;
use super::schedule::Schedule;
use super::sgd::stateless;
use super::slots::{Rate, Slots, Step, Transformation};
use crate::core::{Array, DType};
use crate::ops::axes;
use crate::primitives::{clamp, convert_element_type, full_like, lt, maximum, sqrt, where_};
use crate::tree::{self, Tree};

/// Clips every element to `-max_delta..=max_delta`.
pub fn clip(max_delta: f64) -> Optimizer {
    stateless(move |_, update, _| {
        clamp(full_like(update, -max_delta), update, full_like(update, max_delta))
    })
}

/// Returns the Euclidean norm of all leaves together, in the dtype that they promote to, as
/// [`tree::norm`](crate::tree::norm).
///
/// ```
/// use oxidax::prelude::*;
/// let gradients = (scalar(3.0), scalar(4.0));
/// assert_eq!(optim::global_norm(&gradients).item::<f32>()?, 5.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn global_norm<T: Tree>(updates: &T) -> Array {
    tree::norm(updates)
}

/// Scales updates so that the norm of all leaves together is at most `max_norm`.
///
/// The norm is computed in `f32` at least. `max_norm` may be a schedule.
///
/// ```
/// use oxidax::prelude::*;
/// let optimizer = optim::clip_by_global_norm(1.0).chain(optim::adamw(3e-4));
/// ```
///
/// # Reference
/// Pascanu, Mikolov, Bengio: On the difficulty of training recurrent neural networks (2013),
/// section 3.2.
pub fn clip_by_global_norm(max_norm: impl Into<Schedule>) -> Optimizer {
    Optimizer::one(ClipByGlobalNorm(max_norm.into()))
}

#[derive(Debug)]
struct ClipByGlobalNorm(Schedule);

impl Transformation for ClipByGlobalNorm {
    fn update(&self, step: &Step<'_>, leaves: &mut [Leaf], _: &mut Slots<'_>) {
        let sums = leaves.iter().map(|leaf| wide(&absolute_square(&leaf.update)).sum());
        let Some(sum) = sums.reduce(|a, b| a + b) else { return };
        let norm = sqrt(&sum);
        let limit = step.rate(&self.0);
        let (is_short, factor) = match &limit {
            Rate::Number(limit) => (lt(&norm, *limit), *limit / &norm),
            Rate::Array(limit) => {
                let limit = convert_element_type(limit, norm.dtype());
                (lt(&norm, &limit), limit / &norm)
            }
        };
        // One factor: a compiler computes a product again in each use, where it would store the
        // quotients of all leaves.
        let factor = where_(&is_short, 1.0, &factor);
        for leaf in leaves {
            leaf.update = &leaf.update * convert_element_type(&factor, leaf.update.dtype());
        }
    }

    fn schedules(&self, visit: &mut dyn FnMut(&Schedule)) {
        visit(&self.0);
    }
}

/// Scales the update of each leaf so that its root mean square is at most `threshold`.
///
/// # Reference
/// Shazeer, Stern: Adafactor: adaptive learning rates with sublinear slots cost (2018), section 6.
pub fn clip_by_block_rms(threshold: f64) -> Optimizer {
    stateless(move |_, update, _| {
        let excess = maximum(root_mean_square(update) / threshold, 1.0);
        update / convert_element_type(&excess, update.dtype())
    })
}

/// Options of [`adaptive_grad_clip_with`].
#[derive(Clone, Debug, PartialEq)]
pub struct AdaptiveGradClipOptions {
    /// The least norm of a parameter. 1e-3 by default.
    pub eps: f64,
    /// The axes of a unit, in all leaves. By default they depend on the number of axes.
    pub axes: Option<Vec<isize>>,
}

impl Default for AdaptiveGradClipOptions {
    fn default() -> AdaptiveGradClipOptions {
        AdaptiveGradClipOptions { eps: 1e-3, axes: None }
    }
}

/// Scales the update of each unit so that its norm is at most `clipping` times that of the
/// parameter.
///
/// The unit of a vector is the whole vector. The units of a leaf with two or three axes are along
/// axis 0, those of a leaf with more axes along all axes but the last. Leaves with one axis of size
/// above 1 count as vectors.
///
/// # Reference
/// Brock, De, Smith, Simonyan: High-performance large-scale image recognition without normalization
/// (2021), equation 3.
pub fn adaptive_grad_clip(clipping: f64) -> Optimizer {
    adaptive_grad_clip_with(clipping, AdaptiveGradClipOptions::default())
}

/// Scales the update of each unit as [`adaptive_grad_clip`], with options.
pub fn adaptive_grad_clip_with(clipping: f64, options: AdaptiveGradClipOptions) -> Optimizer {
    stateless(move |_, update, parameter| {
        let unit = options.axes.as_deref();
        let max_norm = maximum(unit_norm(parameter, unit), options.eps) * clipping;
        let norm = unit_norm(update, unit);
        let factor = &max_norm / maximum(&norm, 1e-6);
        let clipped = update * convert_element_type(&factor, update.dtype());
        where_(lt(&norm, &max_norm), update, &clipped)
    })
}

/// Returns the norm of each unit, in a shape that broadcasts against `x`.
fn unit_norm(x: &Array, unit: Option<&[isize]>) -> Array {
    let n_long_axes = x.shape().dims().iter().filter(|size| **size != 1).count();
    let reduced: Vec<isize> = match (unit, x.rank()) {
        (Some(unit), _) => unit.to_vec(),
        (None, rank) if n_long_axes <= 1 => (0..rank as isize).collect(),
        (None, 2 | 3) => vec![0],
        (None, rank) => (0..rank as isize - 1).collect(),
    };
    sqrt(wide(&absolute_square(x)).sum_axes(axes(reduced).keepdims()))
}

/// Returns the norm of all elements, in `f32` at least.
pub(super) fn norm(x: &Array) -> Array {
    sqrt(wide(&absolute_square(x)).sum())
}

/// Returns the root mean square, in `f32` at least.
pub(super) fn root_mean_square(x: &Array) -> Array {
    sqrt(wide(&absolute_square(x)).mean())
}

/// Converts to `f32` at least.
fn wide(x: &Array) -> Array {
    match x.dtype() {
        DType::F64 => x.clone(),
        _ => convert_element_type(x, DType::F32),
    }
}
