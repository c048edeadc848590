//! `map`: a function of every element, one after the other or a few at a time.

use super::closure::{Caller, avals_of, close};
use super::scan::{self, ScanOptions};
use crate::core::{Array, BatchAxis, OpErrorKind, trace};
use crate::primitives::rules::batch_at;
use crate::primitives::{concatenate, reshape_to, slice_in_dim};
use crate::transforms::batch::batch_program;
use crate::transforms::staging::staged;
use crate::tree::{Arg, Tree, leaves_of, rebuild};
use std::panic::Location;

/// `f` of every element of `xs` along the first axis, one after the other; results are stacked.
///
/// As [`vmap`](crate::transforms::vmap()), but it takes the memory of one element at a time. Derivatives go
/// through in both directions.
///
/// Throws `Tree`, naming the leaf, if the elements are not equally many, `Op` (value) if `xs` has no
/// leaves, and whatever `f` throws.
///
/// ```
/// use oxidax::prelude::*;
/// let norms = |rows: Array| map(|row: Array| (&row * &row).sum(), rows);
/// assert_eq!(eval_shape(norms, Aval::new(DType::F32, [8, 3]))?.shape().dims(), [8]);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn map<X: Tree, Y: Tree, F: Fn(X) -> Y>(f: F, xs: impl Arg<X>) -> Y {
    let caller = Caller::of::<F>("map", Location::caller());
    let step = |(), x: X| ((), f(x));
    scan::run(&caller, &step, &(), xs.tree(), ScanOptions::default()).1
}

/// As [`map`], `batch_size` elements at a time, vectorized; the last time, what is left.
///
/// Throws as [`map`] does, and `Op` (value) if `batch_size` is 0.
///
/// ```
/// use oxidax::prelude::*;
/// let norms = |rows: Array| map_batched(|row: Array| (&row * &row).sum(), rows, 3);
/// assert_eq!(eval_shape(norms, Aval::new(DType::F32, [8, 3]))?.shape().dims(), [8]);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn map_batched<X: Tree, Y: Tree, F: Fn(X) -> Y>(f: F, xs: impl Arg<X>, batch_size: usize) -> Y {
    let caller = Caller::of::<F>("map_batched", Location::caller());
    let xs = xs.tree();
    if batch_size == 0 {
        let message = "batch_size must be at least 1, got 0".into();
        trace::throw_op(OpErrorKind::Value, caller.name, message, caller.location);
    }
    let leaves = leaves_of(xs);
    let length = scan::common_length(&caller, xs, &leaves, None);
    let whole = length / batch_size * batch_size;
    let vectorized = |leaves: &[Array], size: usize| -> Y {
        let elements = leaves.iter().map(|x| x.aval().with_shape(x.shape().remove(0)));
        let closure = close(caller.scope.clone(), elements, |leaves| f(rebuild(xs, leaves)));
        let axes: Vec<Option<usize>> = std::iter::repeat_n(None, closure.captures.len())
            .chain(std::iter::repeat_n(Some(0), leaves.len()))
            .collect();
        let axis = BatchAxis::new(size);
        let operands = [&closure.captures, leaves].concat();
        let (outputs, axes) = batch_program(&closure.program, &operands, &axes, &axis);
        let placed = outputs.iter().zip(axes).map(|(x, at)| batch_at(x, at, 0, &axis));
        rebuild(&closure.template, placed.collect())
    };
    staged(|| {
        let part = |x: &Array, from: usize, to: usize| match (from, to) {
            (0, to) if to == length => x.clone(),
            (from, to) => slice_in_dim(x, from as isize, to as isize, 1, 0),
        };
        let rest = || {
            let leaves: Vec<Array> = leaves.iter().map(|x| part(x, whole, length)).collect();
            vectorized(&leaves, length - whole)
        };
        if whole == 0 {
            return rest();
        }
        let batches = leaves.iter().map(|x| {
            let shape = x.shape().remove(0).insert(0, batch_size).insert(0, whole / batch_size);
            reshape_to(&part(x, 0, whole), &shape)
        });
        let batches = rebuild(xs, batches.collect());
        let step = |(), x: X| ((), vectorized(&leaves_of(&x), batch_size));
        let ys: Y = scan::run(&caller, &step, &(), &batches, ScanOptions::default()).1;
        let flat = leaves_of(&ys).into_iter().map(|y| {
            let shape = y.shape().remove(0).remove(0).insert(0, whole);
            reshape_to(&y, &shape)
        });
        let flat: Vec<Array> = flat.collect();
        if whole == length {
            return rebuild(&ys, flat);
        }
        let rest = leaves_of(&rest());
        debug_assert_eq!(avals_of(&rest).len(), flat.len(), "one function gave both");
        let joined = flat.iter().zip(&rest).map(|(a, b)| concatenate(&[a, b], 0));
        rebuild(&ys, joined.collect())
    })
}
