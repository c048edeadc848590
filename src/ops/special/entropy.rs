//! Entropies and related functions.

use crate::core::Array;
use crate::primitives::{
    ArrayLike, add, div, eq, full_like, gt, inexact, log, log1p, lt, mul, neg, promote_inexact,
    sub, where_, zeros_like,
};

/// Returns `x * log(y)`, which is 0 where `x` is 0, with promotion and broadcasting.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| special::xlogy(&x, &x), Aval::new(DType::F32, [3]))?;
/// assert_eq!(y.aval().to_string(), "f32[3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn xlogy(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    let [x, y] = promote_inexact("xlogy", [x.like(), y.like()]);
    let is_finite = if y.dtype().is_complex() {
        !eq(&y, zeros_like(&y))
    } else {
        gt(&y, zeros_like(&y)) & lt(&y, full_like(&y, f64::INFINITY))
    };
    // Where the logarithm is finite the product is 0 anyway and has the right derivative.
    let is_replaced = eq(&x, zeros_like(&x)) & !is_finite;
    mul(&x, log(where_(&is_replaced, full_like(&y, 1), &y)))
}

/// Returns `x * log(1 + y)`, which is 0 where `x` is 0, with promotion and broadcasting.
#[track_caller]
pub fn xlog1py(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    let [x, y] = promote_inexact("xlog1py", [x.like(), y.like()]);
    let is_finite = if y.dtype().is_complex() {
        !eq(&y, full_like(&y, -1))
    } else {
        gt(&y, full_like(&y, -1)) & lt(&y, full_like(&y, f64::INFINITY))
    };
    let is_replaced = eq(&x, zeros_like(&x)) & !is_finite;
    mul(&x, log1p(where_(&is_replaced, zeros_like(&y), &y)))
}

/// Returns `-x * log(x)` in nats: 0 at 0, `-inf` for negative `x`. Integers become floats.
#[track_caller]
pub fn entr(x: impl ArrayLike) -> Array {
    #[track_caller]
    fn of(x: &Array) -> Array {
        let x = inexact(x);
        let negative = lt(&x, zeros_like(&x));
        let safe = where_(&negative, full_like(&x, 1), &x);
        where_(&negative, full_like(&x, f64::NEG_INFINITY), neg(xlogy(&safe, &safe)))
    }
    of(&x.to_array())
}

/// Returns `x * log(x / y)` in nats. The sum is the relative entropy of two distributions.
///
/// It is 0 where `x` is 0 and `y` is not negative, and `inf` where either is negative or only `y`
/// is 0.
#[track_caller]
pub fn rel_entr(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    let [x, y] = promote_inexact("rel_entr", [x.like(), y.like()]);
    let zero = zeros_like(&x);
    let are_positive = gt(&x, &zero) & gt(&y, &zero);
    let is_zero = eq(&x, &zero) & !lt(&y, &zero);
    let one = full_like(&x, 1);
    let (safe_x, safe_y) = (where_(&are_positive, &x, &one), where_(&are_positive, &y, &one));
    let value = mul(&safe_x, log(div(&safe_x, &safe_y)));
    let otherwise = where_(&is_zero, &zero, full_like(&x, f64::INFINITY));
    let result = where_(&are_positive, value, otherwise);
    let is_nan = super::super::isnan(&x) | super::super::isnan(&y);
    where_(&is_nan, full_like(&x, f64::NAN), result)
}

/// Returns `x * log(x / y) - x + y` in nats, which is convex and not negative.
#[track_caller]
pub fn kl_div(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    let [x, y] = promote_inexact("kl_div", [x.like(), y.like()]);
    add(sub(rel_entr(&x, &y), &x), &y)
}
