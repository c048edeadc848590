//! The functions `scan` and `scan_with`.

use super::{Scan, ScanInput};
use crate::control_flow::closure::{CallSite, promoted_carry, throw_tree};
use crate::control_flow::derive::avals_of;
use crate::control_flow::groups::{Inputs, Outputs};
use crate::control_flow::threaded_refs::CarriedRefs;
use crate::core::{
    Array, Aval, Effects, Error, Loc, OpErrorKind, Primitive, Program, Shape, Var, bind, trace,
};
use crate::primitives::{DynamicSlice, concatenate, reshape_to, zeros_of};
use crate::tree::{Arg, Function, Tree, TreeDef, leaves_of, rebuild, rooted, share};
use std::sync::Arc;

/// Options of [`scan_with`]: a struct literal, or a chain of its methods.
///
/// ```
/// use oxidax::prelude::*;
/// let chained = ScanOptions::default().reverse(true).unroll(Unroll::Steps(4));
/// let literal =
///     ScanOptions { reverse: true, unroll: Unroll::Steps(4), ..ScanOptions::default() };
/// assert_eq!(chained, literal);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanOptions {
    /// The number of steps. Required only if there are no arrays to scan over.
    pub length: Option<usize>,
    /// True to scan from the last element to the first. Outputs keep the positions of the elements.
    pub reverse: bool,
    /// The number of steps per iteration of the compiled loop.
    pub unroll: Unroll,
}

impl ScanOptions {
    /// Sets the number of steps.
    #[must_use]
    pub fn length(self, length: usize) -> ScanOptions {
        ScanOptions { length: Some(length), ..self }
    }

    /// Sets the direction: true to scan from the last element to the first.
    #[must_use]
    pub fn reverse(self, reverse: bool) -> ScanOptions {
        ScanOptions { reverse, ..self }
    }

    /// Sets the number of steps per iteration of the compiled loop.
    #[must_use]
    pub fn unroll(self, unroll: Unroll) -> ScanOptions {
        ScanOptions { unroll, ..self }
    }
}

/// The number of steps per iteration of a compiled loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unroll {
    /// This many steps; 0 counts as 1.
    Steps(usize),
    /// All steps: the compiled program has no loop.
    All,
}

impl Default for Unroll {
    /// One step.
    fn default() -> Unroll {
        Unroll::Steps(1)
    }
}

impl Unroll {
    fn steps(self, length: usize) -> usize {
        match self {
            Unroll::Steps(steps) => steps.max(1),
            Unroll::All => length.max(1),
        }
    }
}

/// Applies `f` to a carry and to each element of `xs` along the first axis, in order. The carry
/// passes from step to step and the other outputs are stacked. Returns the final carry and the
/// outputs.
///
/// `f` takes trees, by value or by reference, and is traced once, regardless of the length. The
/// carry keeps its structure, shapes and dtypes from step to step; a leaf that starts weakly typed
/// takes the dtype that `f` returns. Values that `f` captures are equal in every step, except for
/// those of an [`ArrayRef`](crate::core::ArrayRef), which each step can change. Without
/// arrays to scan over, `xs` is the number of steps and `f` takes `()`: `scan(f, init, 100)`.
///
/// Both forward and reverse derivatives are supported. Reverse mode stacks the values that the
/// backward pass needs from each step.
///
/// Throws `Tree`, naming the leaf, if the carry changes its type or the leaves of `xs` differ in
/// length, and whatever `f` throws.
///
/// ```
/// use oxidax::prelude::*;
/// // f32[3] -> f32[], f32[3]
/// let sums = |xs: Array| scan(|sum: Array, x: Array| (&sum + &x, &sum + &x), scalar(0.0), xs);
/// let (total, running) = eval_shape(sums, Aval::new(DType::F32, [3]))?;
/// assert_eq!((total.rank(), running.shape().dims()), (0, &[3][..]));
/// // A number of steps: 5 powers of x.
/// let powers = |x: Array| scan(|y: &Array, ()| (y * &x, y.clone()), 1.0, 5).1;
/// assert_eq!(eval_shape(powers, Aval::new(DType::F32, []))?.shape().dims(), [5]);
/// # Ok::<(), Error>(())
/// ```
///
/// A recurrent network and its gradient:
///
/// ```
/// use oxidax::prelude::*;
/// let xs = ones([10, 3]);
/// let loss = |w: &Array| {
///     let step = |h: Array, x: Array| (tanh(&(h.matmul(w) + x)), ());
///     scan(step, zeros([3]), &xs).0.sum()
/// };
/// let gradient = grad(loss)(&eye(3));
/// assert_eq!(gradient.shape().dims(), [3, 3]);
/// ```
#[track_caller]
pub fn scan<C: Tree, X: Tree, Y: Tree, M, F: Function<(C, X), M, Output = (C, Y)>>(
    f: F,
    init: impl Arg<C>,
    xs: impl ScanInput<X>,
) -> (C, Y) {
    scan_with(f, init, xs, ScanOptions::default())
}

