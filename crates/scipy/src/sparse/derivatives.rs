//! Derivatives with respect to the data of sparse arrays.
//!
//! The derivative by a sparse array is a sparse array with the same indices: derivatives by
//! elements that are not entries are not computed.

use super::bcoo::Bcoo;
use super::bcsr::Bcsr;
use oxidax::core::Loc;
use oxidax::prelude::*;
use oxidax::transforms::GradOptions;

/// Differentiates integers too, whose derivatives are not used.
const WITH_INDICES: GradOptions = GradOptions { allow_int: true, holomorphic: false };

/// Returns `derivatives` with the indices of `x` in place of the derivatives by them.
#[track_caller]
fn with_indices_of<T: Tree>(x: &T, derivatives: &T) -> T {
    tree::zip_map(x, derivatives, |own, derivative| {
        if own.dtype().is_inexact() { derivative.clone() } else { own.clone() }
    })
}

/// Returns the function that computes the gradient of a scalar function of a tree of sparse and
/// dense arrays. The gradient by a sparse array has its indices.
///
/// The returned function throws `Op` if the output of `f` is not a real scalar.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::sparse::{self, Bcoo};
/// let m = Bcoo::fromdense(&array![[0.0, 2.0], [1.0, 0.0]]);
/// let slope = sparse::grad(|m: &Bcoo| m.matmul(&array![3.0, 5.0]).sum())(&m);
/// assert_eq!(slope.data.to_vec::<f32>()?, [5.0, 3.0]);
/// assert_eq!(slope.indices.to_vec::<i32>()?, [0, 1, 1, 0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn grad<T: Tree>(f: impl Fn(&T) -> Array) -> impl Fn(&T) -> T {
    let loc = Loc::caller();
    move |x: &T| loc.scope(|| with_indices_of(x, &grad_with(|x: &T| f(x), WITH_INDICES)(x)))
}

/// As [`grad`], for a function that also returns values that are not differentiated. Returns
/// `(gradient, aux)`.
#[track_caller]
pub fn grad_aux<T: Tree, X: Tree>(f: impl Fn(&T) -> (Array, X)) -> impl Fn(&T) -> (T, X) {
    let loc = Loc::caller();
    move |x: &T| {
        let (slope, aux) = loc.scope(|| grad_aux_with(|x: &T| f(x), WITH_INDICES)(x));
        (with_indices_of(x, &slope), aux)
    }
}

/// Returns the function that computes the value and the gradient of a scalar function. See
/// [`grad`].
#[track_caller]
pub fn value_and_grad<T: Tree>(f: impl Fn(&T) -> Array) -> impl Fn(&T) -> (Array, T) {
    let loc = Loc::caller();
    move |x: &T| {
        let (value, slope) = loc.scope(|| value_and_grad_with(|x: &T| f(x), WITH_INDICES)(x));
        (value, with_indices_of(x, &slope))
    }
}

/// As [`value_and_grad`], for a function that also returns values that are not differentiated.
/// Returns `((value, aux), gradient)`.
#[track_caller]
pub fn value_and_grad_aux<T: Tree, X: Tree>(
    f: impl Fn(&T) -> (Array, X),
) -> impl Fn(&T) -> ((Array, X), T) {
    let loc = Loc::caller();
    move |x: &T| {
        let (value, slope) = loc.scope(|| value_and_grad_aux_with(|x: &T| f(x), WITH_INDICES)(x));
        (value, with_indices_of(x, &slope))
    }
}

/// An array that [`jacfwd`] and [`jacrev`] differentiate by.
pub trait JacobianArgument: Tree + Clone {
    /// Returns the array to differentiate by.
    fn differentiable(&self) -> &Array;
    /// Returns this array with other data of the same shape.
    fn with_data(&self, data: Array) -> Self;
    /// Returns the Jacobian: this array with data that have further axes in front, which become
    /// batch axes.
    fn jacobian(&self, data: Array) -> Self;
}

/// Repeats indices along new axes in front.
#[track_caller]
fn repeated(x: &Array, front: &[usize]) -> Array {
    let shape: Vec<usize> = front.iter().chain(x.shape().iter()).copied().collect();
    broadcast_to(x, shape)
}

impl JacobianArgument for Array {
    fn differentiable(&self) -> &Array {
        self
    }
    fn with_data(&self, data: Array) -> Array {
        data
    }
    fn jacobian(&self, data: Array) -> Array {
        data
    }
}

impl JacobianArgument for Bcoo {
    fn differentiable(&self) -> &Array {
        &self.data
    }
    fn with_data(&self, data: Array) -> Bcoo {
        Bcoo { data, ..self.clone() }
    }
    fn jacobian(&self, data: Array) -> Bcoo {
        let front = &data.shape()[..data.rank() - self.data.rank()];
        let indices = repeated(&self.indices, front);
        Bcoo { data, indices, ..self.clone() }
    }
}

impl JacobianArgument for Bcsr {
    fn differentiable(&self) -> &Array {
        &self.data
    }
    fn with_data(&self, data: Array) -> Bcsr {
        Bcsr { data, ..self.clone() }
    }
    fn jacobian(&self, data: Array) -> Bcsr {
        let front = data.shape()[..data.rank() - self.data.rank()].to_vec();
        let indices = repeated(&self.indices, &front);
        let indptr = repeated(&self.indptr, &front);
        Bcsr { data, indices, indptr, ..self.clone() }
    }
}

/// Returns the function that computes the Jacobian of `f` by forward mode: a sparse array with the
/// axes of the result as batch axes in front.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::sparse::{self, Bcoo, SparseArray};
/// let m = Bcoo::fromdense(&array![[0.0, 2.0], [1.0, 0.0]]);
/// let jacobian = sparse::jacfwd(|m: &Bcoo| m.matmul(&array![3.0, 5.0]))(&m);
/// assert_eq!(jacobian.shape().dims(), [2, 2, 2]);
/// assert_eq!(jacobian.data.to_vec::<f32>()?, [5.0, 0.0, 0.0, 3.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn jacfwd<T: JacobianArgument>(f: impl Fn(&T) -> Array) -> impl Fn(&T) -> T {
    let loc = Loc::caller();
    move |x: &T| {
        let of_data = |data: &Array| f(&x.with_data(data.clone()));
        loc.scope(|| x.jacobian(oxidax::transforms::jacfwd(of_data)(x.differentiable())))
    }
}

/// Returns the function that computes the Jacobian of `f` by reverse mode. See [`jacfwd`].
#[doc(alias = "jacobian")]
#[track_caller]
pub fn jacrev<T: JacobianArgument>(f: impl Fn(&T) -> Array) -> impl Fn(&T) -> T {
    let loc = Loc::caller();
    move |x: &T| {
        let of_data = |data: &Array| f(&x.with_data(data.clone()));
        loc.scope(|| x.jacobian(oxidax::transforms::jacrev(of_data)(x.differentiable())))
    }
}
