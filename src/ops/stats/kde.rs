//! Density estimates: a normal distribution around each point of a sample.

use super::super::linalg::{cholesky, inv, solve_triangular};
use super::super::special::ndtr;
use super::super::{
    Covariance, atleast_2d, cov_with, diagonal, logsumexp, matmul, matrix_transpose, result_type,
};
use crate::core::{Array, RuleError, trace};
use crate::primitives::{
    ArrayLike, add, convert_element_type, div, exp, expand_dims, full_like, inexact, log, mul, pow,
    promote_arrays, reduce_prod, reshape, sqrt, sub, zeros_like,
};
use crate::tree::Tree;
use std::f64::consts::PI;
use std::fmt;

/// How wide the normal distributions of a [`GaussianKde`] are, beside the sample itself.
#[derive(Clone, Copy, Default)]
pub enum Bandwidth<'a> {
    /// Scott's rule, `neff^(-1/(d + 4))`.
    #[default]
    Scott,
    /// Silverman's rule, `(neff·(d + 2)/4)^(-1/(d + 4))`.
    Silverman,
    /// This factor.
    Factor(f64),
    /// What a function makes of the effective number of points, a scalar array, and of the number of
    /// coordinates.
    By(&'a dyn Fn(&Array, usize) -> Array),
}

impl fmt::Debug for Bandwidth<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Bandwidth::Scott => "Scott",
            Bandwidth::Silverman => "Silverman",
            Bandwidth::Factor(factor) => return write!(f, "Factor({factor})"),
            Bandwidth::By(_) => "By(..)",
        })
    }
}

/// A density estimated from a weighted sample: the mean of normal distributions around its points, whose
/// covariance is that of the sample times the square of a bandwidth.
///
/// A tree of arrays, so that it passes through `jit` and `grad` as it is. New points are drawn by its method
/// `resample`.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::stats::{Bandwidth, GaussianKde};
/// let density = |data: Array, x: Array| GaussianKde::new(&data, Bandwidth::Scott, None).evaluate(&x);
/// let (data, x) = (Aval::new(DType::F32, [2, 100]), Aval::new(DType::F32, [2, 5]));
/// assert_eq!(eval_shape(density, (data, x))?.aval().to_string(), "f32[5]");
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Scott, "Multivariate density estimation", 1992; Silverman, "Density estimation for statistics and data
/// analysis", 1986.
#[derive(Clone, Debug, Tree)]
#[doc(alias = "gaussian_kde")]
pub struct GaussianKde {
    /// The effective number of points, `1/Σ wᵢ²`: `[]`.
    pub neff: Array,
    /// The points, one in each column: `[d, n]`.
    pub dataset: Array,
    /// How much each of them counts, with the sum 1: `[n]`.
    pub weights: Array,
    /// The covariance of each normal distribution: `[d, d]`.
    pub covariance: Array,
    /// Its inverse.
    pub inv_cov: Array,
}

#[track_caller]
fn refuse(name: &str, error: RuleError, operands: &[&Array]) -> ! {
    trace::throw_operands(name, error, operands)
}

