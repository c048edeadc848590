//! The geometric distribution: how many trials it takes to the first success of probability `p`.

use crate::core::Array;
use crate::primitives::{
    ArrayLike, add, eq, exp, full_like, gt, log, neg, promote_inexact, sub, where_,
};

/// `(k - 1) log(1 - p) + log(p)` for `k` from `loc + 1` on.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| stats::geom::logpmf(&x, 0.3, 0), Aval::new(DType::F32, [3]))?;
/// assert_eq!(y.aval().to_string(), "f32[3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn logpmf(k: impl ArrayLike, p: impl ArrayLike, loc: impl ArrayLike) -> Array {
    let [k, p, loc] = promote_inexact("geom::logpmf", [k.like(), p.like(), loc.like()]);
    let k = sub(k, loc);
    let fine = gt(&k, 0.0) & eq(&k, crate::primitives::floor(&k));
    let failures = where_(&fine, sub(&k, 1.0), full_like(&k, 1));
    let inside = add(super::super::special::xlog1py(failures, neg(&p)), log(&p));
    where_(&fine, inside, full_like(&k, f64::NEG_INFINITY))
}

/// The mass: the exponential of [`logpmf`].
#[track_caller]
pub fn pmf(k: impl ArrayLike, p: impl ArrayLike, loc: impl ArrayLike) -> Array {
    exp(&logpmf(k, p, loc))
}
