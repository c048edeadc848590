//! Full derivatives: Jacobians by columns or by rows, Hessians, and Hessian-vector products.

use super::checks::expect_inexact;
use super::grad::grad;
use super::jvp::jvp;
use super::linearize::linearize_aux;
use super::staging::staged;
use super::vjp::{GradOptions, vjp_aux};
use super::vmap::vmap;
use crate::core::{Array, Aval, DType, Error, Loc, OpErrorKind, Shape, TreeError, trace};
use crate::primitives::rules::move_axis;
use crate::primitives::{broadcasted_iota, convert_element_type, eq, reshape, split_sizes};
use crate::tree::{
    Arg, FnArgs, Function, NestableTree, TransformedFn, Tree, leaves_of, of_first, paths, rebuild,
    rooted, transformed,
};

/// The tree of outputs `O` with a tree of inputs `P` in place of every leaf.
type Nested<O, P> = <O as NestableTree>::Nested<P>;

/// Returns the unit vectors of the space of some arrays, stacked along axis 0. For `n` elements in
/// total, the part of an array has shape `[n, shape…]`.
fn basis(leaves: &[Array]) -> Vec<Array> {
    let n: usize = leaves.iter().map(Array::size).sum();
    let mut offset = 0;
    let mut parts = Vec::with_capacity(leaves.len());
    for leaf in leaves {
        let aval: &Aval = leaf.aval();
        let indices = |axis| broadcasted_iota(DType::I32, [n, leaf.size()], axis);
        let columns = if offset == 0 { indices(1) } else { indices(1) + offset as i32 };
        let unit = convert_element_type(&eq(indices(0), columns), aval.dtype);
        parts.push(reshape(&unit, aval.shape.insert(0, n)));
        offset += leaf.size();
    }
    parts
}

fn concat_shapes(a: &Shape, b: &Shape) -> Shape {
    a.iter().chain(b.iter()).copied().collect::<Vec<usize>>().into()
}

fn sizes(leaves: &[Array]) -> Vec<usize> {
    leaves.iter().map(Array::size).collect()
}

/// Throws `Op` (dtype) for the first leaf that is not a real float, or with `holomorphic` not
/// complex.
fn expect_dtypes<T: Tree>(transform: &str, role: &str, tree: &T, options: GradOptions, loc: Loc) {
    let needed = if options.holomorphic { "complex" } else { "real float" };
    for (leaf, path) in leaves_of(tree).iter().zip(paths(tree)) {
        let dtype = leaf.dtype();
        let fits = if options.holomorphic { dtype.is_complex() } else { dtype.is_float() };
        if fits {
            continue;
        }
        let mut message = format!("needs a function with a {needed} {role}, got {}", leaf.aval());
        if !path.is_empty() {
            message.push_str(&format!(" at {}", rooted(&path)));
        }
        let error = trace::op_error(OpErrorKind::DType, transform, message, loc);
        trace::throw(match dtype.is_complex() {
            true => error.with_help(
                "for a holomorphic function, set `GradOptions::holomorphic`; otherwise \
                 differentiate by the real and the imaginary part",
            ),
            false => error,
        });
    }
}

/// Throws `Tree` for the first leaf that is not complex, if `options` ask for a holomorphic
/// derivative.
pub(super) fn expect_holomorphic<P: Tree>(
    transform: &str,
    primals: &P,
    options: GradOptions,
    loc: Loc,
) {
    let leaves = leaves_of(primals);
    let real = leaves.iter().position(|leaf| !leaf.dtype().is_complex());
    let Some(index) = real.filter(|_| options.holomorphic) else { return };
    trace::throw(Error::Tree(Box::new(TreeError {
        path: rooted(&paths(primals)[index]),
        message: format!(
            "{transform}: with `holomorphic`, inputs must be complex, got {}",
            leaves[index].aval()
        ),
        loc,
        help: Some("convert it with `astype(DType::C64)`, or leave `holomorphic` out".into()),
    })))
}

