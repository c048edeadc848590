//! Gradients compared with differences.

use super::failure::{fail_value, is_enabled};
use oxidax::prelude::*;
use oxidax::testing::{CheckGradsOptions, check_vjp};

/// Options of [`assert_numerical_grads_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NumericalGradsOptions {
    /// The step of the differences. By default that of [`CheckGradsOptions::eps`].
    pub epsilon: Option<f64>,
    /// The tolerance relative to the difference. 0.02 by default.
    pub rtol: f64,
    /// The absolute tolerance. 0.01 by default.
    pub atol: f64,
    /// The number of random directions. 3 by default.
    pub directions: usize,
}

impl Default for NumericalGradsOptions {
    fn default() -> NumericalGradsOptions {
        NumericalGradsOptions { epsilon: None, rtol: 0.02, atol: 0.01, directions: 3 }
    }
}

/// Throws `Op` (value) unless the gradient of a scalar function at `x` agrees with central
/// differences along random directions, as [`check_vjp`] compares them.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::asserts::assert_numerical_grads;
/// assert_numerical_grads(|x: &Array| (sin(x) * x).sum(), &array![0.5f64, 1.5]);
/// let wrong = |x: &Array| (stop_gradient(x) * x).sum();
/// assert!(catch(|| assert_numerical_grads(wrong, &array![0.5f64, 1.5])).is_err());
/// ```
#[track_caller]
pub fn assert_numerical_grads<T: Tree>(f: impl Fn(&T) -> Array, x: &T) {
    assert_numerical_grads_with(f, x, NumericalGradsOptions::default());
}

/// Compares gradients as [`assert_numerical_grads`] does, with options.
///
/// Throws `Op` (value) if a derivative differs by more than the tolerance.
#[track_caller]
pub fn assert_numerical_grads_with<T: Tree>(
    f: impl Fn(&T) -> Array,
    x: &T,
    options: NumericalGradsOptions,
) {
    if !is_enabled() {
        return;
    }
    for seed in 0..options.directions {
        let check = CheckGradsOptions {
            atol: Some(options.atol),
            rtol: Some(options.rtol),
            eps: options.epsilon,
            seed: seed as u64,
            ..CheckGradsOptions::default()
        };
        if let Err(error) = check_vjp(|x: &T| f(x), x, check) {
            fail_value("assert_numerical_grads", error.to_string(), &[]);
        }
    }
}
