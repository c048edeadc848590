//! Reductions of several arrays over windows.

use crate::core::{Array, Aval, Error, Loc, OpErrorKind, TreeError, trace};
use crate::primitives::{Window, convert_to, reduce_windows};
use crate::tree::{Arg, Tree, TreeDef, expect_alike, leaves_of, rebuild, rooted};

/// Reduces each window over several arrays together by `combine`, an associative function of two
/// trees of arrays, as [`reduce_window`](crate::primitives::reduce_window) does for one array.
///
/// `operands` is a tree of arrays of one shape, and `init` the same tree of scalars of their
/// dtypes. The scalars are combined with each result, and are the result of a window of padding.
/// `combine` computes many elements at once, about `log2` of the window's size times per axis, with
/// earlier elements on its left, and may capture scalars. Every transform applies to it.
///
/// Throws `Tree`, naming the leaf, if `init` or a result of `combine` does not match the operands,
/// and `Op` (shape) if the window does not fit.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::primitives::Window;
/// // The largest element of each pair, and its index.
/// let (x, index) = (array![1.0, 5.0, 2.0, 4.0], iota(DType::I32, 4));
/// let two = Window { dimensions: vec![2], ..Default::default() };
/// let larger = |(a, i): (Array, Array), (b, j): (Array, Array)| {
///     let first = ge(&a, &b);
///     (select(&first, &a, &b), select(&first, &i, &j))
/// };
/// let init = (scalar(f32::NEG_INFINITY), scalar(-1));
/// let (y, at) = reduce_window_multi((&x, &index), init, larger, &two);
/// assert_eq!(y.to_vec::<f32>()?, [5.0, 5.0, 4.0]);
/// assert_eq!(at.to_vec::<i32>()?, [1, 1, 3]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "reduce_window")]
#[track_caller]
pub fn reduce_window_multi<T: Tree>(
    operands: impl Arg<T>,
    init: impl Arg<T>,
    combine: impl Fn(T, T) -> T,
    window: &Window,
) -> T {
    const NAME: &str = "reduce_window";
    let loc = Loc::caller();
    let (operands, init) = (&*operands.hold(), &*init.hold());
    expect_alike(operands, init, loc);
    let (xs, inits) = (leaves_of(operands), leaves_of(init));
    let Some(first) = xs.first() else {
        let message = "there is nothing to reduce: the tree has no leaves".into();
        trace::throw_op(OpErrorKind::Value, NAME, message, loc);
    };
    let structure = TreeDef::of(operands);
    let mut scalars = Vec::with_capacity(inits.len());
    for ((x, init), path) in xs.iter().zip(&inits).zip(structure.paths()) {
        if x.shape() != first.shape() {
            let (own, shape) = (x.aval(), first.shape());
            let message = format!("{own} has another shape than the first, {shape}");
            throw_leaf(path, message, loc);
        }
        if init.rank() != 0 || !(init.dtype() == x.dtype() || init.aval().weak) {
            let message = format!(
                "{} has the initial value {}, which must be a scalar of its dtype",
                x.aval(),
                init.aval()
            );
            throw_leaf(path, message, loc);
        }
        scalars.push(loc.scope(|| convert_to(init, x.dtype(), x.aval().weak)));
    }
    let by_lists = |a: &[Array], b: &[Array]| {
        let result = combine(rebuild(operands, a.to_vec()), rebuild(operands, b.to_vec()));
        expect_alike(operands, &result, loc);
        let mut results = leaves_of(&result);
        for ((y, like), path) in results.iter_mut().zip(a).zip(structure.paths()) {
            *y = converted(y, like.aval()).unwrap_or_else(|| {
                let (taken, given) = (like.aval(), y.aval());
                let message = format!("the function takes {taken} here and gives {given}");
                throw_leaf(path, message, loc)
            });
        }
        results
    };
    rebuild(operands, loc.scope(|| reduce_windows(NAME, &xs, &scalars, &by_lists, window)))
}

/// Returns `y` with the type `aval`; `None` if it has another shape, or a dtype that is not weak.
fn converted(y: &Array, aval: &Aval) -> Option<Array> {
    let fits = y.shape() == &aval.shape && (y.dtype() == aval.dtype || y.aval().weak);
    fits.then(|| convert_to(y, aval.dtype, aval.weak))
}

fn throw_leaf(path: &str, message: String, loc: Loc) -> ! {
    let message = format!("reduce_window: {message}");
    let path = rooted(path);
    trace::throw(Error::Tree(Box::new(TreeError { path, message, loc, help: None })))
}
