//! Whole derivatives: Jacobians column by column or row by row, Hessians and products with them.

use super::grad::grad;
use super::jvp::jvp;
use super::linearize::linearize;
use super::staging::staged;
use super::vjp::vjp;
use super::vmap::vmap;
use crate::core::{Array, Aval, DType, OpErrorKind, Shape, trace};
use crate::primitives::rules::move_axis;
use crate::primitives::{broadcasted_iota, convert_element_type, eq, reshape};
use crate::tree::{self, Tree};
use std::panic::Location;

/// The unit vectors of an array's space, stacked along axis 0: shape `[n, shape…]`.
fn basis(aval: &Aval) -> Array {
    let n = aval.size();
    let along = |axis| broadcasted_iota(DType::I32, [n, n], axis);
    let unit = convert_element_type(&eq(along(0), along(1)), aval.dtype);
    reshape(&unit, aval.shape.insert(0, n))
}

fn joined(a: &Shape, b: &Shape) -> Shape {
    a.iter().chain(b.iter()).copied().collect::<Vec<usize>>().into()
}

fn expect_float(name: &str, what: &str, x: &Array, location: &'static Location<'static>) {
    if !x.dtype().is_float() {
        let message = format!("needs a function with a real float {what}, got {}", x.aval());
        trace::throw_op(OpErrorKind::DType, name, message, Some(location));
    }
}

/// The Jacobian of `f`, one forward pass for all columns: for an argument of shape `[a…]` each leaf
/// `[o…]` of the output becomes `[o…, a…]`. The right one where outputs are many and inputs few.
///
/// The function returned throws `Op` if the argument is not a real float, and whatever `f` throws.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let x = Array::from_slice(&[1.0f32, 2.0], [2])?;
/// let jacobian = jacfwd(|x: &Array| x * x)(&x);
/// assert_eq!(jacobian.to_vec::<f32>()?, [2.0, 0.0, 0.0, 4.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn jacfwd<O: Tree, F: Fn(&Array) -> O>(f: F) -> impl Fn(&Array) -> O {
    let location = Location::caller();
    move |x| {
        expect_float("jacfwd", "argument", x, location);
        trace::at_location(Some(location), || {
            staged(|| {
                let (_, derivative) = linearize(&f, x);
                let columns = vmap(|v: Array| derivative.apply(&v)).apply(basis(x.aval()));
                tree::map(&columns, |leaf| {
                    let leaf = move_axis(leaf, 0, leaf.rank() - 1);
                    let outer = leaf.shape().remove(leaf.rank() - 1);
                    reshape(&leaf, joined(&outer, x.shape()))
                })
            })
        })
    }
}

/// The Jacobian of `f`, one backward pass for all rows: for an output of shape `[o…]` each leaf `[a…]`
/// of the argument becomes `[o…, a…]`. The right one where inputs are many and outputs few.
///
/// Leaves of integer or boolean dtype get zeros. The function returned throws `Op` if the output is not
/// a real float, and whatever `f` throws.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let x = Array::from_slice(&[1.0f32, 2.0], [2])?;
/// let jacobian = jacrev(|x: &Array| x * x)(&x);
/// assert_eq!(jacobian.to_vec::<f32>()?, [2.0, 0.0, 0.0, 4.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn jacrev<P: Tree, F: Fn(&P) -> Array>(f: F) -> impl Fn(&P) -> P {
    let location = Location::caller();
    move |primals| {
        trace::at_location(Some(location), || {
            staged(|| {
                let (y, pullback) = vjp(&f, primals);
                expect_float("jacrev", "output", &y, location);
                let rows = vmap(|ct: Array| pullback.apply(&ct)).apply(basis(y.aval()));
                tree::map(&rows, |leaf| reshape(leaf, joined(y.shape(), &leaf.shape().remove(0))))
            })
        })
    }
}

/// The matrix of second derivatives: for an argument of shape `[a…]` and an output `[o…]` an array
/// `[o…, a…, a…]`. Forward over reverse.
///
/// Grows with the square of the argument; [`hvp`] gives its product with a vector and needs no more
/// memory than a gradient.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let x = Array::from_slice(&[1.0f32, 2.0], [2])?;
/// let h = hessian(|x: &Array| (x * x * x).sum())(&x);
/// assert_eq!(h.to_vec::<f32>()?, [6.0, 0.0, 0.0, 12.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn hessian<F: Fn(&Array) -> Array>(f: F) -> impl Fn(&Array) -> Array {
    jacfwd(jacrev(f))
}

/// The Hessian of a scalar function times a vector, `∇²f(primals) · tangents`, without the Hessian.
///
/// Throws `Op` if `f`'s output is not a real scalar, `Tree` if `tangents` does not fit, and whatever `f`
/// throws.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let x = Array::from_slice(&[1.0f32, 2.0], [2])?;
/// let product = hvp(|x: &Array| (x * x * x).sum(), &x, &ones_like(&x));
/// assert_eq!(product.to_vec::<f32>()?, [6.0, 12.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// Reference: Pearlmutter, "Fast exact multiplication by the Hessian", Neural Computation 6 (1994).
#[track_caller]
pub fn hvp<P: Tree>(f: impl Fn(&P) -> Array, primals: &P, tangents: &P) -> P {
    jvp(grad(f), primals, tangents).1
}