/// Returns the Jacobian in forward mode, and the auxiliary values, in one stage.
fn forward<P: Tree, O: NestableTree, X: Tree>(
    f: impl Fn(P) -> (O, X),
    primals: &P,
    options: GradOptions,
    loc: Loc,
) -> (Nested<O, P>, X) {
    expect_dtypes("jacfwd", "argument", primals, options, loc);
    loc.scope(|| {
        staged(|| {
            let (outputs, aux, derivative) = linearize_aux(|primals: P| f(primals), primals);
            if options.holomorphic {
                expect_dtypes("jacfwd", "output", &outputs, options, loc);
            }
            let inputs = leaves_of(primals);
            let columns = vmap(&derivative).apply(rebuild(primals, basis(&inputs)));
            let rows = leaves_of(&columns).into_iter().map(|leaf| {
                let leaf = move_axis(&leaf, 0, leaf.rank() - 1);
                let outer = leaf.shape().remove(leaf.rank() - 1);
                let parts = split_sizes(&leaf, &sizes(&inputs), -1);
                let blocks = parts.iter().zip(&inputs);
                let blocks =
                    blocks.map(|(part, input)| reshape(part, concat_shapes(&outer, input.shape())));
                rebuild(primals, blocks.collect())
            });
            (outputs.nest(&mut rows.into_iter()), aux)
        })
    })
}

/// Returns the Jacobian in reverse mode, and the auxiliary values, in one stage.
fn reverse<P: Tree, O: NestableTree, X: Tree>(
    f: impl Fn(P) -> (O, X),
    primals: &P,
    options: GradOptions,
    loc: Loc,
) -> (Nested<O, P>, X) {
    expect_inexact("jacrev", primals, options, loc);
    expect_holomorphic("jacrev", primals, options, loc);
    loc.scope(|| {
        staged(|| {
            let (outputs, aux, pullback) = vjp_aux(|primals: P| f(primals), primals);
            expect_dtypes("jacrev", "output", &outputs, options, loc);
            let output_leaves = leaves_of(&outputs);
            let rows = vmap(&pullback).apply(rebuild(&outputs, basis(&output_leaves)));
            let parts: Vec<Vec<Array>> = leaves_of(&rows)
                .iter()
                .map(|leaf| split_sizes(leaf, &sizes(&output_leaves), 0))
                .collect();
            let blocks = output_leaves.iter().enumerate().map(|(index, output)| {
                let blocks = parts.iter().map(|parts| {
                    let block = &parts[index];
                    reshape(block, concat_shapes(output.shape(), &block.shape().remove(0)))
                });
                rebuild(primals, blocks.collect())
            });
            (outputs.nest(&mut blocks.into_iter()), aux)
        })
    })
}

/// Returns the function that computes the Jacobian of `f` in forward mode, all columns in one pass.
///
/// The result is the tree of the output with a tree of the first argument in place of every leaf:
/// for a leaf `[a…]` of the argument and a leaf `[o…]` of the output, an array `[o…, a…]`. For one
/// array on either side it has the structure of the other. Use it for functions with few inputs and
/// many outputs.
///
/// The returned function throws `Op` if a leaf of the first argument is not a real float, and
/// whatever `f` throws.
///
/// ```
/// use oxidax::prelude::*;
/// let x = Array::from_slice(&[1.0f32, 2.0], [2])?;
/// let jacobian = jacfwd(|x: &Array| x * x)(&x);
/// assert_eq!(jacobian.to_vec::<f32>()?, [2.0, 0.0, 0.0, 4.0]);
/// // Trees: the derivatives of `y` with respect to `a` and `b` are a pair.
/// let pair = (x, ones([]));
/// let (da, db) = jacfwd(|(a, b): &(Array, Array)| a * b)(&pair);
/// assert_eq!((da.shape().dims(), db.shape().dims()), (&[2, 2][..], &[2][..]));
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn jacfwd<'f, A: FnArgs, M: 'f, F: Function<A, M> + 'f>(
    f: F,
) -> impl TransformedFn<'f, A, Nested<F::Output, A::First>>
where
    F::Output: NestableTree,
{
    jacfwd_with(f, GradOptions::default())
}

