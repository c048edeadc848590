//! Pooling over the spatial axes of images: `[n, spatial…, channels]`.

use crate::core::{Array, DType, RuleError, trace};
use crate::primitives::{
    Padding, Window, convert_element_type, div, ones, reduce_window_max, reduce_window_min,
    reduce_window_sum,
};

/// The window over all axes, of size 1 along the first and the last.
#[track_caller]
fn spatial(name: &str, x: &Array, window: &[usize], strides: &[usize], padding: Padding) -> Window {
    let n = window.len();
    let fits = x.rank() == n + 2 && (strides.is_empty() || strides.len() == n);
    if !fits {
        let error = RuleError::shape(format!(
            "a window over {n} axes with {} strides needs an operand [n, {n} spatial axes, channels], got {}",
            strides.len(),
            x.aval()
        ));
        trace::throw_operands(name, error, &[x]);
    }
    let framed = |list: &[usize]| -> Vec<usize> {
        let inner = if list.is_empty() { vec![1; n] } else { list.to_vec() };
        std::iter::once(1).chain(inner).chain([1]).collect()
    };
    let padding = match padding {
        Padding::Explicit(pads) => {
            let frame = std::iter::once((0, 0));
            Padding::Explicit(frame.clone().chain(pads).chain(frame).collect())
        }
        other => other,
    };
    Window { dimensions: framed(window), strides: framed(strides), padding, ..Window::default() }
}

/// Largest element in each window over the spatial axes of `x`, `[n, spatial…, channels]`. `window` and
/// `strides` (empty for ones) have one entry per spatial axis; padding is never the largest.
///
/// Throws `Op` (shape) if they do not fit.
///
/// ```
/// use oxidax::prelude::*;
/// let half = |x: Array| max_pool(&x, &[2, 2], &[2, 2], Padding::Valid);
/// let y = eval_shape(half, Aval::new(DType::F32, [8, 28, 28, 3]))?;
/// assert_eq!(y.aval().to_string(), "f32[8,14,14,3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn max_pool(x: &Array, window: &[usize], strides: &[usize], padding: Padding) -> Array {
    reduce_window_max(x, &spatial("max_pool", x, window, strides, padding))
}

/// Smallest element in each window over the spatial axes of `x`; otherwise as [`max_pool`].
#[track_caller]
pub fn min_pool(x: &Array, window: &[usize], strides: &[usize], padding: Padding) -> Array {
    reduce_window_min(x, &spatial("min_pool", x, window, strides, padding))
}

/// What the mean over a window divides by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AverageOver {
    /// The size of the window, padding counted as zeros.
    #[default]
    Window,
    /// How many elements of the operand the window meets.
    Elements,
}

/// Mean of each window over the spatial axes of `x`, a float array; otherwise as [`max_pool`]. `over` says
/// whether padding counts.
///
/// Throws `Op` (dtype) for operands without a mean of their own dtype.
#[track_caller]
pub fn avg_pool(
    x: &Array,
    window: &[usize],
    strides: &[usize],
    padding: Padding,
    over: AverageOver,
) -> Array {
    if !x.dtype().is_inexact() {
        let error =
            RuleError::dtype(format!("needs a float or complex operand, got {}", x.dtype()));
        trace::throw_operands("avg_pool", error, &[x]);
    }
    let all = spatial("avg_pool", x, window, strides, padding);
    let sum = reduce_window_sum(x, &all);
    match over {
        AverageOver::Window => div(sum, window.iter().product::<usize>() as f64),
        AverageOver::Elements => {
            let mut dims = x.shape().to_vec();
            (dims[0], dims[x.rank() - 1]) = (1, 1);
            let count = reduce_window_sum(&ones(dims, DType::F32), &all);
            div(sum, convert_element_type(&count, x.dtype()))
        }
    }
}