impl GaussianKde {
    /// The estimate from points `[d, n]`, or from `n` numbers, `[n]`, each counting once or as `weights`, `[n]`,
    /// say. Integers become floats.
    ///
    /// Throws `Op` (dtype) for complex points and 16-bit floats, (value) for fewer than two numbers, (shape) for
    /// weights that do not fit.
    #[track_caller]
    pub fn new(dataset: &Array, bandwidth: Bandwidth<'_>, weights: Option<&Array>) -> GaussianKde {
        let dataset = match weights {
            Some(weights) => {
                convert_element_type(dataset, result_type([dataset.like(), weights.like()]))
            }
            None => dataset.clone(),
        };
        let dataset = atleast_2d(&inexact(&dataset));
        let name = "GaussianKde::new";
        if dataset.dtype().is_complex() {
            let message = format!("takes real points, got {}", dataset.dtype());
            refuse(name, RuleError::dtype(message), &[&dataset]);
        }
        if dataset.rank() != 2 || dataset.size() < 2 {
            let message = format!("takes at least two numbers as [d, n], got {}", dataset.shape());
            refuse(name, RuleError::value(message), &[&dataset]);
        }
        let (d, n) = (dataset.shape()[0], dataset.shape()[1]);
        let weights = match weights {
            Some(weights) if *weights.shape().dims() != [n] => {
                let message = format!("weights {} for {n} points", weights.shape());
                refuse(name, RuleError::shape(message), &[&dataset, weights]);
            }
            Some(weights) => {
                let weights = convert_element_type(weights, dataset.dtype());
                div(&weights, weights.sum())
            }
            None => mul(crate::primitives::ones([n], dataset.dtype()), 1.0 / n as f64),
        };
        let neff = div(1.0, mul(&weights, &weights).sum());
        let power = full_like(&neff, -1.0 / (d as f64 + 4.0));
        let factor = match bandwidth {
            Bandwidth::Scott => pow(&neff, power),
            Bandwidth::Silverman => pow(mul(&neff, (d as f64 + 2.0) / 4.0), power),
            Bandwidth::Factor(factor) => full_like(&neff, factor),
            Bandwidth::By(function) => convert_element_type(&function(&neff, d), dataset.dtype()),
        };
        let how = Covariance { weights: Some(weights.clone()), ..Covariance::default() };
        let of_data = atleast_2d(&cov_with(&dataset, &how));
        let square = mul(&factor, &factor);
        let (covariance, inv_cov) = (mul(&of_data, &square), div(inv(&of_data), &square));
        GaussianKde { neff, dataset, weights, covariance, inv_cov }
    }

    /// The number of coordinates.
    pub fn d(&self) -> usize {
        self.dataset.shape()[0]
    }

    /// The number of points.
    pub fn n(&self) -> usize {
        self.dataset.shape()[1]
    }

    /// The points as `[d, m]`.
    #[track_caller]
    fn points(&self, name: &str, points: &Array) -> Array {
        let dtype = result_type([points.like(), self.dataset.like()]);
        let points = atleast_2d(&convert_element_type(points, dtype));
        let dims = points.shape().dims();
        if points.dtype().is_complex() {
            let message = format!("takes real points, got {}", points.dtype());
            refuse(name, RuleError::dtype(message), &[&points]);
        }
        match (dims, self.d()) {
            ([d, _], own) if *d == own => points,
            ([1, m], own) if *m == own => reshape(&points, [own, 1]),
            (_, own) => {
                let message = format!("{own} coordinates at points {}", points.shape());
                refuse(name, RuleError::shape(message), &[&points]);
            }
        }
    }

    /// The logarithm of each point's part in the density at each of `points`, but for the weights: `[m, n]`.
    fn parts(&self, points: &Array) -> Array {
        let whitening = cholesky(&self.inv_cov);
        let white = |points: &Array| matmul(&matrix_transpose(points), &whitening);
        let norm = sub(log(&diagonal(&whitening)).sum(), 0.5 * self.d() as f64 * (2.0 * PI).ln());
        let (at, centres) = (white(points), white(&self.dataset));
        let change = sub(expand_dims(&at, &[1]), expand_dims(&centres, &[0]));
        sub(norm, mul(mul(&change, &change).sum_axes(-1), 0.5))
    }

    /// The density at points `[d, m]`, at `m` numbers if `d` is 1, or at one point `[d]`: `[m]`.
    ///
    /// Throws `Op` (shape) if the points have another number of coordinates, (dtype) for complex ones.
    #[doc(alias = "pdf")]
    #[track_caller]
    pub fn evaluate(&self, points: &Array) -> Array {
        let points = self.points("GaussianKde::evaluate", points);
        trace::from_caller(|| mul(exp(&self.parts(&points)), &self.weights).sum_axes(-1))
    }

    /// The same as [`GaussianKde::evaluate`].
    #[track_caller]
    pub fn pdf(&self, points: &Array) -> Array {
        self.evaluate(points)
    }

