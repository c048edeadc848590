//! Reductions over windows by user-defined functions.

use super::dims::{Window, WindowAxis};
use super::plan::Plan;
use crate::core::{Array, Loc, RuleError, Shape, trace};
use crate::primitives::comparison::eq;
use crate::primitives::composite::Combine;
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
    let both = |a: &[Array], b: &[Array]| vec![combine(&a[0], &b[0])];
    reduce_windows("reduce_window", from_ref(x), &[init], &both, window).swap_remove(0)
}

/// Reduces each window over several arrays of one shape together. `inits` are scalars of the
/// arrays' dtypes.
#[track_caller]
pub(crate) fn reduce_windows(
    name: &str,
    xs: &[Array],
    inits: &[Array],
    combine: Combine<'_>,
    window: &Window,
) -> Vec<Array> {
    let axes = match window.axes(xs[0].shape()) {
        Ok(axes) => axes,
        Err(error) => trace::throw_operands(name, error, &xs.iter().collect::<Vec<_>>()),
    };
    Loc::caller().scope(|| {
        let n = xs.len();
        let begun = |ys: &[Array]| {
            let starts = inits.iter().zip(ys).map(|(init, y)| broadcast_to(init, y.shape()));
            combine(&starts.collect::<Vec<_>>(), ys)
        };
        let plan = Plan::new(&axes);
        if axes.iter().all(WindowAxis::is_bare) {
            return begun(&plan.run(xs, inits, combine));
        }
        // Padding does not contribute to a result, so each element carries a flag that marks
        // padding.
        let inside = full_like(&eq(&xs[0], &xs[0]), true);
        let outside = zeros_of(&inside.aval().with_shape(Shape::scalar()));
        let either = |a: &[Array], b: &[Array]| {
            let (in_a, in_b) = (&a[n], &b[n]);
            let in_both = bitwise_and(in_a, in_b);
            let mut results = combine(&a[..n], &b[..n]);
            for (index, result) in results.iter_mut().enumerate() {
                let one = select(in_a, &a[index], &b[index]);
                *result = select(&in_both, result, &one);
            }
            results.push(bitwise_or(in_a, in_b));
            results
        };
        let flagged: Vec<Array> = xs.iter().cloned().chain([inside]).collect();
        let fills: Vec<Array> = inits.iter().cloned().chain([outside]).collect();
        let ys = plan.run(&flagged, &fills, &either);
        let (ys, is_inside) = (&ys[..n], &ys[n]);
        let results = begun(ys);
        let of_padding = inits.iter().map(|init| broadcast_to(init, is_inside.shape()));
        results.iter().zip(of_padding).map(|(y, init)| select(is_inside, y, &init)).collect()
    })
}
