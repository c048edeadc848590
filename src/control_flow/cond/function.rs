//! The functions `cond` and `switch`.

use super::{Branches, Cond};
use crate::control_flow::closure::{
    Closure, close_with_refs, expect_no_collectives, throw_tree, vary_inputs, vary_outputs,
};
use crate::control_flow::derive::avals_of;
use crate::control_flow::threaded_refs::BranchRefs;
use crate::core::trace::{RefAccess, same_value};
use crate::core::{
    Array, Aval, DType, Effects, Loc, OpErrorKind, Primitive, Program, ProgramInput, RuleError,
    Scalar, trace,
};
use crate::primitives::{ArrayLike, clamp, convert_to, ne, scalar};
use crate::tree::{Arg, Difference, Function, Tree, TreeDef, leaves_of, rebuild, rooted, share};
use std::sync::Arc;

/// Applies `true_fun` to the operand if `pred` is true, otherwise `false_fun`. Only one of them
/// runs.
///
/// `pred` is a `bool`, a number or a scalar array; a number is true if it is not 0. Both functions
/// take the operand, by value or by reference, may capture anything, and return trees of one
/// structure, whose leaves have the same shapes and dtypes. Pass several operands as a tuple, none
/// as `()`.
///
/// Both forward and reverse derivatives are supported. Under `vmap` over `pred` both functions run
/// and results are selected. To choose element by element, use
/// [`where_`](crate::primitives::where_).
///
/// Throws `Op` (shape) if `pred` is not a scalar, `Tree`, naming the leaf, if the results differ in
/// type, and whatever the functions throw.
///
/// ```
/// use oxidax::prelude::*;
/// let half_or_thrice_plus_one = |n: Array| {
///     let even = eq(remainder(&n, 2), 0);
///     cond(even, |n: &Array| floor_divide(n, 2), |n: &Array| n * 3 + 1, n)
/// };
/// let n = eval_shape(half_or_thrice_plus_one, Aval::new(DType::I32, []))?;
/// assert_eq!(n.aval().to_string(), "i32[]");
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn cond<A: Tree, O: Tree, MT, MF, T, F>(
    pred: impl ArrayLike,
    true_fun: T,
    false_fun: F,
    operand: impl Arg<A>,
) -> O
where
    T: Function<(A,), MT, Output = O>,
    F: Function<(A,), MF, Output = O>,
{
    let loc = Loc::caller();
    let pred = &loc.scope(|| pred.to_array());
    let scopes = [false_fun.name(), true_fun.name()].map(|name| format!("cond({name})"));
    let true_fun = |operand: A| true_fun.apply((operand,));
    let false_fun = |operand: A| false_fun.apply((operand,));
    if pred.rank() != 0 {
        let message = format!("the predicate must be a scalar, got {}", pred.aval());
        trace::throw(
            trace::op_error(OpErrorKind::Shape, "cond", message, loc).with_help(
                "use `where_` to choose element by element, or `vmap` over the examples",
            ),
        );
    }
    if trace::jit_disabled() && !trace::is_tracing() {
        let is_true = loc.scope(|| ne(pred, 0)).item::<bool>();
        let operand = operand.hold();
        let operand = share(&*operand);
        return if is_true.unwrap_or_else(|error| trace::throw(error)) {
            true_fun(operand)
        } else {
            false_fun(operand)
        };
    }
    let index = loc.scope(|| {
        let pred = if pred.dtype().is_bool() { pred.clone() } else { ne(pred, 0) };
        convert_to(&pred, DType::I32, false)
    });
    let choice = Choice {
        name: "cond",
        index: &index,
        scopes: scopes.to_vec(),
        labels: vec!["`false_fun`".into(), "`true_fun`".into()],
        reference: 1,
        loc,
        platforms: Vec::new(),
    };
    choice.apply(&[&false_fun, &true_fun], &*operand.hold())
}

