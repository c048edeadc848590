//! Covariance and correlation.

use super::super::{Index, clip, diagonal, dot};
use crate::core::{Array, RuleError, trace};
use crate::primitives::{
    complex, conj, convert_element_type, div, imag, inexact, mul, real, reshape, sqrt, sub,
};

/// How [`cov_with`] counts observations.
#[derive(Clone, Debug)]
pub struct Covariance {
    /// What is taken off the number of observations that is divided by: 1 for the unbiased estimate, 0
    /// for the mean product.
    pub ddof: f64,
    /// How often each observation is there: integers, `[n]`.
    pub frequencies: Option<Array>,
    /// How much each observation counts: `[n]`, not negative.
    pub weights: Option<Array>,
}

impl Default for Covariance {
    /// The unbiased estimate, every observation counting once.
    fn default() -> Covariance {
        Covariance { ddof: 1.0, frequencies: None, weights: None }
    }
}

/// The covariances of variables: rows of `x` are variables, columns observations, `[k, n] → [k, k]`; a
/// vector is one variable, `[n] → []`. The unbiased estimate; see [`cov_with`].
///
/// ```
/// use oxidax::prelude::*;
/// let c = eval_shape(|x: Array| cov(&x), Aval::new(DType::F32, [3, 100]))?;
/// assert_eq!(c.aval().to_string(), "f32[3,3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn cov(x: &Array) -> Array {
    cov_with(x, &Covariance::default())
}

/// As [`cov`] with another number of degrees of freedom and with weights. Integers become floats. NaN
/// or infinite if nothing is left to divide by.
///
/// NumPy's second operand `y` is more rows, `rowvar=False` the transpose. Throws `Op` (shape) for
/// rank above 2 and for weights that are no vector over the observations.
#[track_caller]
pub fn cov_with(x: &Array, how: &Covariance) -> Array {
    if x.rank() > 2 {
        let message = format!("takes a vector or a matrix, got rank {}", x.rank());
        trace::throw_operands("cov", RuleError::shape(message), &[x]);
    }
    let x = super::super::atleast_2d(&inexact(x));
    let n = x.shape()[1];
    let part = x.dtype().real();
    let mut weights: Option<Array> = None;
    for given in [&how.frequencies, &how.weights].into_iter().flatten() {
        if *given.shape().dims() != [n] {
            let message = format!("weights {} for {n} observations", given.shape());
            trace::throw_operands("cov", RuleError::shape(message), &[&x, given]);
        }
        let given = convert_element_type(given, part);
        weights = Some(match weights {
            None => given,
            Some(before) => mul(before, given),
        });
    }
    let keep = super::super::axes(-1).keepdims();
    let covariance = match weights {
        None => {
            let centred = sub(&x, x.mean_axes(keep));
            div(dot(&centred, &conj(&centred.t())), n as f64 - how.ddof)
        }
        Some(weights) => {
            let total = weights.sum();
            let mean = div(mul(&x, &weights).sum_axes(keep), &total);
            let centred = sub(&x, mean);
            let divisor = match &how.weights {
                _ if how.ddof == 0.0 => total,
                None => sub(total, how.ddof),
                Some(importance) => {
                    let importance = convert_element_type(importance, part);
                    let shared = mul(&weights, importance).sum();
                    sub(&total, div(mul(shared, how.ddof), &total))
                }
            };
            div(dot(&mul(&centred, &weights), &conj(&centred.t())), divisor)
        }
    };
    match covariance.size() {
        1 => reshape(&covariance, []),
        _ => covariance,
    }
}

/// The correlation coefficients of variables, between -1 and 1: [`cov`] divided by standard
/// deviations. Rows of `x` are variables: `[k, n] → [k, k]`, `[n] → []`.
#[track_caller]
pub fn corrcoef(x: &Array) -> Array {
    let c = cov(x);
    if c.rank() == 0 {
        return div(&c, &c);
    }
    let deviation = sqrt(&real(&diagonal(&c)));
    let column = deviation.index([Index::Ellipsis, Index::NewAxis]);
    let ratio = div(div(&c, column), &deviation);
    match ratio.dtype().is_complex() {
        false => clip(&ratio, -1.0, 1.0),
        true => complex(clip(&real(&ratio), -1.0, 1.0), clip(&imag(&ratio), -1.0, 1.0)),
    }
}
