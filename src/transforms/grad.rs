//! Gradients of scalar functions: reverse mode, one pass forward and one back.

use super::vjp::GradCall;
use crate::core::{Array, Loc};
use crate::tree::{FnArgs, Function, TransformedFn, Tree, of_first, transformed};

/// Returns the function that computes the gradient of a scalar function with respect to all leaves
/// of its first argument.
///
/// `f` returns an array of shape `[]` and real float dtype. Put everything to differentiate by into
/// the first argument, for example into a tuple; the other arguments and captured arrays are
/// constant. The gradient has the structure, shapes and dtypes of the first argument. Leaves of
/// integer or boolean dtype get zeros.
///
/// For complex leaves the convention is JAX's: the gradient of a real function is the conjugate of
/// the direction of steepest ascent.
///
/// A closure inside `grad` receives traced arrays, also outside `jit`.
///
/// The returned function throws `Op` if the output of `f` is not a real scalar, and whatever `f`
/// throws.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let x = Array::from_slice(&[1.0f32, 2.0, 3.0], [3])?;
/// let gradient = grad(|x: &Array| (x * x).sum())(&x);
/// assert_eq!(gradient.to_vec::<f32>()?, [2.0, 4.0, 6.0]);
/// // The result is a function, which other transforms accept.
/// let curvature = vmap(grad(grad(|x: &Array| x * x * x))).apply(&x);
/// assert_eq!(curvature.to_vec::<f32>()?, [6.0, 12.0, 18.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn grad<'f, A: FnArgs, M: 'f, F: Function<A, M, Output = Array> + 'f>(
    f: F,
) -> impl TransformedFn<'f, A, A::First> {
    let call = GradCall::new("grad", &f.name(), Loc::caller());
    transformed::<A, _>(f.name(), move |arguments| {
        let f = of_first(&f, arguments);
        call.apply(|first| (f(first), ()), A::first(arguments)).2
    })
}

/// As [`grad`], for a function that also returns values that are not differentiated. Returns
/// `(gradient, aux)`.
#[track_caller]
pub fn grad_aux<'f, A: FnArgs, M: 'f, X: Tree, F: Function<A, M, Output = (Array, X)> + 'f>(
    f: F,
) -> impl TransformedFn<'f, A, (A::First, X)> {
    let call = GradCall::new("grad_aux", &f.name(), Loc::caller());
    transformed::<A, _>(f.name(), move |arguments| {
        let (_, aux, gradient) = call.apply(of_first(&f, arguments), A::first(arguments));
        (gradient, aux)
    })
}

/// Returns the function that computes the value and the gradient of a scalar function. See
/// [`grad`].
#[track_caller]
pub fn value_and_grad<'f, A: FnArgs, M: 'f, F: Function<A, M, Output = Array> + 'f>(
    f: F,
) -> impl TransformedFn<'f, A, (Array, A::First)> {
    let call = GradCall::new("value_and_grad", &f.name(), Loc::caller());
    transformed::<A, _>(f.name(), move |arguments| {
        let f = of_first(&f, arguments);
        let (value, (), gradient) = call.apply(|first| (f(first), ()), A::first(arguments));
        (value, gradient)
    })
}

/// As [`value_and_grad`], for a function that also returns values that are not differentiated.
/// Returns `((value, aux), gradient)`.
#[doc(alias = "has_aux")]
#[track_caller]
pub fn value_and_grad_aux<
    'f,
    A: FnArgs,
    M: 'f,
    X: Tree,
    F: Function<A, M, Output = (Array, X)> + 'f,
>(
    f: F,
) -> impl TransformedFn<'f, A, ((Array, X), A::First)> {
    let call = GradCall::new("value_and_grad_aux", &f.name(), Loc::caller());
    transformed::<A, _>(f.name(), move |arguments| {
        let (value, aux, gradient) = call.apply(of_first(&f, arguments), A::first(arguments));
        ((value, aux), gradient)
    })
}
