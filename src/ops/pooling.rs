//! Pooling over the spatial axes of images: `[n, spatial…, channels]`.

use crate::core::{Array, RuleError, trace};
use crate::primitives::{
    Padding, Window, div, ones, reduce_window_max, reduce_window_min, reduce_window_sum,
};

/// Returns the window over all axes, of size 1 along the first and the last.
#[track_caller]
fn spatial_window(
    name: &str,
    x: &Array,
    window: &[usize],
    strides: &[usize],
    padding: Padding,
) -> Window {
    let n = window.len();
    let fits = x.rank() == n + 2 && (strides.is_empty() || strides.len() == n);
    if !fits {
        let error = RuleError::shape(format!(
            "a window over {n} axes with {} strides needs an operand with axes batch, {n} spatial \
             ones and channels, got {}",
            strides.len(),
            x.aval()
        ));
        trace::throw_operands(name, error, &[x]);
    }
    let extended = |list: &[usize]| -> Vec<usize> {
        let inner = if list.is_empty() { vec![1; n] } else { list.to_vec() };
        std::iter::once(1).chain(inner).chain([1]).collect()
    };
    let padding = match padding {
        Padding::Explicit(pads) => {
            let unpadded = std::iter::once((0, 0));
            Padding::Explicit(unpadded.clone().chain(pads).chain(unpadded).collect())
        }
        other => other,
    };
    Window {
        dimensions: extended(window),
        strides: extended(strides),
        padding,
        ..Window::default()
    }
}

/// Returns the largest element in each window over the spatial axes of `x`, `[n, spatial…,
/// channels]`. `window` and `strides` have one entry per spatial axis; empty `strides` are ones.
/// Padding is never the largest element.
///
/// Throws `Op` (shape) if they do not fit.
///
/// ```
/// use oxidax::prelude::*;
/// let halve = |x: Array| max_pool(&x, &[2, 2], &[2, 2], Padding::Valid);
/// let y = eval_shape(halve, Aval::new(DType::F32, [8, 28, 28, 3]))?;
/// assert_eq!(y.aval().to_string(), "f32[8,14,14,3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn max_pool(x: &Array, window: &[usize], strides: &[usize], padding: Padding) -> Array {
    reduce_window_max(x, &spatial_window("max_pool", x, window, strides, padding))
}

/// Returns the smallest element in each window over the spatial axes of `x`, as [`max_pool`].
#[track_caller]
pub fn min_pool(x: &Array, window: &[usize], strides: &[usize], padding: Padding) -> Array {
    reduce_window_min(x, &spatial_window("min_pool", x, window, strides, padding))
}

/// Options of [`avg_pool_with`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AvgPoolOptions {
    /// Counts padding as zeros. Otherwise the mean is over the elements of the operand alone, in
    /// `f32` at least. The default is true, as in Flax.
    pub count_include_pad: bool,
}

impl Default for AvgPoolOptions {
    fn default() -> Self {
        AvgPoolOptions { count_include_pad: true }
    }
}

/// Returns the mean of each window over the spatial axes of `x`, a float array, as [`max_pool`].
/// Padding counts as zeros.
///
/// Throws `Op` (dtype) for integers and booleans.
#[track_caller]
pub fn avg_pool(x: &Array, window: &[usize], strides: &[usize], padding: Padding) -> Array {
    avg_pool_with(x, window, strides, padding, AvgPoolOptions::default())
}

/// Returns the mean of each window, as [`avg_pool`], with options.
#[track_caller]
pub fn avg_pool_with(
    x: &Array,
    window: &[usize],
    strides: &[usize],
    padding: Padding,
    options: AvgPoolOptions,
) -> Array {
    if !x.dtype().is_inexact() {
        let error =
            RuleError::dtype(format!("needs a float or complex operand, got {}", x.dtype()));
        trace::throw_operands("avg_pool", error, &[x]);
    }
    let all = spatial_window("avg_pool", x, window, strides, padding);
    let sum = reduce_window_sum(x, &all);
    if options.count_include_pad {
        return div(sum, window.iter().product::<usize>() as f64);
    }
    let mut dims = x.shape().to_vec();
    (dims[0], dims[x.rank() - 1]) = (1, 1);
    let count = reduce_window_sum(&ones(dims), &all);
    div(sum, &count)
}
