//! `associative_scan`: all partial results of an associative operation, in logarithmic depth.

use super::closure::{Caller, avals_of, throw_tree};
use crate::core::{Array, Loc, OpErrorKind, trace};
use crate::primitives::rules::resolve_axis;
use crate::primitives::{concatenate, reshape_to, rev, slice_in_dim};
use crate::transforms::staging::staged;
use crate::tree::{Arg, Difference, Tree, TreeDef, leaves_of, rebuild, rooted};

/// How [`associative_scan_with`] goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AssociativeScanOptions {
    /// Whether to combine from the last element to the first.
    pub reverse: bool,
    /// The axis to go along; negative ones count from the back.
    pub axis: isize,
}

/// The elements along the first axis combined with all before them: `x0`, `f(x0, x1)`,
/// `f(f(x0, x1), x2)`, ….
///
/// `f` must be associative, and combines many elements at once: it gets two trees whose leaves have
/// the axis still, of equal but varying lengths, and gives a tree of those types. Takes a number of steps
/// that grows with the logarithm of the length (Blelloch's algorithm), where [`scan`](super::scan())
/// takes one step per element.
///
/// Throws `Tree`, naming the leaf, if lengths differ or `f` changes a type, and whatever `f` throws.
///
/// Reference: Guy E. Blelloch, "Prefix Sums and Their Applications", 1990.
///
/// ```
/// use oxidax::prelude::*;
/// let sums = |x: Array| associative_scan(|a: Array, b: Array| a + b, x);
/// assert_eq!(eval_shape(sums, Aval::new(DType::F32, [5]))?.shape().dims(), [5]);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn associative_scan<T: Tree, F: Fn(T, T) -> T>(f: F, elems: impl Arg<T>) -> T {
    let caller = Caller::of::<F>("associative_scan", Loc::caller());
    run(&caller, &f, elems.tree(), AssociativeScanOptions::default())
}

/// As [`associative_scan`], along any axis and in either direction.
///
/// Throws as [`associative_scan`] does, also if there is no such axis.
///
/// ```
/// use oxidax::prelude::*;
/// let maxima = |x: Array| {
///     let options = AssociativeScanOptions { reverse: true, axis: -1 };
///     associative_scan_with(|a: Array, b: Array| maximum(&a, &b), x, options)
/// };
/// assert_eq!(eval_shape(maxima, Aval::new(DType::F32, [2, 5]))?.shape().dims(), [2, 5]);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn associative_scan_with<T: Tree, F: Fn(T, T) -> T>(
    f: F,
    elems: impl Arg<T>,
    options: AssociativeScanOptions,
) -> T {
    let caller = Caller::of::<F>("associative_scan", Loc::caller());
    run(&caller, &f, elems.tree(), options)
}

fn run<T: Tree>(
    caller: &Caller,
    f: &dyn Fn(T, T) -> T,
    elems: &T,
    options: AssociativeScanOptions,
) -> T {
    let leaves = leaves_of(elems);
    let axes = checked_axes(caller, elems, &leaves, options.axis);
    staged(|| {
        caller.loc.scope(|| {
            let levels = Levels { caller, f, template: elems, axes: &axes };
            let reversed = |leaves: Vec<Array>| -> Vec<Array> {
                match options.reverse {
                    true => leaves.iter().zip(&axes).map(|(x, &a)| rev(x, &[a as isize])).collect(),
                    false => leaves,
                }
            };
            let scanned = reversed(levels.scan(reversed(leaves)));
            rebuild(elems, scanned)
        })
    })
}

/// The axis of each leaf, along which all are equally long.
fn checked_axes<T: Tree>(caller: &Caller, elems: &T, leaves: &[Array], axis: isize) -> Vec<usize> {
    let &Caller { name, loc, .. } = caller;
    let structure = TreeDef::of(elems);
    let Some((first, _)) = leaves.split_first() else {
        let message = "there is nothing to go along: the tree has no leaves".into();
        trace::throw_op(OpErrorKind::Value, name, message, loc);
    };
    let resolved = leaves.iter().zip(structure.paths()).map(|(x, path)| {
        resolve_axis(axis, x.rank()).unwrap_or_else(|error| {
            throw_tree(path, format!("{name}: {}", error.message), None, loc)
        })
    });
    let axes: Vec<usize> = resolved.collect();
    let length = first.shape()[axes[0]];
    for ((x, &at), path) in leaves.iter().zip(&axes).zip(structure.paths()) {
        if x.shape()[at] != length {
            let message = format!(
                "{name}: lengths differ: axis {axis} of {} is {}, that of {} is {length}",
                x.aval(),
                x.shape()[at],
                rooted(&structure.paths()[0])
            );
            throw_tree(path, message, None, loc);
        }
    }
    axes
}

