//! The function `reduce`.

use super::Reduce;
use super::halving::reduce_by_halving;
use crate::control_flow::closure::{CallSite, throw_tree};
use crate::control_flow::derive::avals_of;
use crate::core::{Array, Aval, Loc, OpErrorKind, Program, Shape, trace};
use crate::primitives::{
    Add, And, Max, Min, Mul, Or, Xor, broadcast_to, convert_to, reduce_and, reduce_max, reduce_min,
    reduce_or, reduce_prod, reduce_sum, reduce_xor, resolve_axes,
};
use crate::transforms::staging::{staged, trace_function};
use crate::tree::{Arg, Tree, TreeDef, expect_alike, leaves_of, rebuild};
use std::any::TypeId;
use std::sync::Arc;

/// Reduces `operands` along `axes` with the function `f`. Negative axes count from the back.
///
/// `operands` is an array, or a tree of arrays of one shape that are reduced together. `init` is
/// the same tree of scalars. `f` combines two such trees of scalars into one. It must be
/// associative. The order of evaluation is unspecified. `init` must be a neutral element of `f`,
/// because it may be combined any number of times.
///
/// If `f` is a single operation that has a reduction primitive (`a + b`, `a * b`, `maximum`,
/// `minimum`, `&`, `|`, `^`), that primitive is used, which has a cheaper derivative. Other
/// functions are differentiated, in forward and reverse mode, by combining neighbours until one
/// element is left. Reverse mode stores the residuals of each of these steps. A function that
/// captures arrays is computed in this way too, since StableHLO's reductions take no other
/// operands; gradients reach the captured arrays.
///
/// Throws `Tree`, naming the leaf, if `init` or the result of `f` does not match the operands, `Op`
/// if shapes differ or an axis is out of range, and whatever `f` throws.
///
/// ```
/// use oxidax::prelude::*;
/// // The element of largest absolute value and its index.
/// let farthest = |x: Array| {
///     let indices = iota(DType::I32, 8);
///     let larger = |(a, i): (Array, Array), (b, j): (Array, Array)| {
///         let first = ge(abs(&a), abs(&b));
///         (select(&first, &a, &b), select(&first, &i, &j))
///     };
///     reduce((x, indices), (scalar(0.0), scalar(-1)), larger, &[0])
/// };
/// let (value, index) = eval_shape(farthest, Aval::new(DType::F32, [8]))?;
/// assert_eq!(value.aval().to_string(), "f32[]");
/// assert_eq!(index.aval().to_string(), "i32[]");
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn reduce<T: Tree, F: Fn(T, T) -> T>(
    operands: impl Arg<T>,
    init: impl Arg<T>,
    f: F,
    axes: &[isize],
) -> T {
    let site = CallSite::new::<F>("reduce", Loc::caller());
    let (operands, init) = (&*operands.hold(), &*init.hold());
    let loc = site.loc;
    expect_alike(operands, init, loc);
    let leaves = leaves_of(operands);
    let Some(first) = leaves.first() else {
        let message = "there is nothing to reduce: the tree has no leaves".into();
        trace::throw_op(OpErrorKind::Value, site.name, message, loc);
    };
    let axes = loc.scope(|| resolve_axes("reduce", first, axes));
    staged(|| {
        loc.scope(|| {
            let paths = TreeDef::of(operands);
            let inits = converted_inits(&site, paths.paths(), &leaves, &leaves_of(init));
            let (combine, captures) = trace_combine(&site, operands, &leaves, &f);
            if !captures.is_empty() {
                expect_one_shape(&site, TreeDef::of(operands).paths(), &leaves);
                let results = reduce_by_halving(&combine, &leaves, &inits, &captures, &axes);
                return rebuild(operands, results);
            }
            if let Some(result) = reduce_by_primitive(&combine, &leaves, &inits, &axes) {
                return rebuild(operands, vec![result]);
            }
            let primitive = Reduce { axes, combine: Arc::new(combine) };
            let arrays: Vec<&Array> = leaves.iter().chain(&inits).collect();
            rebuild(operands, trace::bind(primitive, &arrays))
        })
    })
}

