//! The functions `cond` and `switch`.

use super::Cond;
use crate::control_flow::closure::{
    Closure, apart, avals_of, close, expect_no_collectives, levelled, throw_tree,
};
use crate::core::trace::same_value;
use crate::core::{
    Array, Aval, DType, Effects, Loc, OpErrorKind, Primitive, Program, RuleError, Scalar, trace,
};
use crate::primitives::{clamp, convert_to, ne};
use crate::transforms::staging::short_name;
use crate::tree::{Arg, Difference, Tree, TreeDef, leaves_of, rebuild, rooted};
use std::sync::Arc;

/// `true_fun` of the operand if `pred` is true, `false_fun` of it if not. Only one of them runs.
///
/// `pred` is a scalar; a number is true if it is not 0. Both functions take the operand as an owned
/// tree, may capture anything, and give trees of one structure, whose leaves have the same shapes and
/// dtypes. Several operands are a tuple, none is `()`.
///
/// Derivatives go through in both directions. Under `vmap` over `pred` both functions run, and
/// results are selected. To choose element by element, use [`where_`](crate::primitives::where_).
///
/// Throws `Op` (shape) if `pred` is no scalar, `Tree`, naming the leaf, if the results differ in
/// type, and whatever the functions throw.
///
/// ```
/// use oxidax::prelude::*;
/// let half_or_thrice_plus_one = |n: Array| {
///     let even = eq(remainder(&n, 2), 0);
///     cond(&even, |n: Array| floor_divide(&n, 2), |n: Array| n * 3 + 1, n)
/// };
/// let n = eval_shape(half_or_thrice_plus_one, Aval::new(DType::I32, []))?;
/// assert_eq!(n.aval().to_string(), "i32[]");
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn cond<A: Tree, O: Tree, T: Fn(A) -> O, F: Fn(A) -> O>(
    pred: &Array,
    true_fun: T,
    false_fun: F,
    operand: impl Arg<A>,
) -> O {
    let loc = Loc::caller();
    if pred.rank() != 0 {
        let message = format!("the predicate must be a scalar, got {}", pred.aval());
        trace::throw(
            trace::op_error(OpErrorKind::Shape, "cond", message, loc).with_help(
                "use `where_` to choose element by element, or `vmap` over the examples",
            ),
        );
    }
    if trace::jit_disabled() && !trace::is_tracing() {
        let taken = loc.scope(|| ne(pred, 0)).item::<bool>();
        let operand = operand.tree();
        let operand = rebuild(operand, leaves_of(operand));
        return match taken.unwrap_or_else(|error| trace::throw(error)) {
            true => true_fun(operand),
            false => false_fun(operand),
        };
    }
    let index = loc.scope(|| {
        let pred = if pred.dtype().is_bool() { pred.clone() } else { ne(pred, 0) };
        convert_to(&pred, DType::I32, false)
    });
    let names = [format!("cond({})", short_name::<F>()), format!("cond({})", short_name::<T>())];
    let branches: [&dyn Fn(A) -> O; 2] = [&false_fun, &true_fun];
    let label = |number: usize| ["`false_fun`", "`true_fun`"][number].to_string();
    choose("cond", &index, &names, &branches, label, operand.tree(), loc)
}

/// The branch of the operand that `index` says, counted from 0; an index beyond the ends is taken as
/// the nearest there is. Only that one runs.
///
/// Branches take the operand as an owned tree and give trees of one structure and one type, as the
/// functions of [`cond`] do.
///
/// Throws `Op` if there is no branch or `index` is no integer scalar, `Tree`, naming the leaf, if
/// results differ in type, and whatever the branches throw.
///
/// ```
/// use oxidax::prelude::*;
/// let activation = |kind: Array, x: Array| {
///     switch(&kind, &[&|x: Array| relu(&x), &|x: Array| tanh(&x), &|x: Array| x], x)
/// };
/// let (kind, x) = (Aval::new(DType::I32, []), Aval::new(DType::F32, [3]));
/// assert_eq!(eval_shape(activation, (kind, x))?.shape().dims(), [3]);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn switch<A: Tree, O: Tree>(
    index: &Array,
    branches: &[&dyn Fn(A) -> O],
    operand: impl Arg<A>,
) -> O {
    let loc = Loc::caller();
    let (place, operand) = (loc, operand.tree());
    if branches.is_empty() {
        let message = "there must be at least one branch, got none".into();
        trace::throw_op(OpErrorKind::Value, "switch", message, place);
    }
    if index.rank() != 0 || !index.dtype().is_integer() {
        let message = format!("the index must be an integer scalar, got {}", index.aval());
        trace::throw_rule("switch", RuleError::dtype(message), &[index.aval().clone()], place);
    }
    if let [only] = branches {
        return only(rebuild(operand, leaves_of(operand)));
    }
    let index = place.scope(|| clamped(index, branches.len()));
    if trace::jit_disabled() && !trace::is_tracing() {
        let number = index.item::<i32>().unwrap_or_else(|error| trace::throw(error));
        return branches[number as usize](rebuild(operand, leaves_of(operand)));
    }
    let names: Vec<String> = (0..branches.len()).map(|at| format!("switch[{at}]")).collect();
    let label = |number: usize| format!("branch {number}");
    choose("switch", &index, &names, branches, label, operand, place)
}

