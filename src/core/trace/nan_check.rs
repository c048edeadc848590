//! The scope in which results are checked for NaN and infinity.

use crate::core::array::array::Array;
use crate::core::error::{Error, Loc, OpError, OpErrorKind};
use crate::core::program::program::Program;
use crate::core::scoped::scoped;
use crate::core::trace::path;

/// The values that a check reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NanCheck {
    /// NaN.
    Nan,
    /// NaN and infinities.
    NonFinite,
}

scoped!(static NAN_CHECK: Option<NanCheck> = None);

/// Runs `f` with results checked.
pub(crate) fn with_nan_check<R>(check: NanCheck, f: impl FnOnce() -> R) -> R {
    NAN_CHECK.scope(Some(check), f)
}

/// Runs `f` without a check.
pub(crate) fn without_nan_check<R>(f: impl FnOnce() -> R) -> R {
    NAN_CHECK.scope(None, f)
}

/// Returns the check in force on this thread.
pub(crate) fn nan_check() -> Option<NanCheck> {
    NAN_CHECK.get()
}

/// Describes the first reported value of an array, if it has one.
fn first_in(check: NanCheck, x: &Array) -> Result<Option<&'static str>, Error> {
    if !x.dtype().is_inexact() {
        return Ok(None);
    }
    let numbers = x.to_host()?.numbers();
    if numbers.iter().any(|z| z.is_nan()) {
        return Ok(Some("a NaN"));
    }
    let is_infinite = numbers.iter().any(|z| z.re.is_infinite() || z.im.is_infinite());
    Ok((check == NanCheck::NonFinite && is_infinite).then_some("an infinity"))
}

fn first_among<'a>(
    check: NanCheck,
    arrays: impl Iterator<Item = &'a Array>,
) -> Result<Option<&'static str>, Error> {
    for array in arrays {
        if let Some(value) = first_in(check, array)? {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

/// Describes a value in the outputs of an operation that its operands do not contain.
///
/// # Errors
/// If an array cannot be read.
pub(crate) fn introduced(
    check: NanCheck,
    operands: &[&Array],
    outputs: &[Array],
) -> Result<Option<&'static str>, Error> {
    // Constants may be infinite on purpose, for example in masks.
    if operands.is_empty() {
        return Ok(None);
    }
    match first_among(check, outputs.iter())? {
        Some(value) if first_among(check, operands.iter().copied())?.is_none() => Ok(Some(value)),
        _ => Ok(None),
    }
}

/// Builds the error for an operation that introduces `value`.
pub(crate) fn nan_error(name: &str, value: &str, operands: &[&Array], loc: Loc) -> Error {
    let is_short = |array: &Array| array.size() <= 8;
    let elements: Vec<String> = operands
        .iter()
        .enumerate()
        .filter(|(_, array)| is_short(array))
        .map(|(index, array)| format!("operand {index} = {array}"))
        .collect();
    let avals = operands.iter().enumerate();
    Error::Op(Box::new(OpError {
        kind: OpErrorKind::Value,
        primitive: name.to_string(),
        message: format!("made {value} of operands without one"),
        operands: avals
            .map(|(index, array)| (format!("operand {index}"), array.aval().clone()))
            .collect(),
        note: (!elements.is_empty()).then(|| elements.join("\n  ")),
        loc,
        path: path(),
        help: None,
    }))
}

/// Builds the error for a program whose outputs contain a reported value that running it operation
/// by operation does not reproduce.
pub(crate) fn not_reproduced_error(program: &Program) -> Error {
    Error::Op(Box::new(OpError {
        kind: OpErrorKind::Value,
        primitive: "nan_check".into(),
        message:
            "the compiled program's outputs hold a NaN or infinity, and none appears when its \
                  operations run one by one"
                .into(),
        operands: Vec::new(),
        note: Some(format!("{} operations were run", program.eqns().len())),
        loc: Loc::UNKNOWN,
        path: path(),
        help: Some("the compiler's own reordering made it, or an argument held it already".into()),
    }))
}
