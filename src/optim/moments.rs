//! Parts of optimizers: moments, their bias correction, safe norms and counts.

use super::adam::{absolute_square, decayed_mean};
use super::slots::{next_count, power};
use crate::core::{Array, DType, Loc, RuleError, throw_operands};
use crate::ops::axes;
use crate::ops::linalg::{NormOptions, norm_with};
use crate::primitives::{
    abs, convert_element_type, full_like, integer_pow, le, maximum, ones_like, reshape, sqrt,
    where_,
};
use crate::tree::{self, Tree};

/// Returns `(1 - decay) · updateⁿ + decay · moment`, leaf by leaf, with `n` = `order`.
///
/// Throws `Tree` if the structures differ.
///
/// ```
/// use oxidax::prelude::*;
/// let (g, m) = (full([2], 3.0), ones([2]));
/// assert_eq!(optim::update_moment(&g, &m, 0.5, 2).to_vec::<f32>()?, [5.0, 5.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "tree_update_moment")]
#[track_caller]
pub fn update_moment<T: Tree>(updates: &T, moments: &T, decay: f64, order: i32) -> T {
    Loc::caller().scope(|| {
        tree::zip_map(updates, moments, |update, moment| {
            let power = if order == 1 { update.clone() } else { integer_pow(update, order) };
            decayed_mean(&power, moment, decay)
        })
    })
}

/// Returns `(1 - decay) · |update|ⁿ + decay · moment`, leaf by leaf, with `n` = `order`.
///
/// For real numbers of even order it is [`update_moment`]; the moments of complex numbers are
/// real. Throws `Tree` if the structures differ.
#[doc(alias = "tree_update_moment_per_elem_norm")]
#[track_caller]
pub fn update_moment_per_elem_norm<T: Tree>(updates: &T, moments: &T, decay: f64, order: i32) -> T {
    Loc::caller().scope(|| {
        tree::zip_map(updates, moments, |update, moment| {
            let power = match order {
                2 => absolute_square(update),
                _ if order % 2 == 0 => integer_pow(&absolute_square(update), order / 2),
                _ => integer_pow(&abs(update), order),
            };
            decayed_mean(&power, moment, decay)
        })
    })
}

/// Returns `max(|update| + eps, decay · moment)`, leaf by leaf.
///
/// Throws `Tree` if the structures differ.
#[doc(alias = "tree_update_infinity_moment")]
#[track_caller]
pub fn update_infinity_moment<T: Tree>(updates: &T, moments: &T, decay: f64, eps: f64) -> T {
    Loc::caller().scope(|| {
        tree::zip_map(updates, moments, |update, moment| maximum(abs(update) + eps, moment * decay))
    })
}

/// Corrects the bias of means that started at zero: `moment / (1 - decay^count)`, leaf by leaf.
///
/// `count: i32[]` is the number of updates of the mean, at least 1.
///
/// ```
/// use oxidax::prelude::*;
/// let corrected = optim::bias_correction(&full([2], 0.1), 0.9, &scalar(1));
/// assert!((corrected - 1.0).abs().max().item::<f32>()? < 1e-6);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "tree_bias_correction")]
#[track_caller]
pub fn bias_correction<T: Tree>(moments: &T, decay: f64, count: &Array) -> T {
    Loc::caller().scope(|| {
        let correction = 1.0 - power(decay, count, DType::F32);
        tree::map(moments, |moment| moment / convert_element_type(&correction, moment.dtype()))
    })
}

/// Returns `count + 1`, or the largest number of the dtype if it is reached.
///
/// Throws `Op` (dtype) unless the count is an `i32`.
#[doc(alias = "safe_int32_increment")]
#[track_caller]
pub fn safe_increment(count: &Array) -> Array {
    if count.dtype() != DType::I32 {
        let error = RuleError::dtype(format!("counts are i32, got {}", count.aval()));
        throw_operands("safe_increment", error, &[count]);
    }
    Loc::caller().scope(|| next_count(count))
}

/// Returns the norm of all elements, or `min_norm` if that is larger. Its derivative is 0 there
/// instead of NaN.
///
/// ```
/// use oxidax::prelude::*;
/// let slope = grad(|x: &Array| optim::safe_norm(x, 1e-6))(&zeros([3]));
/// assert_eq!(slope.to_vec::<f32>()?, [0.0; 3]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn safe_norm(x: &Array, min_norm: f64) -> Array {
    safe_norm_with(x, min_norm, NormOptions::default())
}

/// Returns a norm along axes, or `min_norm` where that is larger, as [`safe_norm`], with the
/// options of [`norm_with`](crate::ops::linalg::norm_with).
///
/// ```
/// use oxidax::linalg::NormOptions;
/// use oxidax::prelude::*;
/// let rows = NormOptions { axes: axes(-1).keepdims(), ..NormOptions::default() };
/// let norms = optim::safe_norm_with(&array![[3f32, 4.0], [0.0, 0.0]], 0.1, rows);
/// assert_eq!(norms.to_vec::<f32>()?, [5.0, 0.1]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn safe_norm_with(x: &Array, min_norm: f64, options: NormOptions) -> Array {
    Loc::caller().scope(|| {
        let NormOptions { order, axes } = options;
        let wide = NormOptions { order, axes: axes.clone().keepdims() };
        let is_short = le(norm_with(x, wide), min_norm);
        let safe = where_(&is_short, ones_like(x), x);
        let norm = norm_with(&safe, NormOptions { order, axes });
        let is_short = reshape(&is_short, norm.shape());
        where_(&is_short, full_like(&norm, min_norm), &norm)
    })
}

/// Returns the root mean square of all elements, or `min_rms` if that is larger. Its derivative is
/// 0 there instead of NaN.
#[track_caller]
pub fn safe_root_mean_squares(x: &Array, min_rms: f64) -> Array {
    Loc::caller().scope(|| {
        let rms = |x: &Array| sqrt(absolute_square(x).mean());
        let is_small = le(rms(x), min_rms);
        let safe = where_(&is_small, ones_like(x), x);
        let rms = rms(&safe);
        where_(&is_small, full_like(&rms, min_rms), &rms)
    })
}

/// Returns the mean over all axes but the first, with the axes kept.
pub(super) fn mean_of_rows(x: &Array) -> Array {
    let others: Vec<isize> = (1..x.rank() as isize).collect();
    x.mean_axes(axes(others).keepdims())
}