    /// The logarithm of the density in nats, finite also where that vanishes; see [`GaussianKde::evaluate`].
    #[track_caller]
    pub fn logpdf(&self, points: &Array) -> Array {
        let points = self.points("GaussianKde::logpdf", points);
        trace::from_caller(|| logsumexp(&add(self.parts(&points), log(&self.weights)), -1))
    }

    /// The integral of the product with a sum of normal distributions of covariance `cov` around the columns of
    /// `centres`.
    fn overlap(&self, centres: &Array, weights: &Array, cov: &Array) -> Array {
        let factor = cholesky(&add(&self.covariance, cov));
        let white = |points: &Array| solve_triangular(&factor, points, true);
        let change =
            sub(expand_dims(&white(&self.dataset), &[2]), expand_dims(&white(centres), &[1]));
        let parts = exp(&mul(mul(&change, &change).sum_axes(0), -0.5));
        let norm = (2.0 * PI).sqrt().powi(self.d() as i32);
        let norm = mul(reduce_prod(&diagonal(&factor), &[0]), norm);
        let sum = mul(mul(parts, expand_dims(&self.weights, &[1])), weights).sum();
        div(sum, norm)
    }

    /// The integral of the product with a normal distribution of mean `[d]` and covariance `[d, d]`, either a scalar
    /// where `d` is 1: `[]`.
    ///
    /// Throws `Op` (shape) if they do not fit.
    #[track_caller]
    pub fn integrate_gaussian(&self, mean: impl ArrayLike, cov: impl ArrayLike) -> Array {
        let zero = zeros_like(&self.neff);
        let (mean, cov) = (add(&zero, mean), add(&zero, cov));
        let d = self.d();
        if mean.size() != d || cov.size() != d * d || cov.rank() > 2 {
            let message =
                format!("{d} coordinates with a mean {} and {}", mean.shape(), cov.shape());
            refuse("GaussianKde::integrate_gaussian", RuleError::shape(message), &[&mean, &cov]);
        }
        trace::from_caller(|| {
            let one = full_like(&self.neff, 1);
            self.overlap(&reshape(&mean, [d, 1]), &one, &reshape(&cov, [d, d]))
        })
    }

    /// The probability of a number between `low` and `high`, scalars, for an estimate with one coordinate: `[]`.
    ///
    /// Throws `Op` (shape) if it has more, or if a limit is no scalar.
    #[track_caller]
    pub fn integrate_box_1d(&self, low: impl ArrayLike, high: impl ArrayLike) -> Array {
        let [low] = promote_arrays("GaussianKde::integrate_box_1d", [low.like()]);
        let [high] = promote_arrays("GaussianKde::integrate_box_1d", [high.like()]);
        if self.d() != 1 || low.rank() + high.rank() != 0 {
            let message = format!(
                "takes one coordinate and scalar limits, got {} coordinates, {} and {}",
                self.d(),
                low.shape(),
                high.shape()
            );
            refuse("GaussianKde::integrate_box_1d", RuleError::shape(message), &[&low, &high]);
        }
        trace::from_caller(|| {
            let width = sqrt(&reshape(&self.covariance, []));
            let centres = reshape(&self.dataset, [self.n()]);
            let below = |limit: &Array| ndtr(&div(sub(limit, &centres), &width));
            mul(sub(below(&high), below(&low)), &self.weights).sum()
        })
    }

    /// The integral of the product with another estimate of as many coordinates: `[]`.
    ///
    /// Throws `Op` (shape) if it has another number of them.
    #[track_caller]
    pub fn integrate_kde(&self, other: &GaussianKde) -> Array {
        if self.d() != other.d() {
            let message = format!("estimates with {} and {} coordinates", self.d(), other.d());
            let operands = [&self.dataset, &other.dataset];
            refuse("GaussianKde::integrate_kde", RuleError::shape(message), &operands);
        }
        trace::from_caller(|| self.overlap(&other.dataset, &other.weights, &other.covariance))
    }
}