/// As [`jacfwd`], with options. `allow_int` is not supported: integers have no directions to move
/// in.
///
/// ```
/// use oxidax::prelude::*;
/// let z = complex(&full([], 1.0), &full([], 2.0));
/// let options = GradOptions { holomorphic: true, ..GradOptions::default() };
/// let slope = jacfwd_with(|z: &Array| z * z, options)(&z);
/// assert_eq!((real(&slope).item::<f32>()?, imag(&slope).item::<f32>()?), (2.0, 4.0));
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "holomorphic")]
#[track_caller]
pub fn jacfwd_with<'f, A: FnArgs, M: 'f, F: Function<A, M> + 'f>(
    f: F,
    options: GradOptions,
) -> impl TransformedFn<'f, A, Nested<F::Output, A::First>>
where
    F::Output: NestableTree,
{
    let loc = Loc::caller();
    transformed::<A, _>(f.name(), move |arguments| {
        let f = of_first(&f, arguments);
        forward(|first| (f(first), ()), A::first(arguments), options, loc).0
    })
}

/// As [`jacfwd`], for a function that also returns values that are not differentiated. Returns
/// `(jacobian, aux)`.
#[track_caller]
pub fn jacfwd_aux<'f, A: FnArgs, M: 'f, O, X, F>(
    f: F,
) -> impl TransformedFn<'f, A, (Nested<O, A::First>, X)>
where
    O: NestableTree,
    X: Tree,
    F: Function<A, M, Output = (O, X)> + 'f,
{
    jacfwd_aux_with(f, GradOptions::default())
}

/// As [`jacfwd_aux`], with options.
#[track_caller]
pub fn jacfwd_aux_with<'f, A: FnArgs, M: 'f, O, X, F>(
    f: F,
    options: GradOptions,
) -> impl TransformedFn<'f, A, (Nested<O, A::First>, X)>
where
    O: NestableTree,
    X: Tree,
    F: Function<A, M, Output = (O, X)> + 'f,
{
    let loc = Loc::caller();
    transformed::<A, _>(f.name(), move |arguments| {
        forward(of_first(&f, arguments), A::first(arguments), options, loc)
    })
}

/// Returns the function that computes the Jacobian of `f` in reverse mode, all rows in one pass.
///
/// The result has the structure of that of [`jacfwd`]. Use it for functions with many inputs and
/// few outputs.
///
/// The returned function throws `Tree`, naming the leaf, if a leaf of the first argument has an
/// integer or boolean dtype ([`GradOptions`] allows them), `Op` if a leaf of the output is not a
/// real float, and whatever `f` throws.
///
/// ```
/// use oxidax::prelude::*;
/// let x = Array::from_slice(&[1.0f32, 2.0], [2])?;
/// let jacobian = jacrev(|x: &Array| x * x)(&x);
/// assert_eq!(jacobian.to_vec::<f32>()?, [2.0, 0.0, 0.0, 4.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn jacrev<'f, A: FnArgs, M: 'f, F: Function<A, M> + 'f>(
    f: F,
) -> impl TransformedFn<'f, A, Nested<F::Output, A::First>>
where
    F::Output: NestableTree,
{
    jacrev_with(f, GradOptions::default())
}

/// As [`jacrev`], with options.
#[track_caller]
pub fn jacrev_with<'f, A: FnArgs, M: 'f, F: Function<A, M> + 'f>(
    f: F,
    options: GradOptions,
) -> impl TransformedFn<'f, A, Nested<F::Output, A::First>>
where
    F::Output: NestableTree,
{
    let loc = Loc::caller();
    transformed::<A, _>(f.name(), move |arguments| {
        let f = of_first(&f, arguments);
        reverse(|first| (f(first), ()), A::first(arguments), options, loc).0
    })
}

/// As [`jacrev`], for a function that also returns values that are not differentiated. Returns
/// `(jacobian, aux)`.
#[track_caller]
pub fn jacrev_aux<'f, A: FnArgs, M: 'f, O, X, F>(
    f: F,
) -> impl TransformedFn<'f, A, (Nested<O, A::First>, X)>
where
    O: NestableTree,
    X: Tree,
    F: Function<A, M, Output = (O, X)> + 'f,
{
    jacrev_aux_with(f, GradOptions::default())
}

