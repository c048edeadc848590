//! The scope in which results are looked at for NaN and infinity.

use crate::core::array::array::Array;
use crate::core::error::{Error, Loc, OpError, OpErrorKind};
use crate::core::program::program::Program;
use crate::core::scoped::scoped;
use crate::core::trace::path;

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    /// NaN.
    Nan,
    /// NaN and infinities.
    Finite,
}

scoped!(static WATCH: Option<Watch> = None);

/// Runs `f` with results looked at.
pub(crate) fn watching<R>(watch: Watch, f: impl FnOnce() -> R) -> R {
    WATCH.scope(Some(watch), f)
}

/// What is looked for on this thread now.
pub(crate) fn watched() -> Option<Watch> {
    WATCH.get()
}

/// What is wrong with an array's elements, if anything is.
fn trouble(watch: Watch, x: &Array) -> Result<Option<&'static str>, Error> {
    if !x.dtype().is_inexact() {
        return Ok(None);
    }
    let numbers = x.to_host()?.numbers();
    if numbers.iter().any(|z| z.is_nan()) {
        return Ok(Some("a NaN"));
    }
    let infinite = numbers.iter().any(|z| z.re.is_infinite() || z.im.is_infinite());
    Ok((watch == Watch::Finite && infinite).then_some("an infinity"))
}

/// What an operation made that its operands do not have, if anything.
///
/// # Errors
/// If an array cannot be read.
pub(crate) fn made_by(
    watch: Watch,
    operands: &[&Array],
    outputs: &[Array],
) -> Result<Option<&'static str>, Error> {
    // A constant may be infinite by intention, as masks are.
    if operands.is_empty() {
        return Ok(None);
    }
    match first(watch, outputs.iter())? {
        Some(found) if first(watch, operands.iter().copied())?.is_none() => Ok(Some(found)),
        _ => Ok(None),
    }
}

fn first<'a>(
    watch: Watch,
    arrays: impl Iterator<Item = &'a Array>,
) -> Result<Option<&'static str>, Error> {
    for array in arrays {
        if let Some(found) = trouble(watch, array)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The error that names the operation.
pub(crate) fn made(name: &str, found: &str, operands: &[&Array], location: Loc) -> Error {
    let of = |array: &Array| (array.size() <= 8).then(|| format!(" = {array}"));
    let note: Vec<String> = operands
        .iter()
        .enumerate()
        .filter_map(|(at, array)| of(array).map(|text| format!("operand {at}{text}")))
        .collect();
    Error::Op(Box::new(OpError {
        kind: OpErrorKind::Value,
        primitive: name.to_string(),
        message: format!("made {found} of operands without one"),
        operands: operands
            .iter()
            .enumerate()
            .map(|(at, array)| (format!("operand {at}"), array.aval().clone()))
            .collect(),
        note: (!note.is_empty()).then(|| note.join("\n  ")),
        location,
        path: path(),
        help: None,
    }))
}

/// The error for a program whose outputs hold what is looked for, though running it again operation by
/// operation made none.
pub(crate) fn not_reproduced(program: &Program) -> Error {
    Error::Op(Box::new(OpError {
        kind: OpErrorKind::Value,
        primitive: "nan_check".into(),
        message:
            "the compiled program's outputs hold a NaN or infinity, and none appears when its \
                  operations run one by one"
                .into(),
        operands: Vec::new(),
        note: Some(format!("{} operations were run", program.eqns().len())),
        location: None,
        path: path(),
        help: Some("the compiler's own reordering made it, or an argument held it already".into()),
    }))
}