/// As [`scan`], with options.
///
/// Throws as [`scan`] does, `Op` (value) if there is neither a length nor an array to scan over,
/// and if two different lengths are given.
///
/// ```
/// use oxidax::prelude::*;
/// let powers = |x: Array| {
///     let options = ScanOptions { reverse: true, ..ScanOptions::default() };
///     scan_with(|power: Array, ()| (&power * &x, power), ones_like(&x), 5, options).1
/// };
/// let powers = eval_shape(powers, Aval::new(DType::F32, []))?;
/// assert_eq!(powers.shape().dims(), [5]);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn scan_with<C: Tree, X: Tree, Y: Tree, M, F: Function<(C, X), M, Output = (C, Y)>>(
    f: F,
    init: impl Arg<C>,
    xs: impl ScanInput<X>,
    mut options: ScanOptions,
) -> (C, Y) {
    let site = CallSite::of("scan", &f.name(), Loc::caller());
    let (xs, steps) = xs.hold();
    if let (Some(steps), Some(length)) = (steps, options.length.filter(|n| Some(*n) != steps)) {
        let message = format!("the number of steps is {steps}, and the option `length` {length}");
        trace::throw_op(OpErrorKind::Value, site.name, message, site.loc);
    }
    options.length = options.length.or(steps);
    run(&site, &|carry, x| f.apply((carry, x)), &*init.hold(), &*xs, options)
}

/// Traces and binds a scan for the function called at `site`.
pub(in crate::control_flow) fn run<C: Tree, X: Tree, Y: Tree, F: Fn(C, X) -> (C, Y)>(
    site: &CallSite,
    f: &F,
    init: &C,
    xs: &X,
    options: ScanOptions,
) -> (C, Y) {
    let x_leaves = leaves_of(xs);
    let length = common_length(site, xs, &x_leaves, options.length);
    if trace::jit_disabled() && !trace::is_tracing() && length > 0 {
        return run_steps(site, f, init, xs, ScanOptions { length: Some(length), ..options });
    }
    let mut carry = leaves_of(init);
    let n_carry = carry.len();
    let (closure, refs) = loop {
        let elements = x_leaves.iter().map(|x| x.aval().without_axis(0));
        let avals: Vec<Aval> = avals_of(&carry).into_iter().chain(elements).collect();
        let closure = site.close_body(avals, |mut leaves| {
            let x = leaves.split_off(n_carry);
            f(rebuild(init, leaves), rebuild(xs, x))
        });
        match promoted_carry(site, init, &carry, &closure.template.0) {
            Some(promoted) => carry = promoted,
            None => {
                if let Some(refs) = CarriedRefs::of(&closure, site) {
                    break (closure, refs);
                }
            }
        }
    };
    let mut closure = refs.thread(closure, n_carry, site);
    closure.program = refs.with_carry_outputs(closure.program, n_carry);
    carry.extend(refs.values.iter().cloned());
    let closure = closure.vary_outputs_like(&carry);
    let options = ScanOptions { length: Some(length), ..options };
    let operands = Inputs { consts: closure.captures, carry, xs: x_leaves };
    let mut outputs = bind_scan(&closure.program, operands, options, site.loc);
    refs.write_back(&mut outputs, n_carry);
    rebuild(&closure.template, outputs)
}

