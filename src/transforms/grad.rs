//! Gradients of scalar functions: reverse mode, one pass forward and one back.

use super::jvp::name_of;
use super::vjp::value_aux_and_grad;
use crate::core::Array;
use crate::tree::Tree;
use std::panic::Location;

/// The gradient of a scalar function with respect to all leaves of its argument.
///
/// `f` takes one borrowed tree (a tuple for several arguments) and gives an array of shape `[]` and
/// real float dtype; whatever it captures is constant. Gradients have the structure, shapes and
/// dtypes of the argument; leaves of integer or boolean dtype get zeros.
///
/// For complex leaves the convention is JAX's: the gradient of a real function is the conjugate of
/// the direction of steepest ascent.
///
/// A closure inside `grad` sees traced arrays, also outside `jit`.
///
/// The function returned throws `Op` if `f`'s output is not a real scalar, and whatever `f` throws.
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
    fn apply<P: Tree, F: Fn(&P) -> Array>(
        f: &F,
        primals: &P,
        location: &'static Location<'static>,
    ) -> P {
        let scope = format!("grad({})", name_of(f));
        value_aux_and_grad("grad", scope, |primals: &P| (f(primals), ()), primals, location).2
    }
    let location = Location::caller();
    move |primals| apply(&f, primals, location)
}

/// As [`grad`], of a function that also gives a tree of values that are not differentiated.
#[track_caller]
pub fn grad_aux<P: Tree, X: Tree, F: Fn(&P) -> (Array, X)>(f: F) -> impl Fn(&P) -> (P, X) {
    fn apply<P: Tree, X: Tree, F: Fn(&P) -> (Array, X)>(
        f: &F,
        primals: &P,
        location: &'static Location<'static>,
    ) -> (P, X) {
        let scope = format!("grad({})", name_of(f));
        let (_, aux, gradient) = value_aux_and_grad("grad_aux", scope, f, primals, location);
        (gradient, aux)
    }
    let location = Location::caller();
    move |primals| apply(&f, primals, location)
}

/// The value and the gradient of a scalar function. See [`grad`].
#[track_caller]
pub fn value_and_grad<P: Tree, F: Fn(&P) -> Array>(f: F) -> impl Fn(&P) -> (Array, P) {
    fn apply<P: Tree, F: Fn(&P) -> Array>(
        f: &F,
        primals: &P,
        location: &'static Location<'static>,
    ) -> (Array, P) {
        let scope = format!("grad({})", name_of(f));
        let f = |primals: &P| (f(primals), ());
        let (value, (), gradient) =
            value_aux_and_grad("value_and_grad", scope, f, primals, location);
        (value, gradient)
    }
    let location = Location::caller();
    move |primals| apply(&f, primals, location)
}

/// The value, the auxiliary values and the gradient of a scalar function that gives both:
/// `((value, aux), gradient)`. See [`grad`].
#[doc(alias = "has_aux")]
#[track_caller]
pub fn value_and_grad_aux<P: Tree, X: Tree, F: Fn(&P) -> (Array, X)>(
    f: F,
) -> impl Fn(&P) -> ((Array, X), P) {
    fn apply<P: Tree, X: Tree, F: Fn(&P) -> (Array, X)>(
        f: &F,
        primals: &P,
        location: &'static Location<'static>,
    ) -> ((Array, X), P) {
        let scope = format!("grad({})", name_of(f));
        let (value, aux, gradient) =
            value_aux_and_grad("value_and_grad_aux", scope, f, primals, location);
        ((value, aux), gradient)
    }
    let location = Location::caller();
    move |primals| apply(&f, primals, location)
}
