//! The function `scan`.

use super::Scan;
use crate::control_flow::closure::{Caller, Closure, avals_of, close, promoted_carry, throw_tree};
use crate::core::{Array, Aval, Error, Loc, OpErrorKind, Primitive, Shape, bind, trace};
use crate::primitives::{DynamicSlice, concatenate, reshape_to, zeros_of};
use crate::tree::{Arg, Tree, TreeDef, leaves_of, rebuild, rooted};
use std::sync::Arc;

/// How [`scan_with`] runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanOptions {
    /// The number of steps; needed only if there is nothing to scan over.
    pub length: Option<usize>,
    /// Whether to go from the last element to the first. Outputs stand where their elements do.
    pub reverse: bool,
    /// How many steps are written out in one iteration of the compiled loop; 0 for all of them.
    pub unroll: usize,
}

impl Default for ScanOptions {
    /// From front to back, one step per iteration.
    fn default() -> ScanOptions {
        ScanOptions { length: None, reverse: false, unroll: 1 }
    }
}

/// Applies `f` to a carry and to the elements of `xs` along their first axis, one after the other: the
/// carry goes from step to step, and the outputs are stacked. Gives the last carry and the outputs.
///
/// `f` takes owned trees and is traced once, whatever the length. The carry keeps structure, shapes
/// and dtypes from step to step; leaves that start weakly typed take the dtype that `f` gives them.
/// What `f` captures is the same in every step. `xs` without leaves takes [`scan_with`] and a length.
///
/// Derivatives go through in both directions. The reverse one keeps, stacked, what the backward pass
/// needs of every step.
///
/// Throws `Tree`, naming the leaf, if the carry changes its type or the elements of `xs` are not
/// equally many, and whatever `f` throws.
///
/// ```
/// use oxidax::prelude::*;
/// // f32[3] -> f32[], f32[3]
/// let sums = |xs: Array| scan(|sum: Array, x: Array| (&sum + &x, &sum + &x), scalar(0.0), xs);
/// let (total, running) = eval_shape(sums, Aval::new(DType::F32, [3]))?;
/// assert_eq!((total.rank(), running.shape().dims()), (0, &[3][..]));
/// # Ok::<(), Error>(())
/// ```
///
/// A recurrent network, and its gradient:
///
/// ```no_run
/// use oxidax::prelude::*;
/// let xs = ones([10, 3], DType::F32);
/// let loss = |w: &Array| {
///     let step = |h: Array, x: Array| (tanh(&(h.matmul(w) + x)), ());
///     scan(step, zeros([3], DType::F32), &xs).0.sum()
/// };
/// let gradient = grad(loss)(&eye(3, DType::F32));
/// assert_eq!(gradient.shape().dims(), [3, 3]);
/// ```
#[track_caller]
pub fn scan<C: Tree, X: Tree, Y: Tree, F: Fn(C, X) -> (C, Y)>(
    f: F,
    init: impl Arg<C>,
    xs: impl Arg<X>,
) -> (C, Y) {
    let caller = Caller::of::<F>("scan", Loc::caller());
    run(&caller, &f, init.tree(), xs.tree(), ScanOptions::default())
}

/// As [`scan`], with a length, a direction, and a number of steps to unroll.
///
/// Throws as [`scan`] does, and `Op` (value) if there is neither a length nor an element.
///
/// ```
/// use oxidax::prelude::*;
/// let powers = |x: Array| {
///     let options = ScanOptions { length: Some(5), ..ScanOptions::default() };
///     scan_with(|power: Array, ()| (&power * &x, power), ones_like(&x), (), options).1
/// };
/// let powers = eval_shape(powers, Aval::new(DType::F32, []))?;
/// assert_eq!(powers.shape().dims(), [5]);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn scan_with<C: Tree, X: Tree, Y: Tree, F: Fn(C, X) -> (C, Y)>(
    f: F,
    init: impl Arg<C>,
    xs: impl Arg<X>,
    options: ScanOptions,
) -> (C, Y) {
    run(&Caller::of::<F>("scan", Loc::caller()), &f, init.tree(), xs.tree(), options)
}

