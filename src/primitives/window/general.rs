//! Reductions over windows by user-defined functions.

use super::dims::{Window, WindowAxis};
use super::plan::Plan;
use crate::core::{Array, Loc, RuleError, Shape, trace};
use crate::primitives::comparison::eq;
use crate::primitives::constant::{fill_of, full_like, zeros_of};
use crate::primitives::convert::convert_to;
use crate::primitives::logic::{bitwise_and, bitwise_or};
use crate::primitives::promote::{ArrayLike, Like};
use crate::primitives::select::select;
use crate::primitives::shape::broadcast_to;
use std::slice::from_ref;

/// Reduces each window over `x` by `combine`, an associative elementwise function of two arrays.
/// `init` is combined with each result, and is the result of a window of padding.
///
/// `combine` is called about `log2` of the window's size times per axis, on many elements at once,
/// with earlier elements on its left. Every transform applies to it. [`reduce_window_sum`],
/// [`reduce_window_max`], [`reduce_window_min`] and [`reduce_window_prod`] are faster under
/// differentiation and on accelerators. [`reduce_window_max`], [`reduce_window_min`] and
/// [`reduce_window_prod`] do less work for gradients and on accelerators.
///
/// Throws `Op` (shape) if the window does not fit, or if `init` is not a scalar.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::primitives::Window;
/// let pairs = Window { dimensions: vec![2], ..Default::default() };
/// let y = eval_shape(
///     move |x: Array| reduce_window(&x, f64::NEG_INFINITY, |a, b| logaddexp(a, b), &pairs),
///     Aval::new(DType::F32, [10]),
/// )?;
/// assert_eq!(y.aval().to_string(), "f32[9]");
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// [`reduce_window_sum`]: super::reduce_window_sum
/// [`reduce_window_max`]: super::reduce_window_max
/// [`reduce_window_min`]: super::reduce_window_min
/// [`reduce_window_prod`]: super::reduce_window_prod
#[track_caller]
pub fn reduce_window(
    x: &Array,
    init: impl ArrayLike,
    combine: impl Fn(&Array, &Array) -> Array,
    window: &Window,
) -> Array {
    let scalar = x.aval().with_shape(Shape::scalar());
    let init = match init.like() {
        Like::Scalar(number) => fill_of(number, &scalar),
        Like::Array(init) if init.rank() == 0 => convert_to(init, x.dtype(), x.aval().weak),
        Like::Array(init) => {
            let error = RuleError::shape(format!("init must be a scalar, got {}", init.aval()));
            trace::throw_operands("reduce_window", error, &[x, init])
        }
    };
    let axes = match window.axes(x.shape()) {
        Ok(axes) => axes,
        Err(error) => trace::throw_operands("reduce_window", error, &[x]),
    };
    Loc::caller().scope(|| {
        let begun = |y: &Array| combine(&broadcast_to(&init, y.shape()), y);
        let plan = Plan::new(&axes);
        if axes.iter().all(WindowAxis::is_bare) {
            let both = |a: &[Array], b: &[Array]| vec![combine(&a[0], &b[0])];
            return begun(&plan.run(from_ref(x), from_ref(&init), &both)[0]);
        }
        // Padding does not contribute to a result, so each element carries a flag that marks
        // padding.
        let inside = full_like(&eq(x, x), true);
        let outside = zeros_of(&inside.aval().with_shape(Shape::scalar()));
        let either = |a: &[Array], b: &[Array]| {
            let one = select(&a[1], &a[0], &b[0]);
            let all = select(&bitwise_and(&a[1], &b[1]), &combine(&a[0], &b[0]), &one);
            vec![all, bitwise_or(&a[1], &b[1])]
        };
        let y = plan.run(&[x.clone(), inside], &[init.clone(), outside], &either);
        select(&y[1], &begun(&y[0]), &broadcast_to(&init, y[0].shape()))
    })
}
