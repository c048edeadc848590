//! Products with logarithms that are 0 at 0.

use crate::core::Array;
use crate::primitives::{
    ArrayLike, add, div, eq, full_like, gt, inexact, log, log1p, lt, mul, neg, promote_inexact,
    sub, where_, zeros_like,
};

/// `x * log(y)`, 0 where `x` is 0 whatever `y` is, with promotion and broadcasting.
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
    let fine = match y.dtype().is_complex() {
        true => !eq(&y, zeros_like(&y)),
        false => gt(&y, zeros_like(&y)) & lt(&y, full_like(&y, f64::INFINITY)),
    };
    // Where the logarithm is finite the product is 0 by itself, and has the right derivative.
    let spoilt = eq(&x, zeros_like(&x)) & !fine;
    mul(&x, log(&where_(&spoilt, full_like(&y, 1), &y)))
}

/// `x * log(1 + y)`, 0 where `x` is 0 whatever `y` is, with promotion and broadcasting.
#[track_caller]
pub fn xlog1py(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    let [x, y] = promote_inexact("xlog1py", [x.like(), y.like()]);
    let fine = match y.dtype().is_complex() {
        true => !eq(&y, full_like(&y, -1)),
        false => gt(&y, full_like(&y, -1)) & lt(&y, full_like(&y, f64::INFINITY)),
    };
    let spoilt = eq(&x, zeros_like(&x)) & !fine;
    mul(&x, log1p(&where_(&spoilt, zeros_like(&y), &y)))
}

/// `-x * log(x)` in nats: 0 at 0, `-inf` below; integers become floats.
#[track_caller]
pub fn entr(x: &Array) -> Array {
    let x = inexact(x);
    let negative = lt(&x, zeros_like(&x));
    let safe = where_(&negative, full_like(&x, 1), &x);
    where_(&negative, full_like(&x, f64::NEG_INFINITY), neg(&xlogy(&safe, &safe)))
}

/// `x * log(x / y)` in nats: 0 where `x` is 0 and `y` is not negative, `inf` where either is negative
/// or `y` alone is 0. The sum is the relative entropy of two distributions.
#[track_caller]
pub fn rel_entr(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    let [x, y] = promote_inexact("rel_entr", [x.like(), y.like()]);
    let zero = zeros_like(&x);
    let (both, none) = (gt(&x, &zero) & gt(&y, &zero), eq(&x, &zero) & !lt(&y, &zero));
    let one = full_like(&x, 1);
    let (safe_x, safe_y) = (where_(&both, &x, &one), where_(&both, &y, &one));
    let value = mul(&safe_x, log(&div(&safe_x, &safe_y)));
    let outside = where_(&none, &zero, full_like(&x, f64::INFINITY));
    let result = where_(&both, value, outside);
    let unknown = super::super::isnan(&x) | super::super::isnan(&y);
    where_(&unknown, full_like(&x, f64::NAN), result)
}

/// `x * log(x / y) - x + y` in nats: [`rel_entr`] made convex and not negative.
#[track_caller]
pub fn kl_div(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    let [x, y] = promote_inexact("kl_div", [x.like(), y.like()]);
    add(sub(rel_entr(&x, &y), &x), &y)
}
