//! Functions of arrays that apply to every leaf of a tree.

use crate::core::{Array, Loc};
use crate::primitives;
use crate::tree::{self, Arg, Tree, leaves, unflatten};

/// Returns `x`, which derivatives treat as a constant. `x` is an array or a tree, by value or by
/// reference; see [`StopGradient`](primitives::StopGradient) for the rules.
///
/// ```
/// use oxidax::prelude::*;
/// let loss = |(w, target): &(Array, Array)| (w - stop_gradient(target)).square().sum();
/// let (dw, dtarget) = grad(loss)(&(ones([2]), zeros([2])));
/// assert_eq!(dw.to_vec::<f32>()?, [2.0, 2.0]);
/// assert_eq!(dtarget.to_vec::<f32>()?, [0.0, 0.0]);
/// // A whole tree, as the teacher's parameters are.
/// let fixed = stop_gradient((ones([2]), vec![zeros([3])]));
/// assert_eq!(fixed.1.len(), 1);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "lax.stop_gradient")]
#[track_caller]
pub fn stop_gradient<T: Tree>(x: impl Arg<T>) -> T {
    let x = x.hold();
    Loc::caller().scope(|| tree::map(&*x, |leaf| primitives::stop_gradient(leaf)))
}

/// Returns `x` under a name by which [`Policy::names`](crate::control_flow::Policy::names) selects
/// it to be saved. `x` is an array or a tree, all of whose leaves get the name; see
/// [`Name`](primitives::Name) for the rules.
///
/// ```
/// use oxidax::prelude::*;
/// let block = |x: &Array| {
///     let (a, b) = checkpoint_name((sin(x), cos(x)), "halves");
///     (a * b).sum()
/// };
/// let options = RematOptions { policy: Policy::names(["halves"]), ..Default::default() };
/// let slope = grad(remat_with(block, options))(&ones([2]));
/// assert_eq!(slope.shape().dims(), [2]);
/// ```
#[doc(alias = "ad_checkpoint.checkpoint_name")]
#[track_caller]
pub fn checkpoint_name<T: Tree>(x: impl Arg<T>, name: &str) -> T {
    let x = x.hold();
    Loc::caller().scope(|| tree::map(&*x, |leaf| primitives::checkpoint_name(leaf, name)))
}

/// Returns a tree after all of its arrays were computed. The compiler neither moves nor merges work
/// across this point; see [`OptimizationBarrier`](primitives::OptimizationBarrier) for the rules.
///
/// ```
/// use oxidax::prelude::*;
/// let (x, y) = optimization_barrier((&ones([3]), &arange(2)));
/// assert_eq!((x.size(), y.size()), (3, 2));
/// ```
#[doc(alias = "lax.optimization_barrier")]
#[track_caller]
pub fn optimization_barrier<T: Tree>(operands: impl Arg<T>) -> T {
    let operands = operands.hold();
    let arrays: Vec<Array> = leaves(&*operands);
    let passed = match arrays.is_empty() {
        true => arrays,
        false => Loc::caller().scope(|| primitives::optimization_barrier(&arrays)),
    };
    unflatten(&*operands, passed)
}
