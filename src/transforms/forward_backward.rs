//! `fwd_and_bwd`: reverse mode in two functions.

use super::vjp::{Vjp, vjp_staged};
use crate::core::Loc;
use crate::tree::{Function, PrimalArgs};

/// Returns the forward and the backward pass of `f` as two functions.
///
/// The forward pass maps the arguments to the value of `f` and its pullback. For a function of
/// several arguments, it takes them as one tuple. The backward pass maps the pullback and the
/// cotangent of the value to the cotangents of all arguments. A [`Vjp`] is a tree of its residuals,
/// so each pass can be compiled on its own, for example to overlap the backward pass of one
/// microbatch with the forward pass of the next.
///
/// ```
/// use oxidax::prelude::*;
/// let f = |x: &Array, w: &Array| sin(x) * w;
/// let (forward, backward) = fwd_and_bwd(f);
/// let (forward, backward) = (jit(forward), jit(backward));
/// let (y, pullback) = forward.call((ones([3]), full([3], 2.0)))?;
/// let (dx, dw) = backward.call(pullback, ones_like(&y))?;
/// assert_eq!(dx.to_vec::<f32>()?, [2.0 * 1f32.cos(); 3]);
/// assert_eq!(dw.to_vec::<f32>()?, [1f32.sin(); 3]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
#[expect(clippy::type_complexity, reason = "the types of two functions")]
pub fn fwd_and_bwd<'f, A: PrimalArgs + 'f, M: 'f, F: Function<A, M> + Send + Sync + 'f>(
    f: F,
) -> (
    impl Fn(A::Primals) -> (F::Output, Vjp<A::Primals, F::Output>) + Send + Sync + 'f,
    impl Fn(Vjp<A::Primals, F::Output>, F::Output) -> A::Primals + Send + Sync,
) {
    let loc = Loc::caller();
    let scope = format!("vjp({})", f.name());
    let forward = move |primals: A::Primals| {
        let f = |primals| (f.apply(A::from_primals(primals)), ());
        let (outputs, (), pullback) = vjp_staged(scope.clone(), f, &primals, loc);
        (outputs, pullback)
    };
    (forward, |pullback: Vjp<A::Primals, F::Output>, cotangents| pullback(&cotangents))
}
