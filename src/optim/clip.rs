//! Bounds on gradients.

use super::adam::absolute_square;
use super::basic::stateless;
use super::leaves::Leaf;
use super::memory::{Memory, Rule, Step};
use super::optimizer::Optimizer;
use crate::core::{Array, DType};
use crate::ops::axes;
use crate::primitives::{clamp, convert_element_type, full_like, lt, maximum, sqrt, where_};

/// Every element between `-max_delta` and `max_delta`.
pub fn clip(max_delta: f64) -> Optimizer {
    stateless(move |_, update, _| {
        clamp(full_like(update, -max_delta), update, full_like(update, max_delta))
    })
}

/// The gradient, all leaves seen as one vector, no longer than `max_norm`: in front of a chain, or anywhere.
/// The norm is taken in `f32` at least.
///
/// ```
/// use oxidax::prelude::*;
/// let optimizer = optim::clip_by_global_norm(1.0).chain(optim::adamw(3e-4));
/// ```
///
/// # Reference
/// Pascanu, Mikolov, Bengio: On the difficulty of training recurrent neural networks (2013), section 3.2.
pub fn clip_by_global_norm(max_norm: f64) -> Optimizer {
    Optimizer::one(GlobalNorm(max_norm))
}

#[derive(Debug)]
struct GlobalNorm(f64);

impl Rule for GlobalNorm {
    fn update(&self, _: &Step<'_>, leaves: &mut [Leaf], _: &mut Memory<'_>) {
        let sums = leaves.iter().map(|leaf| wide(&absolute_square(&leaf.update)).sum());
        let Some(sum) = sums.reduce(|a, b| a + b) else { return };
        let norm = sqrt(&sum);
        let is_short = lt(&norm, self.0);
        for leaf in leaves {
            let dtype = leaf.update.dtype();
            let clipped = &leaf.update / convert_element_type(&norm, dtype) * self.0;
            leaf.update = where_(&is_short, &leaf.update, &clipped);
        }
    }
}

/// Each leaf's root mean square at most `threshold`.
///
/// # Reference
/// Shazeer, Stern: Adafactor: adaptive learning rates with sublinear memory cost (2018), section 6.
pub fn clip_by_block_rms(threshold: f64) -> Optimizer {
    stateless(move |_, update, _| {
        let excess = maximum(root_mean_square(update) / threshold, 1.0);
        update / convert_element_type(&excess, update.dtype())
    })
}

/// For each unit of a leaf, the gradient's norm at most `clipping` times the parameter's, which counts as
/// `eps` if it is less. A unit is all of a vector; of more axes it is what leads to one output: `axis 0` of two
/// or three axes, all but the last of four or more. Leaves of a single row count as vectors.
///
/// # Reference
/// Brock, De, Smith, Simonyan: High-performance large-scale image recognition without normalization (2021),
/// equation 3.
pub fn adaptive_grad_clip(clipping: f64, eps: f64) -> Optimizer {
    stateless(move |_, update, parameter| {
        let most = maximum(unit_norm(parameter), eps) * clipping;
        let norm = unit_norm(update);
        let factor = &most / maximum(&norm, 1e-6);
        let clipped = update * convert_element_type(&factor, update.dtype());
        where_(&lt(&norm, &most), update, &clipped)
    })
}

/// The norm of each unit, which broadcasts against `x`.
fn unit_norm(x: &Array) -> Array {
    let long = x.shape().dims().iter().filter(|size| **size != 1).count();
    let over: Vec<isize> = match x.rank() {
        rank if long <= 1 => (0..rank as isize).collect(),
        2 | 3 => vec![0],
        rank => (0..rank as isize - 1).collect(),
    };
    sqrt(&wide(&absolute_square(x)).sum_axes(axes(over).keepdims()))
}

/// The length of all elements seen as one vector, in `f32` at least.
pub(super) fn norm(x: &Array) -> Array {
    sqrt(&wide(&absolute_square(x)).sum())
}

/// The root of the mean of the squares, in `f32` at least.
pub(super) fn root_mean_square(x: &Array) -> Array {
    sqrt(&wide(&absolute_square(x)).mean())
}

/// At least `f32`.
fn wide(x: &Array) -> Array {
    match x.dtype() {
        DType::F64 => x.clone(),
        _ => convert_element_type(x, DType::F32),
    }
}
