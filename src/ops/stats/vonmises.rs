//! Von Mises' distribution on the circle around 0 with concentration `kappa`.

use crate::core::Array;
use crate::primitives::{ArrayLike, bessel_i0e, cos, exp, log, mul, promote_inexact, sub};
use std::f64::consts::PI;

/// `kappa cos(x) - log(2π I₀(kappa))`, without overflow.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| stats::vonmises::logpdf(&x, 2.0), Aval::new(DType::F32, [3]))?;
/// assert_eq!(y.aval().to_string(), "f32[3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn logpdf(x: impl ArrayLike, kappa: impl ArrayLike) -> Array {
    let [x, kappa] = promote_inexact("vonmises::logpdf", [x.like(), kappa.like()]);
    let height = mul(&kappa, sub(cos(&x), 1.0));
    sub(height, log(&mul(bessel_i0e(&kappa), 2.0 * PI)))
}

/// The density: the exponential of [`logpdf`].
#[track_caller]
pub fn pdf(x: impl ArrayLike, kappa: impl ArrayLike) -> Array {
    exp(&logpdf(x, kappa))
}