/// Converts the initial value of each operand to its dtype.
fn converted_inits(
    site: &CallSite,
    paths: &[String],
    leaves: &[Array],
    inits: &[Array],
) -> Vec<Array> {
    let mut converted = Vec::with_capacity(inits.len());
    for ((x, init), path) in leaves.iter().zip(inits).zip(paths) {
        let is_convertible = init.dtype() == x.dtype() || init.aval().weak;
        if init.rank() != 0 || !is_convertible {
            let message = format!(
                "{}: {} has the initial value {}, which must be a scalar of its dtype",
                site.name,
                x.aval(),
                init.aval()
            );
            throw_tree(path, message, None, site.loc);
        }
        converted.push(convert_to(init, x.dtype(), init.aval().weak));
    }
    converted
}

/// Throws `Tree` unless all operands have the shape of the first.
fn expect_one_shape(site: &CallSite, paths: &[String], leaves: &[Array]) {
    let shape = leaves[0].shape();
    for (x, path) in leaves.iter().zip(paths) {
        if x.shape() != shape {
            let message = format!(
                "{}: the operand {} has another shape than the first, {shape}",
                site.name,
                x.aval()
            );
            throw_tree(path, message, None, site.loc);
        }
    }
}

/// Traces `f` on scalars of the dtypes of `leaves`. Returns the program, whose last inputs are the
/// captured arrays, and these arrays.
fn trace_combine<T: Tree>(
    site: &CallSite,
    operands: &T,
    leaves: &[Array],
    f: &dyn Fn(T, T) -> T,
) -> (Program, Vec<Array>) {
    let scalars: Vec<Aval> = leaves.iter().map(|x| Aval::new(x.dtype(), Shape::scalar())).collect();
    let inputs = scalars.iter().chain(&scalars).cloned();
    let traced = trace_function(site.scope.clone(), inputs, |mut inputs| {
        let right = inputs.split_off(scalars.len());
        let result = f(rebuild(operands, inputs), rebuild(operands, right));
        expect_alike(operands, &result, site.loc);
        let structure = TreeDef::of(operands);
        let results = avals_of(&leaves_of(&result));
        for ((aval, scalar), path) in results.iter().zip(&scalars).zip(structure.paths()) {
            if !aval.same_type(scalar) {
                let message =
                    format!("{}: the function takes {scalar} here and gives {aval}", site.name);
                throw_tree(path, message, None, site.loc);
            }
        }
        result
    });
    (traced.program, traced.captures)
}

type Reduction = fn(&Array, &[isize]) -> Array;

/// Returns the reduction that combines elements with the primitive of this type.
fn reduction_of(primitive: TypeId) -> Option<Reduction> {
    let reductions: [(TypeId, Reduction); 7] = [
        (TypeId::of::<Add>(), reduce_sum),
        (TypeId::of::<Mul>(), reduce_prod),
        (TypeId::of::<Max>(), reduce_max),
        (TypeId::of::<Min>(), reduce_min),
        (TypeId::of::<And>(), reduce_and),
        (TypeId::of::<Or>(), reduce_or),
        (TypeId::of::<Xor>(), reduce_xor),
    ];
    reductions.into_iter().find(|(id, _)| *id == primitive).map(|(_, reduction)| reduction)
}

/// Reduces one operand with a reduction primitive, if `combine` is a single operation that has one.
fn reduce_by_primitive(
    combine: &Program,
    arrays: &[Array],
    inits: &[Array],
    axes: &[usize],
) -> Option<Array> {
    let ([x], [init], [eqn]) = (arrays, inits, combine.eqns()) else { return None };
    let [a, b] = *eqn.operands else { return None };
    let takes_both = a != b && [a, b].iter().all(|var| combine.inputs().contains(var));
    if !takes_both || *eqn.results != *combine.outputs() {
        return None;
    }
    let reduction = reduction_of((*eqn.primitive).as_any().type_id())?;
    let axes: Vec<isize> = axes.iter().map(|&axis| axis as isize).collect();
    let reduced = reduction(x, &axes);
    let init = broadcast_to(init, reduced.shape());
    Some(trace::bind_shared(&eqn.primitive, &[&init, &reduced]).swap_remove(0))
}
