//! Gradients of scalar functions: reverse mode, one pass forward and one back.

use super::staging::short_name;
use super::vjp::GradCall;
use crate::core::Array;
use crate::core::Loc;
use crate::tree::Tree;

#[track_caller]
fn grad_call<F>(transform: &'static str) -> GradCall {
    let scope = format!("grad({})", short_name::<F>());
    GradCall { transform, scope, loc: Loc::caller() }
}

/// Returns the function that computes the gradient of a scalar function with respect to all leaves
/// of its argument.
///
/// `f` takes one borrowed tree (a tuple for several arguments) and returns an array of shape `[]`
/// and real float dtype. Arrays that it captures are constant. Gradients have the structure, shapes
/// and dtypes of the argument; leaves of integer or boolean dtype get zeros.
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
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn grad<P: Tree, F: Fn(&P) -> Array>(f: F) -> impl Fn(&P) -> P {
    let call = grad_call::<F>("grad");
    move |primals| call.apply(|primals: &P| (f(primals), ()), primals).2
}

/// As [`grad`], for a function that also returns values that are not differentiated. Returns
/// `(gradient, aux)`.
#[track_caller]
pub fn grad_aux<P: Tree, X: Tree, F: Fn(&P) -> (Array, X)>(f: F) -> impl Fn(&P) -> (P, X) {
    let call = grad_call::<F>("grad_aux");
    move |primals| {
        let (_, aux, gradient) = call.apply(&f, primals);
        (gradient, aux)
    }
}

/// Returns the function that computes the value and the gradient of a scalar function. See
/// [`grad`].
#[track_caller]
pub fn value_and_grad<P: Tree, F: Fn(&P) -> Array>(f: F) -> impl Fn(&P) -> (Array, P) {
    let call = grad_call::<F>("value_and_grad");
    move |primals| {
        let (value, (), gradient) = call.apply(|primals: &P| (f(primals), ()), primals);
        (value, gradient)
    }
}

/// As [`value_and_grad`], for a function that also returns values that are not differentiated.
/// Returns `((value, aux), gradient)`.
#[doc(alias = "has_aux")]
#[track_caller]
pub fn value_and_grad_aux<P: Tree, X: Tree, F: Fn(&P) -> (Array, X)>(
    f: F,
) -> impl Fn(&P) -> ((Array, X), P) {
    let call = grad_call::<F>("value_and_grad_aux");
    move |primals| {
        let (value, aux, gradient) = call.apply(&f, primals);
        ((value, aux), gradient)
    }
}