/// A scan on behalf of `caller`.
pub(in crate::control_flow) fn run<C: Tree, X: Tree, Y: Tree, F: Fn(C, X) -> (C, Y)>(
    caller: &Caller,
    f: &F,
    init: &C,
    xs: &X,
    options: ScanOptions,
) -> (C, Y) {
    let x_leaves = leaves_of(xs);
    let length = common_length(caller, xs, &x_leaves, options.length);
    if trace::jit_disabled() && !trace::is_tracing() && length > 0 {
        return step_by_step(caller, f, init, xs, ScanOptions { length: Some(length), ..options });
    }
    let mut carry = leaves_of(init);
    let closure = loop {
        let elements = x_leaves.iter().map(|x| x.aval().with_shape(x.shape().remove(0)));
        let avals: Vec<Aval> = avals_of(&carry).into_iter().chain(elements).collect();
        let closure = close(caller.scope.clone(), avals, |mut leaves| {
            let x = leaves.split_off(carry.len());
            f(rebuild(init, leaves), rebuild(xs, x))
        });
        match promoted_carry(caller, init, &carry, &closure.template.0) {
            Some(promoted) => carry = promoted,
            None => break closure.levelled(&carry),
        }
    };
    let options = ScanOptions { length: Some(length), ..options };
    let outputs = apply(&closure, carry, &x_leaves, options, caller.loc);
    rebuild(&closure.template, outputs)
}

/// Binds the scan, without what the body only hands through: a carry that never changes is a constant,
/// and an output that is an element is the array it came from.
fn apply<O>(
    closure: &Closure<O>,
    carry: Vec<Array>,
    xs: &[Array],
    options: ScanOptions,
    loc: Loc,
) -> Vec<Array> {
    let program = &closure.program;
    let (n_captures, n_carry) = (closure.captures.len(), carry.len());
    let (inputs, outputs) = (program.inputs(), program.outputs());
    let x_of = |var: u32| inputs[n_captures + n_carry..].iter().position(|&input| input == var);
    let through: Vec<Option<&Array>> = outputs
        .iter()
        .enumerate()
        .map(|(at, &output)| match at < n_carry {
            true => (inputs[n_captures + at] == output).then(|| &carry[at]),
            false => x_of(output).map(|x| &xs[x]),
        })
        .collect();
    let is_constant = |at: &usize| through[*at].is_some();
    let (fixed, moving): (Vec<usize>, Vec<usize>) = (0..n_carry).partition(is_constant);
    let order: Vec<usize> = (0..n_captures)
        .chain(fixed.iter().chain(&moving).map(|at| n_captures + at))
        .chain(n_captures + n_carry..inputs.len())
        .collect();
    let wanted: Vec<u32> =
        outputs.iter().zip(&through).filter(|(_, x)| x.is_none()).map(|(&var, _)| var).collect();
    let scan = Scan {
        length: options.length.expect("the caller found the length"),
        reverse: options.reverse,
        unroll: options.unroll,
        n_consts: n_captures + fixed.len(),
        n_carry: moving.len(),
        body: Arc::new(program.with_outputs(&wanted).permute_inputs(&order)),
    };
    let operands: Vec<&Array> = closure
        .captures
        .iter()
        .chain(fixed.iter().chain(&moving).map(|&at| &carry[at]))
        .chain(xs)
        .collect();
    let found = match wanted.is_empty() && scan.effects() == crate::core::Effects::None {
        true => Vec::new(),
        false => {
            let scan: Arc<dyn Primitive> = Arc::new(scan);
            trace::bind_at(&scan, &operands, loc)
        }
    };
    let mut found = found.into_iter();
    let result = |through: &Option<&Array>| match through {
        Some(array) => (*array).clone(),
        None => found.next().expect("one result per wanted output"),
    };
    through.iter().map(result).collect()
}

