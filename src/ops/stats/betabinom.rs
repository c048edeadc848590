//! The beta-binomial distribution: successes among `n` trials whose probability is beta distributed with
//! shapes `a` and `b`, moved by `loc`.

use super::super::special::betaln;
use super::counting::whole;
use crate::core::Array;
use crate::primitives::{
    ArrayLike, add, exp, full_like, le, log, neg, promote_inexact, sub, where_,
};

/// `log C(n, k) + log B(k + a, n - k + b) - log B(a, b)` for whole `k - loc` between 0 and `n`.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| stats::betabinom::logpmf(&x, 10, 2.0, 3.0, 0), Aval::new(DType::F32, [3]))?;
/// assert_eq!(y.aval().to_string(), "f32[3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn logpmf(
    k: impl ArrayLike,
    n: impl ArrayLike,
    a: impl ArrayLike,
    b: impl ArrayLike,
    loc: impl ArrayLike,
) -> Array {
    let [k, n, a, b, loc] =
        promote_inexact("betabinom::logpmf", [k.like(), n.like(), a.like(), b.like(), loc.like()]);
    let (k, fine) = whole(&sub(k, loc));
    let fine = fine & le(&k, &n);
    let k = where_(&fine, &k, full_like(&k, 0));
    let rest = sub(&n, &k);
    let ways = neg(&add(log(&add(&n, 1.0)), betaln(add(&rest, 1.0), add(&k, 1.0))));
    let inside = add(ways, sub(betaln(add(&k, &a), add(rest, &b)), betaln(&a, &b)));
    where_(&fine, inside, full_like(&k, f64::NEG_INFINITY))
}

/// The mass: the exponential of [`logpmf`].
#[track_caller]
pub fn pmf(
    k: impl ArrayLike,
    n: impl ArrayLike,
    a: impl ArrayLike,
    b: impl ArrayLike,
    loc: impl ArrayLike,
) -> Array {
    exp(&logpmf(k, n, a, b, loc))
}