/// Applies branch number `index` to the operand. An index out of range is clamped. Only that branch
/// runs.
///
/// `index` is a number or an integer scalar. `branches` are a tuple of closures, or a list of
/// functions of one type ([`Branches`]). They take the operand, by value or by reference, and
/// return trees of one structure and one type, as the functions of [`cond`] do.
///
/// Throws `Op` if there are no branches or `index` is not an integer scalar, `Tree`, naming the
/// leaf, if results differ in type, and whatever the branches throw.
///
/// ```
/// use oxidax::prelude::*;
/// let activation = |kind: Array, x: Array| {
///     switch(kind, (|x: &Array| relu(x), |x: &Array| tanh(x), |x: Array| x), x)
/// };
/// let (kind, x) = (Aval::new(DType::I32, []), Aval::new(DType::F32, [3]));
/// assert_eq!(eval_shape(activation, (kind, x))?.shape().dims(), [3]);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn switch<A: Tree, O: Tree, M>(
    index: impl ArrayLike,
    branches: impl Branches<A, O, M>,
    operand: impl Arg<A>,
) -> O {
    let loc = Loc::caller();
    let operand = &*operand.hold();
    let index = loc.scope(|| index.to_array());
    branches.with_list(|list| switch_among(&index, list, operand, loc))
}

/// Traces the branches, one for each of the `platforms`, and binds the conditional that the target
/// of lowering decides.
pub(super) fn among_platforms<A: Tree, O: Tree>(
    platforms: Vec<String>,
    branches: &[&dyn Fn(A) -> O],
    operand: &A,
    loc: Loc,
) -> O {
    let index = loc.scope(|| scalar(0i32));
    let choice = Choice {
        name: "platform_dependent",
        index: &index,
        scopes: platforms.iter().map(|name| format!("platform_dependent[{name}]")).collect(),
        labels: platforms.iter().map(|name| format!("`{name}`")).collect(),
        reference: 0,
        loc,
        platforms,
    };
    choice.apply(branches, operand)
}

fn switch_among<A: Tree, O: Tree>(
    index: &Array,
    branches: &[&dyn Fn(A) -> O],
    operand: &A,
    loc: Loc,
) -> O {
    if branches.is_empty() {
        let message = "there must be at least one branch, got none".into();
        trace::throw_op(OpErrorKind::Value, "switch", message, loc);
    }
    if index.rank() != 0 || !index.dtype().is_integer() {
        let message = format!("the index must be an integer scalar, got {}", index.aval());
        trace::throw_rule("switch", RuleError::dtype(message), &[index.aval().clone()], loc);
    }
    if let [only] = branches {
        return only(share(operand));
    }
    let index = loc.scope(|| clamped(index, branches.len()));
    if trace::jit_disabled() && !trace::is_tracing() {
        let number = index.item::<i32>().unwrap_or_else(|error| trace::throw(error));
        return branches[number as usize](share(operand));
    }
    let numbers = 0..branches.len();
    let choice = Choice {
        name: "switch",
        index: &index,
        scopes: numbers.clone().map(|number| format!("switch[{number}]")).collect(),
        labels: numbers.map(|number| format!("branch {number}")).collect(),
        reference: 0,
        loc,
        platforms: Vec::new(),
    };
    choice.apply(branches, operand)
}

/// Converts an index to `i32`, clamped to the number of branches.
fn clamped(index: &Array, n_branches: usize) -> Array {
    // A narrow dtype may not be able to represent the last branch.
    let (_, largest) = index.dtype().int_range();
    let last = largest.min((n_branches - 1) as i128);
    convert_to(&clamp(0, index, Scalar::Int(last)), DType::I32, false)
}

/// A call of `cond` or `switch`.
struct Choice<'a> {
    /// The function that was called.
    name: &'static str,
    index: &'a Array,
    /// The entry of each branch in the path of transforms.
    scopes: Vec<String>,
    /// The name of each branch in errors.
    labels: Vec<String>,
    /// The branch that the results of the others are compared with.
    reference: usize,
    loc: Loc,
    /// The platform of each branch, if the platform decides.
    platforms: Vec<String>,
}