/// How many elements the arrays have along their first axis, or how many steps were asked for.
pub(in crate::control_flow) fn common_length<X: Tree>(
    caller: &Caller,
    xs: &X,
    leaves: &[Array],
    length: Option<usize>,
) -> usize {
    let &Caller { name, loc, .. } = caller;
    let structure = TreeDef::of(xs);
    let each = || structure.paths().iter().zip(leaves);
    if let Some((path, x)) = each().find(|(_, x)| x.rank() == 0) {
        let message = format!("{name}: {} has no axis to go along", x.aval());
        let help = "capture in the closure what is the same in every step".into();
        throw_tree(path, message, Some(help), loc);
    }
    let first = each().next().map(|(path, x)| (format!("{} has", rooted(path)), x.shape()[0]));
    let Some((whose, expected)) = length.map(|n| ("the length is".into(), n)).or(first) else {
        let message = "there is nothing to go along, so the number of steps is unknown";
        trace::throw(trace::op_error(OpErrorKind::Value, name, message, loc).with_help(
            "give `ScanOptions { length: Some(n), ..ScanOptions::default() }` to `scan_with`",
        ));
    };
    if let Some((path, x)) = each().find(|(_, x)| x.shape()[0] != expected) {
        let message = format!(
            "{name}: lengths differ: {} has {}, {whose} {expected}",
            x.aval(),
            x.shape()[0]
        );
        throw_tree(path, message, None, loc);
    }
    expected
}

/// Runs the closure itself, on concrete arrays, for `disable_jit`.
fn step_by_step<C: Tree, X: Tree, Y: Tree, F: Fn(C, X) -> (C, Y)>(
    caller: &Caller,
    f: &F,
    init: &C,
    xs: &X,
    options: ScanOptions,
) -> (C, Y) {
    let length = options.length.expect("the caller found the length");
    let x_leaves = leaves_of(xs);
    let mut carry = rebuild(init, leaves_of(init));
    let mut steps = Vec::with_capacity(length);
    let mut last = None;
    for step in 0..length {
        let index = if options.reverse { length - 1 - step } else { step };
        let x = elements(&x_leaves, index).unwrap_or_else(|error| trace::throw(error));
        let leaves = leaves_of(&carry);
        let (next, y) = f(rebuild(init, leaves.clone()), rebuild(xs, x));
        promoted_carry(caller, init, &leaves, &next);
        carry = next;
        steps.push(leaves_of(&y));
        last = Some(y);
    }
    if options.reverse {
        steps.reverse();
    }
    let template = last.expect("there was a step");
    let avals = avals_of(&steps[0]);
    (carry, caller.loc.scope(|| rebuild(&template, stacked(&steps, &avals))))
}

/// The elements of concrete arrays at `index` along their first axis.
pub(super) fn elements(xs: &[Array], index: usize) -> Result<Vec<Array>, Error> {
    let at = |index: usize| Array::from_slice(&[index as i64], Shape::scalar());
    let (index, zero) = (at(index)?, at(0)?);
    let each = xs.iter().map(|x| {
        let mut slice_sizes = x.shape().to_vec();
        slice_sizes[0] = 1;
        let zeros = std::iter::repeat_n(&zero, x.rank() - 1);
        let operands: Vec<&Array> = [x, &index].into_iter().chain(zeros).collect();
        let slice = bind(DynamicSlice { slice_sizes }, &operands).swap_remove(0);
        reshape_to(&slice, &x.shape().remove(0))
    });
    Ok(each.collect())
}

/// What the steps gave, each output stacked along a new first axis; of the given types if there was no
/// step.
pub(super) fn stacked(steps: &[Vec<Array>], avals: &[Aval]) -> Vec<Array> {
    let each = avals.iter().enumerate().map(|(at, aval)| {
        let row = |step: &Vec<Array>| reshape_to(&step[at], &aval.shape.insert(0, 1));
        let rows: Vec<Array> = steps.iter().map(row).collect();
        match rows.is_empty() {
            true => zeros_of(&aval.with_shape(aval.shape.insert(0, 0))),
            false => concatenate(&rows, 0),
        }
    });
    each.collect()
}