/// Binds a scan without the values that the body only passes through: a carry that never changes
/// becomes a constant, and an output that is an element of an array is that array.
fn bind_scan(
    program: &Program,
    operands: Inputs<Vec<Array>>,
    options: ScanOptions,
    loc: Loc,
) -> Vec<Array> {
    let Inputs { consts: captures, carry, xs } = operands;
    let (n_captures, n_carry) = (captures.len(), carry.len());
    let inputs = Inputs::cut(program.inputs().to_vec(), n_captures, n_carry);
    let outputs = Outputs::cut(program.outputs().to_vec(), n_carry);
    // For each result, the array that the body passes through.
    let mut passed: Vec<Option<&Array>> = Vec::with_capacity(program.outputs().len());
    for (index, output) in outputs.carry.iter().enumerate() {
        passed.push((inputs.carry[index] == *output).then(|| &carry[index]));
    }
    for output in &outputs.ys {
        passed.push(inputs.xs.iter().position(|input| input == output).map(|x| &xs[x]));
    }
    let (fixed, changing): (Vec<usize>, Vec<usize>) =
        (0..n_carry).partition(|&index| passed[index].is_some());
    let computed: Vec<Var> = program
        .outputs()
        .iter()
        .zip(&passed)
        .filter(|(_, passed)| passed.is_none())
        .map(|(&var, _)| var)
        .collect();
    let carry_order: Vec<usize> = fixed.iter().chain(&changing).copied().collect();
    let order: Vec<usize> = (0..n_captures)
        .chain(carry_order.iter().map(|index| n_captures + index))
        .chain(n_captures + n_carry..program.inputs().len())
        .collect();
    let length = options.length.expect("the length is known here");
    let scan = Scan {
        length,
        reverse: options.reverse,
        unroll: options.unroll.steps(length),
        n_consts: n_captures + fixed.len(),
        n_carry: changing.len(),
        body: Arc::new(program.with_outputs(&computed).permute_inputs(&order)),
    };
    let results = if computed.is_empty() && scan.effects() == Effects::None {
        Vec::new()
    } else {
        let carries = carry_order.iter().map(|&index| &carry[index]);
        let operands: Vec<&Array> = captures.iter().chain(carries).chain(&xs).collect();
        let scan: Arc<dyn Primitive> = Arc::new(scan);
        trace::bind_at(&scan, &operands, loc)
    };
    let mut results = results.into_iter();
    let mut outputs = Vec::with_capacity(passed.len());
    for array in passed {
        outputs.push(match array {
            Some(array) => array.clone(),
            None => results.next().expect("one result per computed output"),
        });
    }
    outputs
}

/// Returns the length that the leaves of `xs` have along their first axis, which must be `length`
/// if that is given.
pub(in crate::control_flow) fn common_length<X: Tree>(
    site: &CallSite,
    xs: &X,
    leaves: &[Array],
    length: Option<usize>,
) -> usize {
    check_lengths(site, TreeDef::of(xs).paths(), leaves, length)
}

