//! The scope in which results are checked for NaN and infinity.

use crate::core::array::array::{Array, Kind};
use crate::core::error::{Error, Loc, OpError, OpErrorKind};
use crate::core::options::{DEBUG_INFS, DEBUG_NANS};
use crate::core::program::program::Program;
use crate::core::scoped::scoped;
use crate::core::trace::path;
use crate::core::types::aval::Aval;
use num_complex::Complex64;
use std::sync::Arc;

/// The values that a check reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NanCheck {
    /// NaN.
    Nan,
    /// NaN and infinities.
    NonFinite,
}

scoped!(
    /// The check of a scope. The inner `None` is a scope without a check.
    static NAN_CHECK: Option<Option<NanCheck>> = None
);

scoped!(
    /// The paths of the arguments of the program that is searched, by the addresses of their
    /// buffers.
    static ARGUMENTS: Vec<(usize, String)> = Vec::new()
);

/// A reported value in the outputs of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Introduced {
    /// The value: `a NaN`.
    value: &'static str,
    /// The type of the output.
    aval: Aval,
    /// The index of the first such element.
    index: Vec<usize>,
    /// The number of such elements.
    count: usize,
}

/// Returns the address of the buffer of an array, by which an argument is recognized.
fn address(array: &Array) -> Option<usize> {
    match &array.kind {
        Kind::Concrete(buffer) => Some(Arc::as_ptr(buffer).addr()),
        Kind::Traced { .. } => None,
    }
}

/// Runs `f`, with errors that name these arguments by their paths.
pub(crate) fn with_argument_paths<R>(
    arguments: &[Array],
    paths: &[String],
    f: impl FnOnce() -> R,
) -> R {
    let named = arguments.iter().zip(paths);
    let named = named.filter_map(|(array, path)| Some((address(array)?, path.clone())));
    ARGUMENTS.scope(named.collect(), f)
}

/// Runs `f` with results checked.
pub(crate) fn with_nan_check<R>(check: NanCheck, f: impl FnOnce() -> R) -> R {
    NAN_CHECK.scope(Some(Some(check)), f)
}

/// Runs `f` without a check.
pub(crate) fn without_nan_check<R>(f: impl FnOnce() -> R) -> R {
    NAN_CHECK.scope(Some(None), f)
}

/// Returns the check in force on this thread.
pub(crate) fn nan_check() -> Option<NanCheck> {
    if let Some(check) = NAN_CHECK.get() {
        return check;
    }
    if DEBUG_INFS.get() {
        Some(NanCheck::NonFinite)
    } else {
        DEBUG_NANS.get().then_some(NanCheck::Nan)
    }
}

/// Finds the reported values of an array, if it has any.
fn first_in(check: NanCheck, x: &Array) -> Result<Option<Introduced>, Error> {
    if !x.dtype().is_inexact() {
        return Ok(None);
    }
    let numbers = x.to_host()?.numbers();
    let found = |value: &'static str, is_reported: &dyn Fn(&Complex64) -> bool| {
        let first = numbers.iter().position(is_reported)?;
        let mut rest = first;
        let mut index: Vec<usize> = x
            .shape()
            .iter()
            .rev()
            .map(|&size| {
                let at = rest % size.max(1);
                rest /= size.max(1);
                at
            })
            .collect();
        index.reverse();
        let count = numbers.iter().filter(|z| is_reported(z)).count();
        Some(Introduced { value, aval: x.aval().clone(), index, count })
    };
    let nan = found("a NaN", &|z| z.is_nan());
    Ok(nan.or_else(|| match check {
        NanCheck::NonFinite => found("an infinity", &|z| z.re.is_infinite() || z.im.is_infinite()),
        NanCheck::Nan => None,
    }))
}

fn first_among<'a>(
    check: NanCheck,
    arrays: impl Iterator<Item = &'a Array>,
) -> Result<Option<Introduced>, Error> {
    for array in arrays {
        if let Some(found) = first_in(check, array)? {
            return Ok(Some(found));
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
) -> Result<Option<Introduced>, Error> {
    // Constants may be infinite on purpose, for example in masks.
    if operands.is_empty() {
        return Ok(None);
    }
    match first_among(check, outputs.iter())? {
        Some(value) if first_among(check, operands.iter().copied())?.is_none() => Ok(Some(value)),
        _ => Ok(None),
    }
}

/// Builds the error for an operation that introduces a value.
pub(crate) fn nan_error(
    name: &str,
    introduced: &Introduced,
    operands: &[&Array],
    loc: Loc,
) -> Error {
    let Introduced { value, aval, index, count } = introduced;
    let is_short = |array: &Array| array.size() <= 8;
    let mut notes: Vec<String> = operands
        .iter()
        .enumerate()
        .filter(|(_, array)| is_short(array))
        .map(|(index, array)| format!("operand {index} = {array}"))
        .collect();
    if !index.is_empty() {
        let size = aval.shape.iter().product::<usize>();
        notes.push(format!("result {aval}: {count} of {size} elements, the first at {index:?}"));
    }
    let label = |(index, array): (usize, &&Array)| {
        let path = ARGUMENTS.with(|named| {
            let own = address(array);
            named.iter().find(|(other, _)| Some(*other) == own).map(|(_, path)| path.clone())
        });
        match path {
            Some(path) => (format!("operand {index}, {path}"), array.aval().clone()),
            None => (format!("operand {index}"), array.aval().clone()),
        }
    };
    Error::Op(Box::new(OpError {
        kind: OpErrorKind::Value,
        primitive: name.to_string(),
        message: format!("made {value} of operands without one"),
        operands: operands.iter().enumerate().map(label).collect(),
        note: (!notes.is_empty()).then(|| notes.join("\n  ")),
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
