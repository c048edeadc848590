//! The binomial distribution: successes of probability `p` among `n` trials, moved by `loc`.

use super::super::special::{xlog1py, xlogy};
use super::counting::whole;
use crate::core::Array;
use crate::primitives::{
    ArrayLike, add, exp, full_like, le, lgamma, neg, promote_inexact, sub, where_,
};

/// `log C(n, k) + k log(p) + (n - k) log(1 - p)` for whole `k - loc` between 0 and `n`.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| stats::binom::logpmf(&x, 10, 0.3, 0), Aval::new(DType::F32, [3]))?;
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
        promote_inexact("binom::logpmf", [k.like(), n.like(), p.like(), loc.like()]);
    let (k, fine) = whole(&sub(k, loc));
    let fine = fine & le(&k, &n);
    let k = where_(&fine, &k, full_like(&k, 0));
    let rest = sub(&n, &k);
    let ways = sub(sub(lgamma(&add(&n, 1.0)), lgamma(&add(&k, 1.0))), lgamma(&add(&rest, 1.0)));
    let inside = add(add(ways, xlogy(&k, &p)), xlog1py(rest, neg(&p)));
    where_(&fine, inside, full_like(&k, f64::NEG_INFINITY))
}

/// The mass: the exponential of [`logpmf`].
#[track_caller]
pub fn pmf(k: impl ArrayLike, n: impl ArrayLike, p: impl ArrayLike, loc: impl ArrayLike) -> Array {
    exp(&logpmf(k, n, p, loc))
}
