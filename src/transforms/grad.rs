//! Gradients of scalar functions: reverse mode, one pass forward and one back.

use super::vjp::{GradCall, GradOptions};
use crate::core::{Array, Loc};
use crate::tree::{FnArgs, Function, TransformedFn, Tree, of_first, transformed};

/// Returns the function that computes the gradient of a scalar function with respect to all leaves
/// of its first argument.
///
/// `f` returns an array of shape `[]` and real float dtype. Put everything to differentiate by into
/// the first argument, for example into a tuple; the other arguments and captured arrays are
/// constant. The gradient has the structure, shapes and dtypes of the first argument.
///
/// For complex leaves the convention is JAX's: the gradient of a real function is the conjugate of
/// the direction of steepest ascent.
///
/// A closure inside `grad` receives traced arrays, also outside `jit`.
///
/// The returned function throws `Tree`, naming the leaf, if a leaf of the first argument has an
/// integer or boolean dtype ([`GradOptions`] allows them), `Op` if the output of `f` is not a real
/// scalar, and whatever `f` throws.
///
/// ```
/// use oxidax::prelude::*;
/// let x = Array::from_slice(&[1.0f32, 2.0, 3.0], [3])?;
/// let gradient = grad(|x: &Array| (x * x).sum())(&x);
/// assert_eq!(gradient.to_vec::<f32>()?, [2.0, 4.0, 6.0]);
/// // The result is a function, which other transforms accept.
/// let curvature = vmap(grad(grad(|x: &Array| x * x * x))).apply(&x);
/// assert_eq!(curvature.to_vec::<f32>()?, [6.0, 12.0, 18.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "backward")]
#[doc(alias = "autodiff")]
#[track_caller]
pub fn grad<'f, A: FnArgs, M: 'f, F: Function<A, M, Output = Array> + 'f>(
    f: F,
) -> impl TransformedFn<'f, A, A::First> {
    grad_with(f, GradOptions::default())
}

/// As [`grad`], with options.
///
/// ```
/// use oxidax::prelude::*;
/// let table = (ones([3]), Array::from_slice(&[2i32, 0], [2])?);
/// let picked = |(x, at): &(Array, Array)| take(x, at, 0).sum();
/// assert!(catch(|| grad(picked)(&table)).is_err());
/// let options = GradOptions { allow_int: true, ..GradOptions::default() };
/// let (dx, dat) = grad_with(picked, options)(&table);
/// assert_eq!(dx.to_vec::<f32>()?, [1.0, 0.0, 1.0]);
/// assert_eq!(dat.to_vec::<i32>()?, [0, 0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "allow_int")]
#[doc(alias = "holomorphic")]
#[track_caller]
pub fn grad_with<'f, A: FnArgs, M: 'f, F: Function<A, M, Output = Array> + 'f>(
    f: F,
    options: GradOptions,
) -> impl TransformedFn<'f, A, A::First> {
    let call = GradCall::new("grad", &f.name(), options, Loc::caller());
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
    grad_aux_with(f, GradOptions::default())
}

/// As [`grad_aux`], with options.
#[track_caller]
pub fn grad_aux_with<'f, A: FnArgs, M: 'f, X: Tree, F: Function<A, M, Output = (Array, X)> + 'f>(
    f: F,
    options: GradOptions,
) -> impl TransformedFn<'f, A, (A::First, X)> {
    let call = GradCall::new("grad_aux", &f.name(), options, Loc::caller());
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
    value_and_grad_with(f, GradOptions::default())
}

/// As [`value_and_grad`], with options.
#[track_caller]
pub fn value_and_grad_with<'f, A: FnArgs, M: 'f, F: Function<A, M, Output = Array> + 'f>(
    f: F,
    options: GradOptions,
) -> impl TransformedFn<'f, A, (Array, A::First)> {
    let call = GradCall::new("value_and_grad", &f.name(), options, Loc::caller());
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
    value_and_grad_aux_with(f, GradOptions::default())
}

/// As [`value_and_grad_aux`], with options.
#[track_caller]
pub fn value_and_grad_aux_with<
    'f,
    A: FnArgs,
    M: 'f,
    X: Tree,
    F: Function<A, M, Output = (Array, X)> + 'f,
>(
    f: F,
    options: GradOptions,
) -> impl TransformedFn<'f, A, ((Array, X), A::First)> {
    let call = GradCall::new("value_and_grad_aux", &f.name(), options, Loc::caller());
    transformed::<A, _>(f.name(), move |arguments| {
        let (value, aux, gradient) = call.apply(of_first(&f, arguments), A::first(arguments));
        ((value, aux), gradient)
    })
}
