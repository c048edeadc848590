//! The Cauchy distribution wrapped around a circle, between 0 and 2π, with concentration `0 < c < 1`.

use crate::core::Array;
use crate::primitives::{
    ArrayLike, add, cos, exp, full_like, ge, le, log, mul, promote_inexact, sub, where_,
};
use std::f64::consts::PI;

/// `log((1 - c²) / (2π (1 + c² - 2c cos x)))` between 0 and 2π.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| stats::wrapcauchy::logpdf(&x, 0.5), Aval::new(DType::F32, [3]))?;
/// assert_eq!(y.aval().to_string(), "f32[3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn logpdf(x: impl ArrayLike, c: impl ArrayLike) -> Array {
    let [x, c] = promote_inexact("wrapcauchy::logpdf", [x.like(), c.like()]);
    let squared = mul(&c, &c);
    let round = sub(add(&squared, 1.0), mul(mul(&c, 2.0), cos(&x)));
    let inside = sub(log(&sub(1.0, &squared)), log(&mul(round, 2.0 * PI)));
    let fine = ge(&x, 0.0) & le(&x, 2.0 * PI);
    where_(&fine, inside, full_like(&x, f64::NEG_INFINITY))
}

/// The density: the exponential of [`logpdf`].
#[track_caller]
pub fn pdf(x: impl ArrayLike, c: impl ArrayLike) -> Array {
    exp(&logpdf(x, c))
}
