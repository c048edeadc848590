//! The multinomial distribution: how often each of several outcomes of probabilities `p` occurs among `n`
//! trials.

use super::super::special::xlogy;
use crate::core::Array;
use crate::primitives::{
    ArrayLike, add, convert_element_type, eq, exp, full_like, inexact, lgamma, promote_inexact,
    sub, where_,
};

/// `log(n!) + Σ (xᵢ log(pᵢ) - log(xᵢ!))` along the last axis, `-inf` where the counts do not sum to `n`.
///
/// ```
/// use oxidax::prelude::*;
/// let (x, p) = (Aval::new(DType::I32, [8, 3]), Aval::new(DType::F32, [3]));
/// let y = eval_shape(|x: Array, p: Array| stats::multinomial::logpmf(&x, 5, &p), (x, p))?;
/// assert_eq!(y.aval().to_string(), "f32[8]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn logpmf(x: &Array, n: impl ArrayLike, p: &Array) -> Array {
    let [x, p] = promote_inexact("multinomial::logpmf", [x.like(), p.like()]);
    let [n] = promote_inexact("multinomial::logpmf", [n.like()]);
    let n = convert_element_type(&inexact(&n), x.dtype());
    let each = sub(xlogy(&x, &p), lgamma(&add(&x, 1.0)));
    let inside = add(lgamma(&add(&n, 1.0)), each.sum_axes(-1));
    where_(&eq(x.sum_axes(-1), n), &inside, full_like(&inside, f64::NEG_INFINITY))
}

/// The mass: the exponential of [`logpmf`].
#[track_caller]
pub fn pmf(x: &Array, n: impl ArrayLike, p: &Array) -> Array {
    exp(&logpmf(x, n, p))
}