/// The index as `i32`, within the number of branches.
fn clamped(index: &Array, n: usize) -> Array {
    let last = Scalar::Int((n - 1) as i128);
    let (_, most) = index.dtype().int_range();
    let within = match most < (n - 1) as i128 {
        // A dtype too narrow for the last branch cannot pass it.
        true => clamp(0, index, Scalar::Int(most)),
        false => clamp(0, index, last),
    };
    convert_to(&within, DType::I32, false)
}

/// Traces the branches and binds the choice.
fn choose<A: Tree, O: Tree>(
    name: &str,
    index: &Array,
    scopes: &[String],
    branches: &[&dyn Fn(A) -> O],
    label: impl Fn(usize) -> String,
    operand: &A,
    loc: Loc,
) -> O {
    let leaves = leaves_of(operand);
    let mut closures: Vec<Closure<O>> = branches
        .iter()
        .zip(scopes)
        .map(|(branch, scope)| {
            close(scope.clone(), avals_of(&leaves), |leaves| branch(rebuild(operand, leaves)))
        })
        .collect();
    // The first branch that the user wrote is what the others are measured by.
    let first = if name == "cond" { 1 } else { 0 };
    for (number, closure) in closures.iter().enumerate().filter(|(number, _)| *number != first) {
        expect_same_results(
            name,
            (&label(first), &closures[first].template),
            (&label(number), &closure.template),
            loc,
        );
    }
    // Every branch takes what any of them captures.
    let mut captures: Vec<Array> = Vec::new();
    for capture in closures.iter().flat_map(|closure| &closure.captures) {
        if !captures.iter().any(|other| same_value(other, capture)) {
            captures.push(capture.clone());
        }
    }
    let over = &index.aval().varying;
    let programs =
        closures.iter().map(|closure| apart(with_all(closure, &captures, leaves.len()), over));
    let programs: Vec<Program> = programs.collect();
    let results = programs.iter().map(Program::avals_out);
    let joint = results.reduce(|mut a, b| {
        a.iter_mut().zip(&b).for_each(|(a, b)| a.varying = a.varying.and(&b.varying));
        a
    });
    let joint = joint.unwrap_or_default();
    let programs: Vec<Program> =
        programs.into_iter().map(|program| levelled(program, &joint)).collect();
    expect_no_collectives(name, &programs, over, loc);
    let chosen = Cond::of(programs);
    let operands: Vec<&Array> = std::iter::once(index).chain(&captures).chain(&leaves).collect();
    let found = match chosen.n_out() == 0 && chosen.effects() == Effects::None {
        true => Vec::new(),
        false => {
            let chosen: Arc<dyn Primitive> = Arc::new(chosen);
            trace::bind_at(&chosen, &operands, loc)
        }
    };
    rebuild(&closures.swap_remove(0).template, found)
}

/// The closure's program with everything that is captured by any branch as inputs, then its own.
fn with_all<O>(closure: &Closure<O>, captures: &[Array], n_own: usize) -> Program {
    let captured = captures.iter().map(|capture| {
        let mine = closure.captures.iter().position(|own| same_value(own, capture));
        mine.ok_or_else(|| capture.aval().clone())
    });
    let first_own = closure.captures.len();
    let own = (first_own..first_own + n_own).map(Ok::<usize, Aval>);
    closure.program.with_inputs(&captured.chain(own).collect::<Vec<_>>())
}

fn expect_same_results<O: Tree>(
    name: &str,
    (first, a): (&str, &O),
    (second, b): (&str, &O),
    loc: Loc,
) {
    let structure = TreeDef::of(a);
    if let Some(Difference { path: place, a, b }) = structure.difference(&TreeDef::of(b)) {
        let message = format!(
            "{name}: the results differ in structure: {first} gives {a} here, {second} {b}"
        );
        let help = "build the results of all branches the same way".into();
        throw_tree(&place, message, Some(help), loc);
    }
    let (a, b) = (avals_of(&leaves_of(a)), avals_of(&leaves_of(b)));
    let pairs = structure.paths().iter().zip(a.iter().zip(&b));
    let wrong: Vec<(&String, (&Aval, &Aval))> =
        pairs.filter(|(_, (a, b))| !a.same_type(b)).collect();
    let Some((path, (a, b))) = wrong.first() else { return };
    let mut message =
        format!("{name}: the results differ in type: {first} gives {a} here, {second} {b}");
    for (path, (a, b)) in &wrong[1..] {
        message.push_str(&format!("; {a} and {b} at {}", rooted(path)));
    }
    let help = match a.shape == b.shape {
        true => format!("convert one of them: `astype(DType::{:?})`", a.dtype),
        false => "give arrays of one shape from all branches".into(),
    };
    throw_tree(path, message, Some(help), loc);
}
