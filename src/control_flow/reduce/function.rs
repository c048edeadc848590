//! The function `reduce`.

use super::Reduce;
use crate::control_flow::closure::{Caller, avals_of, throw_tree};
use crate::core::{Array, Aval, Loc, OpErrorKind, Program, RuleError, Shape, trace};
use crate::primitives::{
    Add, And, Max, Min, Mul, Or, Xor, broadcast_to, convert_to, reduce_and, reduce_max, reduce_min,
    reduce_or, reduce_prod, reduce_sum, reduce_xor, resolve_axes,
};
use crate::transforms::staging::{staged, trace_function};
use crate::tree::{Arg, Tree, TreeDef, expect_alike, leaves_of, rebuild};
use std::sync::Arc;

/// Combines all elements of `operands` along `axes` (negative ones count from the back), which disappear.
///
/// `operands` is an array or a tree of several that go together, of one shape; `init` is the same tree of
/// scalars. `f` is given two such trees of scalars and gives one. It must be associative, in no order that
/// can be relied on, and combining with `init` must change nothing: how often that is done is not told.
/// It may use numbers but not capture arrays.
///
/// Where `f` is one operation with a reduction of its own (`a + b`, `a * b`, `maximum`, `minimum`, `&`, `|`,
/// `^`), that reduction is taken, which is the same and has the better derivative. Others are
/// differentiated by combining neighbours until one element is left, in both directions, and keep on the
/// way back what each of these steps needs.
///
/// Throws `Tree`, naming the leaf, if `init` or what `f` gives do not fit the operands; `Op` if shapes
/// differ, an axis is out of range or `f` captures an array; and whatever `f` throws.
///
/// ```
/// use oxidax::prelude::*;
/// // The element of largest absolute value, with its place.
/// let farthest = |x: Array| {
///     let places = iota(DType::I32, 8);
///     let better = |(a, i): (Array, Array), (b, j): (Array, Array)| {
///         let first = ge(abs(&a), abs(&b));
///         (select(&first, &a, &b), select(&first, &i, &j))
///     };
///     reduce((x, places), (scalar(0.0), scalar(-1)), better, &[0])
/// };
/// let (value, place) = eval_shape(farthest, Aval::new(DType::F32, [8]))?;
/// assert_eq!((value.aval().to_string(), place.aval().to_string()), ("f32[]".into(), "i32[]".into()));
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn reduce<T: Tree, F: Fn(T, T) -> T>(
    operands: impl Arg<T>,
    init: impl Arg<T>,
    f: F,
    axes: &[isize],
) -> T {
    let caller = Caller::of::<F>("reduce", Loc::caller());
    let (operands, init) = (operands.tree(), init.tree());
    let loc = caller.loc;
    expect_alike(operands, init, loc);
    let leaves = leaves_of(operands);
    let Some(first) = leaves.first() else {
        let message = "there is nothing to reduce: the tree has no leaves".into();
        trace::throw_op(OpErrorKind::Value, caller.name, message, loc);
    };
    let over = loc.scope(|| resolve_axes("reduce", first, axes));
    staged(|| {
        loc.scope(|| {
            let inits = begun(&caller, operands, &leaves, &leaves_of(init));
            let scalars: Vec<Aval> =
                leaves.iter().map(|x| Aval::new(x.dtype(), Shape::scalar())).collect();
            let combine = combination(&caller, operands, &scalars, &f);
            if let Some(known) = known(&combine, &leaves, &inits, &over) {
                return rebuild(operands, vec![known]);
            }
            let primitive = Reduce { axes: over, combine: Arc::new(combine) };
            let arrays: Vec<&Array> = leaves.iter().chain(&inits).collect();
            rebuild(operands, trace::bind(primitive, &arrays))
        })
    })
}

/// What each operand begins with, in its dtype.
fn begun<T: Tree>(caller: &Caller, operands: &T, leaves: &[Array], inits: &[Array]) -> Vec<Array> {
    let structure = TreeDef::of(operands);
    let pairs = leaves.iter().zip(inits).zip(structure.paths());
    pairs
        .map(|((x, init), path)| {
            let fits = init.dtype() == x.dtype() || init.aval().weak;
            if init.rank() != 0 || !fits {
                let message = format!(
                    "{}: {} begins with {}: it must be a scalar of that dtype",
                    caller.name,
                    x.aval(),
                    init.aval()
                );
                throw_tree(path, message, None, caller.loc);
            }
            convert_to(init, x.dtype(), init.aval().weak)
        })
        .collect()
}

/// `f` as a program of scalars.
fn combination<T: Tree>(
    caller: &Caller,
    operands: &T,
    scalars: &[Aval],
    f: &dyn Fn(T, T) -> T,
) -> Program {
    let n = scalars.len();
    let inputs = scalars.iter().chain(scalars).cloned();
    let traced = trace_function(caller.scope.clone(), inputs, |mut inputs| {
        let right = inputs.split_off(n);
        let given = f(rebuild(operands, inputs), rebuild(operands, right));
        expect_alike(operands, &given, caller.loc);
        let paired = TreeDef::of(operands);
        let found = avals_of(&leaves_of(&given));
        for ((found, scalar), path) in found.iter().zip(scalars).zip(paired.paths()) {
            if !found.same_type(scalar) {
                let message =
                    format!("{}: the function takes {scalar} here and gives {found}", caller.name);
                throw_tree(path, message, None, caller.loc);
            }
        }
        given
    });
    if let Some(captured) = traced.captures.first() {
        let error = RuleError::unsupported(format!(
            "the function captures {}, and a reduction has no place for it",
            captured.aval()
        ))
        .help("make it one of the operands, broadcast, or use `associative_scan` or `scan`");
        let avals: Vec<Aval> = traced.captures.iter().map(|x| x.aval().clone()).collect();
        trace::throw_rule(caller.name, error, &avals, caller.loc);
    }
    traced.program
}

/// The reduction that there is for a program of one operation.
fn known(combine: &Program, arrays: &[Array], inits: &[Array], axes: &[usize]) -> Option<Array> {
    let ([x], [init], [eqn]) = (arrays, inits, combine.eqns()) else { return None };
    let of_both = match *eqn.operands {
        [a, b] => a != b && [a, b].iter().all(|var| combine.inputs().contains(var)),
        _ => false,
    };
    if !of_both || *eqn.results != *combine.outputs() {
        return None;
    }
    let primitive = (*eqn.primitive).as_any();
    type Reduction = fn(&Array, &[isize]) -> Array;
    let reductions: [(bool, Reduction); 7] = [
        (primitive.is::<Add>(), reduce_sum),
        (primitive.is::<Mul>(), reduce_prod),
        (primitive.is::<Max>(), reduce_max),
        (primitive.is::<Min>(), reduce_min),
        (primitive.is::<And>(), reduce_and),
        (primitive.is::<Or>(), reduce_or),
        (primitive.is::<Xor>(), reduce_xor),
    ];
    let (_, reduction) = reductions.into_iter().find(|(is, _)| *is)?;
    let axes: Vec<isize> = axes.iter().map(|&axis| axis as isize).collect();
    let reduced = reduction(x, &axes);
    let init = broadcast_to(init, reduced.shape());
    Some(trace::bind_shared(&eqn.primitive, &[&init, &reduced]).swap_remove(0))
}
