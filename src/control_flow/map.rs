//! `map`: applies a function to each element, one after the other or several at a time.

use super::closure::CallSite;
use super::scan::{self, ScanOptions};
use crate::core::{Array, BatchAxis, Loc, OpErrorKind, trace};
use crate::primitives::rules::batch_at_front;
use crate::primitives::{concatenate, reshape_to, slice_in_dim};
use crate::transforms::batch::batch_program;
use crate::transforms::staging::staged;
use crate::tree::{Arg, Function, Tree, leaves_of, rebuild};

/// Applies `f` to each element of `xs` along the first axis, one after the other. Results are
/// stacked.
///
/// Computes the same as [`vmap`](crate::transforms::vmap()) in the memory of one element at a time.
/// Both forward and reverse derivatives are supported.
///
/// Throws `Tree`, naming the leaf, if the leaves of `xs` differ in length, `Op` (value) if `xs` has
/// no leaves, and whatever `f` throws.
///
/// ```
/// use oxidax::prelude::*;
/// let norms = |rows: Array| map(|row: Array| (&row * &row).sum(), rows);
/// assert_eq!(eval_shape(norms, Aval::new(DType::F32, [8, 3]))?.shape().dims(), [8]);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn map<X: Tree, M, F: Function<(X,), M>>(f: F, xs: impl Arg<X>) -> F::Output {
    map_with(f, xs, MapOptions::default())
}

/// Options of [`map_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapOptions {
    /// The number of elements that are vectorized together. By default elements are computed one
    /// after the other.
    pub batch_size: Option<usize>,
}

/// As [`map`], with options. If the length is not a multiple of the batch size, the last batch is
/// smaller.
///
/// Throws as [`map`] does, and `Op` (value) if `batch_size` is 0.
///
/// ```
/// use oxidax::prelude::*;
/// let options = MapOptions { batch_size: Some(3) };
/// let norms = move |rows: Array| map_with(|row: Array| (&row * &row).sum(), rows, options);
/// assert_eq!(eval_shape(norms, Aval::new(DType::F32, [8, 3]))?.shape().dims(), [8]);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn map_with<X: Tree, M, F: Function<(X,), M>>(
    f: F,
    xs: impl Arg<X>,
    options: MapOptions,
) -> F::Output {
    let site = CallSite::of("map", &f.name(), Loc::caller());
    let f = |x: X| f.apply((x,));
    let xs = &*xs.hold();
    let Some(batch_size) = options.batch_size else { return map_elements(&site, &f, xs) };
    if batch_size == 0 {
        let message = "batch_size must be at least 1, got 0".into();
        trace::throw_op(OpErrorKind::Value, site.name, message, site.loc);
    }
    let leaves = leaves_of(xs);
    let length = scan::common_length(&site, xs, &leaves, None);
    let map = BatchedMap { site: &site, f: &f, template: xs, leaves: &leaves, length, batch_size };
    staged(|| map.run())
}

fn map_elements<X: Tree, Y: Tree, F: Fn(X) -> Y>(site: &CallSite, f: &F, xs: &X) -> Y {
    let step = |(), x: X| ((), f(x));
    scan::run(site, &step, &(), xs, ScanOptions::default()).1
}

/// A map over batches of `batch_size` elements.
struct BatchedMap<'a, X, F> {
    site: &'a CallSite,
    f: &'a F,
    template: &'a X,
    leaves: &'a [Array],
    length: usize,
    batch_size: usize,
}

impl<X: Tree, F> BatchedMap<'_, X, F> {
    /// Scans over the full batches, and computes the remaining elements as one batch.
    fn run<Y: Tree>(&self) -> Y
    where
        F: Fn(X) -> Y,
    {
        let n_full = self.length / self.batch_size * self.batch_size;
        if n_full == 0 {
            return self.vectorized(self.leaves, self.length);
        }
        let n_batches = n_full / self.batch_size;
        let mut batches = Vec::with_capacity(self.leaves.len());
        for x in self.leaves {
            let shape = x.shape().remove(0).insert(0, self.batch_size).insert(0, n_batches);
            batches.push(reshape_to(&self.slice(x, 0, n_full), &shape));
        }
        let batches = rebuild(self.template, batches);
        let step = |(), x: X| ((), self.vectorized(&leaves_of(&x), self.batch_size));
        let ys: Y = scan::run(self.site, &step, &(), &batches, ScanOptions::default()).1;
        let mut outputs = leaves_of(&ys);
        for y in &mut outputs {
            *y = reshape_to(y, &y.shape().remove(0).remove(0).insert(0, n_full));
        }
        if n_full < self.length {
            let rest: Vec<Array> =
                self.leaves.iter().map(|x| self.slice(x, n_full, self.length)).collect();
            let rest: Y = self.vectorized(&rest, self.length - n_full);
            for (y, rest) in outputs.iter_mut().zip(leaves_of(&rest)) {
                *y = concatenate([&*y, &rest], 0);
            }
        }
        rebuild(&ys, outputs)
    }

    fn slice(&self, x: &Array, start: usize, stop: usize) -> Array {
        if stop - start == self.length {
            return x.clone();
        }
        slice_in_dim(x, start as isize, stop as isize, 1, 0)
    }

    /// Applies the function to a batch of `size` elements.
    fn vectorized<Y: Tree>(&self, leaves: &[Array], size: usize) -> Y
    where
        F: Fn(X) -> Y,
    {
        let elements = leaves.iter().map(|x| x.aval().without_axis(0));
        let f = |leaves| (self.f)(rebuild(self.template, leaves));
        let closure = self.site.close(elements, f);
        let mut axes = vec![None; closure.captures.len()];
        axes.resize(axes.len() + leaves.len(), Some(0));
        let axis = BatchAxis::new(size);
        let operands = [&closure.captures, leaves].concat();
        let (outputs, axes) = batch_program(&closure.program, &operands, &axes, &axis);
        rebuild(&closure.template, batch_at_front(&outputs, &axes, &axis))
    }
}
