//! Full derivatives: Jacobians by columns or by rows, Hessians, and Hessian-vector products.

use super::checks::expect_inexact;
use super::grad::grad;
use super::jvp::jvp;
use super::linearize::linearize;
use super::staging::staged;
use super::vjp::{GradOptions, vjp};
use super::vmap::vmap;
use crate::core::{Array, Aval, DType, Loc, OpErrorKind, Shape, trace};
use crate::primitives::rules::move_axis;
use crate::primitives::{broadcasted_iota, convert_element_type, eq, reshape};
use crate::tree::{self, Arg, FnArgs, Function, TransformedFn, Tree, of_first, transformed};

/// Returns the unit vectors of an array's space, stacked along axis 0: shape `[n, shape…]`.
fn basis(aval: &Aval) -> Array {
    let n = aval.size();
    let indices = |axis| broadcasted_iota(DType::I32, [n, n], axis);
    let unit = convert_element_type(&eq(indices(0), indices(1)), aval.dtype);
    reshape(&unit, aval.shape.insert(0, n))
}

fn concat_shapes(a: &Shape, b: &Shape) -> Shape {
    a.iter().chain(b.iter()).copied().collect::<Vec<usize>>().into()
}

fn expect_float(transform: &str, role: &str, x: &Array, loc: Loc) {
    if !x.dtype().is_float() {
        let message = format!("needs a function with a real float {role}, got {}", x.aval());
        trace::throw_op(OpErrorKind::DType, transform, message, loc);
    }
}

/// Returns the function that computes the Jacobian of `f` in forward mode, all columns in one pass.
///
/// For a first argument of shape `[a…]`, each leaf `[o…]` of the output becomes `[o…, a…]`. Use it
/// for functions with few inputs and many outputs.
///
/// The returned function throws `Op` if the first argument is not a real float, and whatever `f`
/// throws.
///
/// ```
/// use oxidax::prelude::*;
/// let x = Array::from_slice(&[1.0f32, 2.0], [2])?;
/// let jacobian = jacfwd(|x: &Array| x * x)(&x);
/// assert_eq!(jacobian.to_vec::<f32>()?, [2.0, 0.0, 0.0, 4.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn jacfwd<'f, A: FnArgs<First = Array>, M: 'f, F: Function<A, M> + 'f>(
    f: F,
) -> impl TransformedFn<'f, A, F::Output> {
    let loc = Loc::caller();
    transformed::<A, _>(f.name(), move |arguments| {
        let x = A::first(arguments);
        expect_float("jacfwd", "argument", x, loc);
        loc.scope(|| {
            staged(|| {
                let (_, derivative) = linearize(of_first(&f, arguments), x);
                let columns = vmap(&derivative).apply(basis(x.aval()));
                tree::map(&columns, |leaf| {
                    let leaf = move_axis(leaf, 0, leaf.rank() - 1);
                    let outer = leaf.shape().remove(leaf.rank() - 1);
                    reshape(&leaf, concat_shapes(&outer, x.shape()))
                })
            })
        })
    })
}

/// Returns the function that computes the Jacobian of `f` in reverse mode, all rows in one pass.
///
/// For an output of shape `[o…]`, each leaf `[a…]` of the first argument becomes `[o…, a…]`. Use it
/// for functions with many inputs and few outputs.
///
/// The returned function throws `Tree`, naming the leaf, if a leaf of the first argument has an
/// integer or boolean dtype ([`GradOptions`] allows them), `Op` if the output is not a real float,
/// and whatever `f` throws.
///
/// ```
/// use oxidax::prelude::*;
/// let x = Array::from_slice(&[1.0f32, 2.0], [2])?;
/// let jacobian = jacrev(|x: &Array| x * x)(&x);
/// assert_eq!(jacobian.to_vec::<f32>()?, [2.0, 0.0, 0.0, 4.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn jacrev<'f, A: FnArgs, M: 'f, F: Function<A, M, Output = Array> + 'f>(
    f: F,
) -> impl TransformedFn<'f, A, A::First> {
    jacrev_with(f, GradOptions::default())
}

/// As [`jacrev`], with options.
#[track_caller]
pub fn jacrev_with<'f, A: FnArgs, M: 'f, F: Function<A, M, Output = Array> + 'f>(
    f: F,
    options: GradOptions,
) -> impl TransformedFn<'f, A, A::First> {
    let loc = Loc::caller();
    transformed::<A, _>(f.name(), move |arguments| {
        expect_inexact("jacrev", A::first(arguments), options, loc);
        loc.scope(|| {
            staged(|| {
                let (y, pullback) = vjp(of_first(&f, arguments), A::first(arguments));
                expect_float("jacrev", "output", &y, loc);
                let rows = vmap(&pullback).apply(basis(y.aval()));
                tree::map(&rows, |leaf| {
                    reshape(leaf, concat_shapes(y.shape(), &leaf.shape().remove(0)))
                })
            })
        })
    })
}

/// Returns the function that computes all second derivatives, forward over reverse.
///
/// For a first argument of shape `[a…]` and an output `[o…]`, the result has shape `[o…, a…, a…]`.
/// Its size grows with the square of the argument's. [`hvp`] computes the product with a vector in
/// the memory of a gradient.
///
/// ```
/// use oxidax::prelude::*;
/// let x = Array::from_slice(&[1.0f32, 2.0], [2])?;
/// let h = hessian(|x: &Array| (x * x * x).sum())(&x);
/// assert_eq!(h.to_vec::<f32>()?, [6.0, 0.0, 0.0, 12.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn hessian<'f, A, M: 'f, F: Function<A, M, Output = Array> + 'f>(
    f: F,
) -> impl TransformedFn<'f, A, Array>
where
    A: FnArgs<First = Array>,
{
    jacfwd(jacrev(f))
}

/// Returns the Hessian of a scalar function times a vector, `∇²f(primals) · tangents`, without
/// computing the Hessian.
///
/// Throws `Op` if the output of `f` is not a real scalar, `Tree` if `tangents` does not match
/// `primals`, and whatever `f` throws.
///
/// ```
/// use oxidax::prelude::*;
/// let x = Array::from_slice(&[1.0f32, 2.0], [2])?;
/// let product = hvp(|x: &Array| (x * x * x).sum(), &x, &ones_like(&x));
/// assert_eq!(product.to_vec::<f32>()?, [6.0, 12.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// Reference: Pearlmutter, "Fast exact multiplication by the Hessian", Neural Computation 6 (1994).
#[track_caller]
pub fn hvp<P: Tree, M, F: Function<(P,), M, Output = Array>>(
    f: F,
    primals: impl Arg<P>,
    tangents: impl Arg<P>,
) -> P {
    jvp(grad(f), primals, tangents).1
}
