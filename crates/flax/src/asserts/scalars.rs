//! Assertions about scalars.

use super::failure::{expect, fail_shape, is_enabled};
use oxidax::prelude::*;

/// Throws `Op` (shape) unless `x` does not have an axis.
#[track_caller]
pub fn assert_scalar(x: &Array) {
    if is_enabled() && x.rank() != 0 {
        fail_shape("assert_scalar", format!("{} is not a scalar", x.aval()), &[x]);
    }
}

/// Throws `Op` unless `x` is a scalar from `min` to `max`, both included.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::asserts::assert_scalar_in;
/// assert_scalar_in(&full([], 0.5f32), 0.0, 1.0);
/// assert!(catch(|| assert_scalar_in(&full([], 2.0f32), 0.0, 1.0)).is_err());
/// ```
#[track_caller]
pub fn assert_scalar_in(x: &Array, min: f64, max: f64) {
    expect_scalar("assert_scalar_in", x, &format!("from {min} to {max}"), |x| {
        ge(x, min) & le(x, max)
    });
}

/// Throws `Op` unless `x` is a scalar greater than 0.
#[track_caller]
pub fn assert_scalar_positive(x: &Array) {
    expect_scalar("assert_scalar_positive", x, "positive", |x| gt(x, 0));
}

/// Throws `Op` unless `x` is a scalar of at least 0.
#[track_caller]
pub fn assert_scalar_non_negative(x: &Array) {
    expect_scalar("assert_scalar_non_negative", x, "at least 0", |x| ge(x, 0));
}

/// Throws `Op` unless `x` is a scalar less than 0.
#[track_caller]
pub fn assert_scalar_negative(x: &Array) {
    expect_scalar("assert_scalar_negative", x, "negative", |x| lt(x, 0));
}

#[track_caller]
fn expect_scalar(name: &str, x: &Array, range: &str, holds: impl FnOnce(&Array) -> Array) {
    if !is_enabled() {
        return;
    }
    if x.rank() != 0 {
        fail_shape(name, format!("{} is not a scalar", x.aval()), &[x]);
    }
    expect(name, &holds(x), &[x], || format!("the scalar is not {range}"));
}
