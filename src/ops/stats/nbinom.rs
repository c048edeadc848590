//! The negative binomial distribution: failures before `n` successes of probability `p`, moved by `loc`.

use super::super::special::{xlog1py, xlogy};
use super::counting::whole;
use crate::core::Array;
use crate::primitives::{
    ArrayLike, add, exp, full_like, lgamma, neg, promote_inexact, sub, where_,
};

/// `log C(n + k - 1, k) + n log(p) + k log(1 - p)` for whole `k - loc` of 0 and more.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| stats::nbinom::logpmf(&x, 4, 0.3, 0), Aval::new(DType::F32, [3]))?;
/// assert_eq!(y.aval().to_string(), "f32[3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn logpmf(
    k: impl ArrayLike,
    n: impl ArrayLike,
    p: impl ArrayLike,
    loc: impl ArrayLike,
) -> Array {
    let [k, n, p, loc] =
        promote_inexact("nbinom::logpmf", [k.like(), n.like(), p.like(), loc.like()]);
    let (k, fine) = whole(&sub(k, loc));
    let ways = sub(sub(lgamma(&add(&k, &n)), lgamma(&n)), lgamma(&add(&k, 1.0)));
    let inside = add(add(ways, xlogy(&n, &p)), xlog1py(&k, neg(&p)));
    where_(&fine, inside, full_like(&k, f64::NEG_INFINITY))
}

/// The mass: the exponential of [`logpmf`].
#[track_caller]
pub fn pmf(k: impl ArrayLike, n: impl ArrayLike, p: impl ArrayLike, loc: impl ArrayLike) -> Array {
    exp(&logpmf(k, n, p, loc))
}