/// As [`jacrev_aux`], with options.
#[track_caller]
pub fn jacrev_aux_with<'f, A: FnArgs, M: 'f, O, X, F>(
    f: F,
    options: GradOptions,
) -> impl TransformedFn<'f, A, (Nested<O, A::First>, X)>
where
    O: NestableTree,
    X: Tree,
    F: Function<A, M, Output = (O, X)> + 'f,
{
    let loc = Loc::caller();
    transformed::<A, _>(f.name(), move |arguments| {
        reverse(of_first(&f, arguments), A::first(arguments), options, loc)
    })
}

/// The second derivatives of outputs `O` by inputs `I`: a tree of trees of trees.
pub type TwiceNested<O, I> = Nested<Nested<O, I>, I>;

/// Returns the function that computes all second derivatives, forward over reverse.
///
/// The result is the tree of the output with a tree of the first argument in place of every leaf,
/// twice: for leaves `[a…]` and `[b…]` of the argument and a leaf `[o…]` of the output, an array
/// `[o…, a…, b…]`. Its size grows with the square of the argument's. [`hvp`] computes the product
/// with a vector in the memory of a gradient.
///
/// ```
/// use oxidax::prelude::*;
/// let x = Array::from_slice(&[1.0f32, 2.0], [2])?;
/// let h = hessian(|x: &Array| (x * x * x).sum())(&x);
/// assert_eq!(h.to_vec::<f32>()?, [6.0, 0.0, 0.0, 12.0]);
/// // Of a pair, the second derivatives are a pair of pairs.
/// let pair = (x, full([], 3.0));
/// let ((xx, xy), (yx, yy)) = hessian(|(x, y): &(Array, Array)| (x * x * y).sum())(&pair);
/// assert_eq!(xx.to_vec::<f32>()?, [6.0, 0.0, 0.0, 6.0]);
/// assert_eq!(xy.to_vec::<f32>()?, yx.to_vec::<f32>()?);
/// assert_eq!(yy.item::<f32>()?, 0.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn hessian<'f, A: FnArgs, M: 'f, F: Function<A, M> + 'f>(
    f: F,
) -> impl TransformedFn<'f, A, TwiceNested<F::Output, A::First>>
where
    F::Output: NestableTree,
    Nested<F::Output, A::First>: NestableTree,
{
    hessian_with(f, GradOptions::default())
}

/// As [`hessian`], with options. `allow_int` is not supported, as for [`jacfwd_with`].
#[track_caller]
pub fn hessian_with<'f, A: FnArgs, M: 'f, F: Function<A, M> + 'f>(
    f: F,
    options: GradOptions,
) -> impl TransformedFn<'f, A, TwiceNested<F::Output, A::First>>
where
    F::Output: NestableTree,
    Nested<F::Output, A::First>: NestableTree,
{
    jacfwd_with(jacrev_with(f, options), options)
}

/// As [`hessian`], for a function that also returns values that are not differentiated. Returns
/// `(hessian, aux)`.
#[track_caller]
pub fn hessian_aux<'f, A: FnArgs, M: 'f, O, X, F>(
    f: F,
) -> impl TransformedFn<'f, A, (TwiceNested<O, A::First>, X)>
where
    O: NestableTree,
    Nested<O, A::First>: NestableTree,
    X: Tree,
    F: Function<A, M, Output = (O, X)> + 'f,
{
    hessian_aux_with(f, GradOptions::default())
}

/// As [`hessian_aux`], with options.
#[track_caller]
pub fn hessian_aux_with<'f, A: FnArgs, M: 'f, O, X, F>(
    f: F,
    options: GradOptions,
) -> impl TransformedFn<'f, A, (TwiceNested<O, A::First>, X)>
where
    O: NestableTree,
    Nested<O, A::First>: NestableTree,
    X: Tree,
    F: Function<A, M, Output = (O, X)> + 'f,
{
    jacfwd_aux_with(jacrev_aux_with(f, options), options)
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
