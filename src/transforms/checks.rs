//! Checks of the values passed to transforms, and errors raised by rules.

use super::vjp::GradOptions;
use crate::core::{Array, Error, Loc, OpErrorKind, RuleError, Tangent, TreeError, trace};
use crate::tree::{Tree, leaves_of, paths, rooted};

/// Throws the error of a rule of the primitive `name`, applied to `operands`.
pub(super) fn throw_rule_error(name: &str, error: RuleError, operands: &[Array], loc: Loc) -> ! {
    let avals: Vec<_> = operands.iter().map(|array| array.aval().clone()).collect();
    trace::throw_rule(name, error, &avals, loc)
}

/// Converts the user's tangents or cotangents of `primals`, whose leaves have the given paths.
///
/// Leaves of integer or boolean dtype get symbolic zeros.
///
/// Throws `Tree` if shapes or dtypes differ.
pub(super) fn checked_tangents(
    transform: &str,
    paths: &[String],
    primals: &[Array],
    tangents: &[Array],
    loc: Loc,
) -> Vec<Tangent> {
    let mut checked = Vec::with_capacity(primals.len());
    for (path, (primal, tangent)) in paths.iter().zip(primals.iter().zip(tangents)) {
        if tangent.shape() != primal.shape() || tangent.dtype() != primal.dtype() {
            trace::throw(Error::Tree(Box::new(TreeError {
                path: rooted(path),
                message: format!("{transform}: expected {}, got {}", primal.aval(), tangent.aval()),
                loc,
                help: Some("it must have the shape and dtype of the value it belongs to".into()),
            })));
        }
        checked.push(if primal.dtype().is_inexact() {
            Tangent::Dense(tangent.clone()).vary_like(primal.aval())
        } else {
            Tangent::zero_like(primal)
        });
    }
    checked
}

/// Throws `Tree` for the first leaf of integer or boolean dtype, unless `options` allow it.
pub(super) fn expect_inexact<P: Tree>(
    transform: &str,
    primals: &P,
    options: GradOptions,
    loc: Loc,
) {
    let leaves = leaves_of(primals);
    let Some(index) = leaves.iter().position(|leaf| !leaf.dtype().is_inexact()) else { return };
    if options.allow_int {
        return;
    }
    let message = format!(
        "{transform}: requires real- or complex-valued inputs, got {}",
        leaves[index].aval()
    );
    let help = format!(
        "pass it as another argument or capture it; the option `GradOptions::allow_int` of \
         `{transform}_with` gives it a gradient of zeros"
    );
    trace::throw(Error::Tree(Box::new(TreeError {
        path: rooted(&paths(primals)[index]),
        message,
        loc,
        help: Some(help),
    })))
}

/// Throws `Op` unless `output`, of a function to differentiate, is a scalar of float dtype, or of
/// complex dtype for a holomorphic function.
pub(super) fn expect_scalar_output(
    transform: &str,
    output: &Array,
    options: GradOptions,
    loc: Loc,
) {
    if output.rank() != 0 {
        let message = format!("needs a function with a scalar output, got {}", output.aval());
        trace::throw_op(OpErrorKind::Shape, transform, message, loc);
    }
    if options.holomorphic && !output.dtype().is_complex() {
        let message = format!("needs a function with a complex output, got {}", output.aval());
        trace::throw_op(OpErrorKind::DType, transform, message, loc);
    }
    if !options.holomorphic && !output.dtype().is_float() {
        let message = format!("needs a function with a real float output, got {}", output.aval());
        trace::throw_op(OpErrorKind::DType, transform, message, loc);
    }
}
