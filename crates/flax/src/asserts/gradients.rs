//! Gradients compared with differences.

use super::failure::{fail_value, is_enabled};
use oxidax::prelude::*;
use oxidax::random;

/// Options of [`assert_numerical_grads_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NumericalGradsOptions {
    /// The step of the differences. The default is the cube root of the precision of the dtype.
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
/// differences along random directions.
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
    let name = "assert_numerical_grads";
    let gradient = grad(|x: &T| f(x))(x);
    for seed in 0..options.directions {
        let mut leaf_index = 0;
        let direction = tree::map(x, |leaf| {
            leaf_index += 1;
            if !leaf.dtype().is_float() {
                return zeros_like(leaf);
            }
            let key = random::fold_in(random::key(seed as i64), leaf_index);
            random::normal(key, (leaf.shape().clone(), leaf.dtype()))
        });
        let widest = tree::leaves(x).iter().map(|leaf| leaf.dtype().bits()).max();
        let precise = widest.is_some_and(|bits| bits >= 64);
        let epsilon = options.epsilon.unwrap_or(if precise { 6e-6 } else { 5e-3 });
        let at = |step: f64| {
            let moved = tree::zip_map(x, &direction, |x, d| match x.dtype().is_float() {
                true => x + d * step,
                false => x.clone(),
            });
            f(&moved).astype(DType::F64).item::<f64>()
        };
        let slopes = tree::leaves(&gradient).into_iter().zip(tree::leaves(&direction));
        let slope = slopes
            .map(|(g, d)| (g.astype(DType::F64) * d.astype(DType::F64)).sum().item::<f64>())
            .sum::<Result<f64, Error>>();
        let (high, low, slope) = match (at(epsilon), at(-epsilon), slope) {
            (Ok(high), Ok(low), Ok(slope)) => (high, low, slope),
            (Err(error), ..) | (_, Err(error), _) | (.., Err(error)) => {
                fail_value(name, format!("the values cannot be read: {error}"), &[])
            }
        };
        let difference = (high - low) / (2.0 * epsilon);
        let distance = (slope - difference).abs();
        if distance.is_nan() || distance > options.atol + options.rtol * difference.abs() {
            let message = format!(
                "the derivative along direction {seed} is {slope:e}, the difference {difference:e}"
            );
            fail_value(name, message, &[]);
        }
    }
}
