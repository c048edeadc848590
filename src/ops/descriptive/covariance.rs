//! Covariance and correlation.

use super::super::{Index, clip, diagonal, dot};
use crate::core::{Array, RuleError, trace};
use crate::primitives::{
    complex, concatenate, conj, convert_element_type, div, imag, inexact, mul, real, reshape, sqrt,
    sub,
};

/// Options of [`cov_with`].
#[derive(Clone, Debug)]
pub struct CovOptions {
    /// The divisor is the number of observations minus `ddof`: 1, the default, gives the unbiased
    /// estimate, 0 the mean product.
    pub ddof: f64,
    /// Number of times that each observation is repeated, integers `[n]`.
    #[doc(alias = "fweights")]
    pub frequencies: Option<Array>,
    /// Weights of the observations, `[n]`, not negative.
    #[doc(alias = "aweights")]
    pub weights: Option<Array>,
    /// Further variables with the same observations, below those of the operand.
    pub y: Option<Array>,
    /// Rows are variables and columns observations, the default; otherwise the reverse.
    pub rowvar: bool,
}

impl Default for CovOptions {
    fn default() -> CovOptions {
        CovOptions { ddof: 1.0, frequencies: None, weights: None, y: None, rowvar: true }
    }
}

/// Returns the unbiased estimate of the covariances of variables. Rows of `x` are variables and
/// columns are observations: `[k, n] → [k, k]`. A vector is one variable: `[n] → []`.
///
/// ```
/// use oxidax::prelude::*;
/// let c = eval_shape(|x: Array| cov(&x), Aval::new(DType::F32, [3, 100]))?;
/// assert_eq!(c.aval().to_string(), "f32[3,3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn cov(x: &Array) -> Array {
    cov_with(x, &CovOptions::default())
}

/// Returns covariances, as [`cov`], with other degrees of freedom and weights. Integers become
/// floats. The result is NaN or infinite if the divisor is 0.
///
/// Throws `Op` (shape) for arrays of rank above 2, for further variables with another number of
/// observations, and for weights that are not a vector over the observations.
#[track_caller]
pub fn cov_with(x: &Array, options: &CovOptions) -> Array {
    let mut variables = Vec::with_capacity(2);
    for x in std::iter::once(x).chain(&options.y) {
        if x.rank() > 2 {
            let message = format!("takes a vector or a matrix, got rank {}", x.rank());
            trace::throw_operands("cov", RuleError::shape(message), &[x]);
        }
        let rows = super::super::atleast_2d(&inexact(x));
        variables.push(if options.rowvar || x.rank() < 2 { rows } else { rows.t() });
    }
    if let [first, second] = variables.as_slice()
        && first.shape()[1] != second.shape()[1]
    {
        let message = format!(
            "{} and {} have different numbers of observations",
            first.shape(),
            second.shape()
        );
        trace::throw_operands("cov", RuleError::shape(message), &[first, second]);
    }
    let x = concatenate(&variables, 0);
    let n = x.shape()[1];
    let part = x.dtype().real();
    let mut weights: Option<Array> = None;
    for factors in [&options.frequencies, &options.weights].into_iter().flatten() {
        if *factors.shape().dims() != [n] {
            let message = format!("weights {} for {n} observations", factors.shape());
            trace::throw_operands("cov", RuleError::shape(message), &[&x, factors]);
        }
        let factors = convert_element_type(factors, part);
        weights = Some(match weights {
            None => factors,
            Some(weights) => mul(weights, factors),
        });
    }
    let keepdims = super::super::axes(-1).keepdims();
    let covariance = match weights {
        None => {
            let centred = sub(&x, x.mean_axes(keepdims));
            div(dot(&centred, &conj(centred.t())), n as f64 - options.ddof)
        }
        Some(weights) => {
            let total = weights.sum();
            let mean = div(mul(&x, &weights).sum_axes(keepdims), &total);
            let centred = sub(&x, mean);
            let divisor = match &options.weights {
                _ if options.ddof == 0.0 => total,
                None => sub(total, options.ddof),
                Some(importance) => {
                    let importance = convert_element_type(importance, part);
                    let shared = mul(&weights, importance).sum();
                    sub(&total, div(mul(shared, options.ddof), &total))
                }
            };
            div(dot(&mul(&centred, &weights), &conj(centred.t())), divisor)
        }
    };
    if covariance.size() == 1 { reshape(&covariance, []) } else { covariance }
}

/// Returns the correlation coefficients of variables, between -1 and 1: [`cov`] divided by standard
/// deviations. Rows of `x` are variables: `[k, n] → [k, k]`, `[n] → []`.
#[track_caller]
pub fn corrcoef(x: &Array) -> Array {
    corrcoef_with(x, &CovOptions::default())
}

/// Returns correlation coefficients, as [`corrcoef`], with further variables or weights. The
/// degrees of freedom do not matter.
#[track_caller]
pub fn corrcoef_with(x: &Array, options: &CovOptions) -> Array {
    let c = cov_with(x, options);
    if c.rank() == 0 {
        return div(&c, &c);
    }
    let deviation = sqrt(real(diagonal(&c)));
    let column = deviation.index([Index::Ellipsis, Index::NewAxis]);
    let ratio = div(div(&c, column), &deviation);
    if ratio.dtype().is_complex() {
        complex(clip(&real(&ratio), -1.0, 1.0), clip(&imag(&ratio), -1.0, 1.0))
    } else {
        clip(&ratio, -1.0, 1.0)
    }
}