/// What every level of the recursion needs.
struct Levels<'a, T> {
    caller: &'a Caller,
    f: &'a dyn Fn(T, T) -> T,
    template: &'a T,
    axes: &'a [usize],
}

impl<T: Tree> Levels<'_, T> {
    fn combine(&self, a: Vec<Array>, b: Vec<Array>) -> Vec<Array> {
        let avals = avals_of(&a);
        let c = (self.f)(rebuild(self.template, a), rebuild(self.template, b));
        let &Caller { name, loc, .. } = self.caller;
        let structure = TreeDef::of(self.template);
        if let Some(Difference { path: place, a, b }) = structure.difference(&TreeDef::of(&c)) {
            let message = format!("{name}: the function takes {a} here and gives {b}");
            throw_tree(&place, message, None, loc);
        }
        let c = leaves_of(&c);
        for ((c, aval), path) in c.iter().zip(&avals).zip(structure.paths()) {
            if !c.aval().same_type(aval) {
                let message =
                    format!("{name}: the function takes {aval} here and gives {}", c.aval());
                let help = "it combines many elements at once: leave the axis as it is";
                throw_tree(path, message, Some(help.into()), loc);
            }
        }
        c
    }

    /// Every `stride`th element from `start` to before `stop`.
    fn part(&self, xs: &[Array], start: usize, stop: usize, stride: usize) -> Vec<Array> {
        let each = xs.iter().zip(self.axes);
        let slice = |(x, &axis): (&Array, &usize)| {
            slice_in_dim(x, start as isize, stop as isize, stride, axis as isize)
        };
        each.map(slice).collect()
    }

    /// Results at odd places are those of half as many elements, each combined of two; those at even
    /// places take one element more.
    fn scan(&self, xs: Vec<Array>) -> Vec<Array> {
        let n = xs[0].shape()[self.axes[0]];
        if n < 2 {
            return xs;
        }
        let pairs = self.combine(self.part(&xs, 0, n - 1, 2), self.part(&xs, 1, n, 2));
        let odd = self.scan(pairs);
        let n_odd = n / 2;
        let first = self.part(&xs, 0, 1, 1);
        if n == 2 {
            return self.joined(&first, &odd);
        }
        let before = match n % 2 {
            0 => self.part(&odd, 0, n_odd - 1, 1),
            _ => odd.clone(),
        };
        let even = self.combine(before, self.part(&xs, 2, n, 2));
        let even = self.joined(&first, &even);
        self.interleaved(&even, &odd, n)
    }

    fn joined(&self, a: &[Array], b: &[Array]) -> Vec<Array> {
        let pairs = a.iter().zip(b).zip(self.axes);
        pairs.map(|((a, b), &axis)| concatenate(&[a, b], axis as isize)).collect()
    }

    /// Elements of `even` and `odd` in turn; `n` in all.
    fn interleaved(&self, even: &[Array], odd: &[Array], n: usize) -> Vec<Array> {
        let n_odd = n / 2;
        let pairs: Vec<Array> = self
            .part(even, 0, n_odd, 1)
            .iter()
            .zip(odd)
            .zip(self.axes)
            .map(|((a, b), &axis)| {
                let column = a.shape().insert(axis + 1, 1);
                let both = [reshape_to(a, &column), reshape_to(b, &column)];
                let pairs = concatenate(&both, axis as isize + 1);
                reshape_to(&pairs, &a.shape().remove(axis).insert(axis, 2 * n_odd))
            })
            .collect();
        match n % 2 {
            0 => pairs,
            _ => self.joined(&pairs, &self.part(even, n_odd, n_odd + 1, 1)),
        }
    }
}
