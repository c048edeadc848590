//! The Dirichlet distribution of shares that sum to 1, with concentrations `alpha`.

use super::super::special::xlogy;
use crate::core::{Array, RuleError, trace};
use crate::primitives::{abs, exp, full_like, ge, inexact, le, lgamma, lt, sub, where_};

/// `Σ (αᵢ - 1) log(xᵢ) + log Γ(Σ αᵢ) - Σ log Γ(αᵢ)` along axis 0 of `x`, `[k, …] → […]`, for `alpha` of shape `[k]`.
///
/// `-inf` where shares are negative or do not sum to 1. Throws `Op` (shape) if `alpha` is no vector of the
/// size of that axis.
///
/// ```
/// use oxidax::prelude::*;
/// let (x, alpha) = (Aval::new(DType::F32, [3, 8]), Aval::new(DType::F32, [3]));
/// let y = eval_shape(|x: Array, a: Array| stats::dirichlet::logpdf(&x, &a), (x, alpha))?;
/// assert_eq!(y.aval().to_string(), "f32[8]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn logpdf(x: &Array, alpha: &Array) -> Array {
    let (x, alpha) = (inexact(x), inexact(alpha));
    if alpha.rank() != 1 || x.shape().first() != Some(&alpha.size()) {
        let message = format!("concentrations {} for shares {}", alpha.shape(), x.shape());
        trace::throw_operands("dirichlet::logpdf", RuleError::shape(message), &[&x, &alpha]);
    }
    let mut column = vec![alpha.size()];
    column.resize(x.rank(), 1);
    let spread = alpha.reshape(column);
    let norm = sub(lgamma(&alpha.sum()), lgamma(&alpha).sum());
    let inside = xlogy(sub(&spread, 1.0), &x).sum_axes(0) + norm;
    let whole = le(abs(&sub(x.sum_axes(0), 1.0)), 1e-5);
    let fine = whole & ge(&x, 0.0).all_axes(0) & !lt(&x, 0.0).any_axes(0);
    where_(&fine, &inside, full_like(&inside, f64::NEG_INFINITY))
}

/// The density: the exponential of [`logpdf`].
#[track_caller]
pub fn pdf(x: &Array, alpha: &Array) -> Array {
    exp(&logpdf(x, alpha))
}