fn check_lengths(
    site: &CallSite,
    paths: &[String],
    leaves: &[Array],
    length: Option<usize>,
) -> usize {
    let &CallSite { name, loc, .. } = site;
    let mut expected = length.map(|length| (length, "the length is".to_string()));
    for (path, x) in paths.iter().zip(leaves) {
        if x.rank() == 0 {
            let message = format!("{name}: {} has no axis to scan over", x.aval());
            let help = if x.aval().weak {
                "a number of steps, `scan(f, init, 100)`, is for a body that takes `()`".into()
            } else {
                "capture values that are equal in every step in the closure".into()
            };
            throw_tree(path, message, Some(help), loc);
        }
        if expected.is_none() {
            expected = Some((x.shape()[0], format!("{} has", rooted(path))));
        }
    }
    let Some((expected, source)) = expected else {
        let message = "there are no arrays to scan over, so the number of steps is unknown";
        trace::throw(
            trace::op_error(OpErrorKind::Value, name, message, loc)
                .with_help("pass the number of steps in place of the arrays: `scan(f, init, 100)`"),
        );
    };
    for (path, x) in paths.iter().zip(leaves) {
        let actual = x.shape()[0];
        if actual != expected {
            let message =
                format!("{name}: lengths differ: {} has {actual}, {source} {expected}", x.aval());
            throw_tree(path, message, None, loc);
        }
    }
    expected
}

/// Runs the closure itself on concrete arrays, step by step, for `disable_jit`.
fn run_steps<C: Tree, X: Tree, Y: Tree, F: Fn(C, X) -> (C, Y)>(
    site: &CallSite,
    f: &F,
    init: &C,
    xs: &X,
    options: ScanOptions,
) -> (C, Y) {
    let length = options.length.expect("the length is known here");
    let x_leaves = leaves_of(xs);
    let mut carry = share(init);
    let mut steps = Vec::with_capacity(length);
    let mut template = None;
    for step in 0..length {
        let index = if options.reverse { length - 1 - step } else { step };
        let x = elements(&x_leaves, index).unwrap_or_else(|error| trace::throw(error));
        let leaves = leaves_of(&carry);
        let (next, y) = f(rebuild(init, leaves.clone()), rebuild(xs, x));
        promoted_carry(site, init, &leaves, &next);
        carry = next;
        steps.push(leaves_of(&y));
        template = Some(y);
    }
    if options.reverse {
        steps.reverse();
    }
    let template = template.expect("there is at least one step");
    let avals = avals_of(&steps[0]);
    let ys = site.loc.scope(|| stack_steps(&steps, &avals));
    (carry, rebuild(&template, ys))
}

/// Returns the elements of concrete arrays at `index` along their first axis.
pub(super) fn elements(xs: &[Array], index: usize) -> Result<Vec<Array>, Error> {
    let start = |index: usize| Array::from_slice(&[index as i64], Shape::scalar());
    let (index, zero) = (start(index)?, start(0)?);
    let mut elements = Vec::with_capacity(xs.len());
    for x in xs {
        let mut slice_sizes = x.shape().to_vec();
        slice_sizes[0] = 1;
        let zeros = std::iter::repeat_n(&zero, x.rank() - 1);
        let operands: Vec<&Array> = [x, &index].into_iter().chain(zeros).collect();
        let slice = bind(DynamicSlice { slice_sizes }, &operands).swap_remove(0);
        elements.push(reshape_to(&slice, &x.shape().remove(0)));
    }
    Ok(elements)
}

/// Stacks the outputs of the steps along a new first axis. `avals` are the types of the outputs of
/// one step, for scans without steps.
pub(super) fn stack_steps(steps: &[Vec<Array>], avals: &[Aval]) -> Vec<Array> {
    let mut stacked = Vec::with_capacity(avals.len());
    for (index, aval) in avals.iter().enumerate() {
        let row_shape = aval.shape.insert(0, 1);
        let rows: Vec<Array> =
            steps.iter().map(|step| reshape_to(&step[index], &row_shape)).collect();
        stacked.push(if rows.is_empty() {
            zeros_of(&aval.stacked(0))
        } else {
            concatenate(&rows, 0)
        });
    }
    stacked
}