impl Choice<'_> {
    /// Traces the branches and binds the conditional.
    fn apply<A: Tree, O: Tree>(&self, branches: &[&dyn Fn(A) -> O], operand: &A) -> O {
        let leaves = leaves_of(operand);
        let mut closures: Vec<Closure<O>> = Vec::with_capacity(branches.len());
        for (branch, scope) in branches.iter().zip(&self.scopes) {
            let branch = |leaves| branch(rebuild(operand, leaves));
            let avals = avals_of(&leaves);
            let close = || close_with_refs(RefAccess::Captures, scope.clone(), avals, branch);
            let closure = self.loc.scope(close);
            self.loc.scope(|| closure.refs.expect_no_arguments(self.name));
            closures.push(closure);
        }
        let reference = &closures[self.reference].template;
        for (number, closure) in closures.iter().enumerate() {
            if number != self.reference {
                self.expect_same_results(reference, number, &closure.template);
            }
        }
        let refs = BranchRefs::of(&closures);
        let complete = |closure| refs.complete(closure, self.loc);
        let closures: Vec<Closure<O>> = closures.into_iter().map(complete).collect();
        let branches: Vec<Branch<'_>> = closures
            .iter()
            .map(|closure| Branch { program: &closure.program, captures: &closure.captures })
            .collect();
        let mut results = self.bind(&branches, &leaves);
        refs.write_back(&mut results);
        rebuild(&closures[0].template, results)
    }

    fn bind(&self, branches: &[Branch<'_>], leaves: &[Array]) -> Vec<Array> {
        // Every branch takes the captures of all branches.
        let mut captures: Vec<Array> = Vec::new();
        for capture in branches.iter().flat_map(|branch| branch.captures) {
            if !captures.iter().any(|other| same_value(other, capture)) {
                captures.push(capture.clone());
            }
        }
        let axes = &self.index.aval().varying;
        let mut programs: Vec<Program> = Vec::with_capacity(branches.len());
        for branch in branches {
            programs.push(vary_inputs(branch.with_captures(&captures, leaves.len()), axes));
        }
        let mut outputs = programs[0].avals_out();
        for program in &programs[1..] {
            for (output, other) in outputs.iter_mut().zip(program.avals_out()) {
                output.varying = output.varying.and(&other.varying);
            }
        }
        let programs: Vec<Program> =
            programs.into_iter().map(|program| vary_outputs(program, &outputs)).collect();
        expect_no_collectives(self.name, &programs, axes, self.loc);
        let cond = Cond { platforms: self.platforms.clone(), ..Cond::new(programs) };
        if cond.n_outputs() == 0 && cond.effects() == Effects::None {
            return Vec::new();
        }
        let operands: Vec<&Array> =
            std::iter::once(self.index).chain(&captures).chain(leaves).collect();
        let cond: Arc<dyn Primitive> = Arc::new(cond);
        trace::bind_at(&cond, &operands, self.loc)
    }

    /// Throws `Tree` if branch `number` does not return the types of the reference branch.
    fn expect_same_results<O: Tree>(&self, reference: &O, number: usize, result: &O) {
        let (name, first, second) = (self.name, &self.labels[self.reference], &self.labels[number]);
        let structure = TreeDef::of(reference);
        if let Some(Difference { path: place, a, b }) = structure.difference(&TreeDef::of(result)) {
            let message = format!(
                "{name}: the results differ in structure: {first} gives {a} here, {second} {b}"
            );
            let help = "build the results of all branches the same way".into();
            throw_tree(&place, message, Some(help), self.loc);
        }
        let (a, b) = (avals_of(&leaves_of(reference)), avals_of(&leaves_of(result)));
        let pairs = structure.paths().iter().zip(a.iter().zip(&b));
        let different: Vec<(&String, (&Aval, &Aval))> =
            pairs.filter(|(_, (a, b))| !a.fits(b)).collect();
        let Some((path, (a, b))) = different.first() else { return };
        let mut message =
            format!("{name}: the results differ in type: {first} gives {a} here, {second} {b}");
        for (path, (a, b)) in &different[1..] {
            message.push_str(&format!("; {a} and {b} at {}", rooted(path)));
        }
        let help = if a.with_memory(b.memory).same_type(b) {
            format!("move one of them: `device_put(&x, MemoryKind::{:?})`", a.memory)
        } else if a.shape == b.shape {
            format!("convert one of them: `astype(DType::{:?})`", a.dtype)
        } else {
            "return arrays of one shape from all branches".into()
        };
        throw_tree(path, message, Some(help), self.loc);
    }
}

/// A traced branch, which takes its captures and then the operands.
struct Branch<'a> {
    program: &'a Program,
    captures: &'a [Array],
}

impl Branch<'_> {
    /// Returns the program that takes the captures of all branches, then the operands.
    fn with_captures(&self, captures: &[Array], n_operands: usize) -> Program {
        let mut inputs = Vec::with_capacity(captures.len() + n_operands);
        for capture in captures {
            let position = self.captures.iter().position(|own| same_value(own, capture));
            inputs.push(match position {
                Some(position) => ProgramInput::Existing(position),
                None => ProgramInput::Unused(capture.aval().clone()),
            });
        }
        let first = self.captures.len();
        inputs.extend((first..first + n_operands).map(ProgramInput::Existing));
        self.program.with_inputs(&inputs)
    }
}
