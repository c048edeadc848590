//! Checks inside compiled programs.

use super::fields::Fields;
use super::format::Format;
use super::host::{CallbackOptions, HostCall, run_or_bind};
use crate::core::{
    Array, DType, HostFunction, HostFunctionText, Loc, OpErrorKind, OperandCheck, Primitive,
    Program, RegistryEntry, RuleError, RuleResult, throw_operands, trace,
};
use crate::primitives::{
    ArrayLike, CallbackFailure, USER_CHECK, bitwise_and, convert_element_type, ge, le, reduce_max,
    reduce_min,
};
use std::sync::Arc;

/// Fails the program with `message` if an element of `condition` is false. Placeholders in the
/// message stand for `fields`, as in [`print`](super::print()); `()` stands for none.
///
/// The call that runs the program waits for the device and returns the error, with the line of this
/// check. That call's outputs and donated arguments are lost: pass arguments by reference if they
/// must survive.
///
/// In `shard_map` and `pmap` each device checks its shards. In other programs over a mesh the first
/// device checks whole arrays.
///
/// Throws `Op` if `condition` is not boolean or the message does not match the arrays.
///
/// ```
/// use oxidax::prelude::*;
/// let root = jit(|x: Array| {
///     debug::check(ge(&x, 0.0), "cannot take the root of {}", [&x]);
///     sqrt(&x)
/// });
/// let error = root.call(&full([], -4.0f32)).unwrap_err();
/// assert!(error.to_string().contains("cannot take the root of -4."));
/// ```
#[doc(alias = "debug_check")]
#[track_caller]
pub fn check<F>(condition: impl ArrayLike, message: &str, fields: impl Fields<F>) {
    let (names, arrays): (Vec<String>, Vec<Array>) = fields.into_fields().into_iter().unzip();
    let arrays: Vec<&Array> = arrays.iter().collect();
    check_all(&condition.to_array(), message, &names, &arrays);
}

/// Fails the program unless every element of `labels`, `int[…]`, is a class: `0` to
/// `n_classes - 1`. The error has the smallest and the largest label.
///
/// Losses do not check labels, because on most platforms a check waits for the host: a label of -1
/// counts from the last class, and one of `n_classes` or above gives NaN, as in Optax. Call this
/// while you debug, or where labels come from a file.
///
/// Throws `Op` if `labels` are not integers, or there are no classes.
///
/// ```
/// use oxidax::prelude::*;
/// let loss = jit(|logits: Array, labels: Array| {
///     debug::check_labels(&labels, 10);
///     nn::softmax_cross_entropy_with_integer_labels(&logits, &labels).mean()
/// });
/// let error = loss.call(zeros([3, 10]), array![1, -1, 4]).unwrap_err();
/// assert!(error.to_string().contains("labels must be 0 to 9, found -1 to 4"));
/// ```
#[track_caller]
pub fn check_labels(labels: &Array, n_classes: usize) {
    if !labels.dtype().is_integer() {
        let error = RuleError::dtype(format!("labels must be integers, got {}", labels.aval()))
            .help("convert classes with `astype(DType::I32)`");
        throw_operands("check_labels", error, &[labels]);
    }
    let Some(last) = n_classes.checked_sub(1) else {
        let error = RuleError::value("needs at least one class, got 0");
        throw_operands("check_labels", error, &[labels]);
    };
    if labels.size() == 0 {
        return;
    }
    Loc::caller().scope(|| {
        let wide = convert_element_type(labels, DType::I64);
        let axes: Vec<isize> = (0..labels.rank() as isize).collect();
        let (smallest, largest) = (reduce_min(&wide, &axes), reduce_max(&wide, &axes));
        let within =
            bitwise_and(ge(&smallest, 0), le(&largest, last.min(i64::MAX as usize) as i64));
        let message = format!("labels must be 0 to {last}, found {{}} to {{}}");
        let unnamed = [String::new(), String::new()];
        check_all(&within, &message, &unnamed, &[&smallest, &largest]);
    });
}

#[track_caller]
fn check_all(condition: &Array, message: &str, names: &[String], arrays: &[&Array]) {
    let loc = Loc::caller();
    if condition.dtype() != DType::Bool {
        let error = RuleError::dtype(format!("needs a bool condition, got {}", condition.aval()));
        throw_operands("check", error, &[condition]);
    }
    let function = match checking(USER_CHECK, message, names, loc) {
        Ok(function) => function,
        Err(message) => throw_operands("check", RuleError::value(message), arrays),
    };
    let mut operands = vec![condition];
    operands.extend_from_slice(arrays);
    run_or_bind(check_call(USER_CHECK, function), &operands);
}

/// Fails the program if a condition on the operands of the operation `name`, at `loc`, is false.
pub(super) fn check_operation(name: &str, check: &OperandCheck, loc: Loc) {
    let OperandCheck { condition, message, fields } = check;
    let names = vec![String::new(); fields.len()];
    let function = match checking(name, message, &names, loc) {
        Ok(function) => function,
        Err(message) => throw_operands(name, RuleError::value(message), &[condition]),
    };
    let operands: Vec<&Array> = std::iter::once(condition).chain(fields).collect();
    run_or_bind(check_call(OPERATION_CHECK, function), &operands);
}

/// The name of a check of operands.
const OPERATION_CHECK: &str = "operand_check";

fn check_call(name: &'static str, function: HostFunction) -> HostCall {
    HostCall {
        failure: CallbackFailure::AtCall,
        ..HostCall::with_effects(name, function, CallbackOptions::default())
    }
}

/// Returns the host function of a check, whose operands are the condition and the fields.
///
/// # Errors
/// A description of the mistake in the message.
fn checking(
    operation: &str,
    message: &str,
    names: &[String],
    loc: Loc,
) -> Result<HostFunction, String> {
    let parsed = Format::parse(message, names)?;
    let operation = operation.to_owned();
    let text = HostFunctionText::Check {
        message: message.to_string(),
        names: names.to_vec(),
        operation: Some(operation.clone()).filter(|operation| operation != USER_CHECK),
    };
    // Two checks are equal if their operations, messages and lines are.
    let key = format!("{operation}\n{message}\n{names:?}\n{loc}");
    let n_fields = names.len();
    Ok(HostFunction::with_text::<Check>(loc, key, text, move |operands| {
        let Some((condition, arrays)) = operands.split_first().filter(|(_, x)| x.len() == n_fields)
        else {
            let message = format!("takes {} operands, got {}", n_fields + 1, operands.len());
            return Err(trace::op_error(OpErrorKind::Bug, &operation, message, loc));
        };
        if condition.as_bytes().iter().all(|&holds| holds != 0) {
            return Ok(Vec::new());
        }
        let message = parsed.apply(arrays);
        Err(trace::op_error(OpErrorKind::Value, &operation, message, loc))
    }))
}

/// Reads a check in the text of a program, as `Program` prints it.
pub(crate) const CHECK: RegistryEntry = RegistryEntry::new("callback", read_check, Vec::new);

fn read_check(parameters: serde_json::Value, _: Vec<Program>) -> RuleResult<Arc<dyn Primitive>> {
    fn function_of(text: &HostFunctionText) -> Result<(&'static str, HostFunction), String> {
        match text {
            HostFunctionText::Check { message, names, operation } => {
                let kind = if operation.is_some() { OPERATION_CHECK } else { USER_CHECK };
                let operation = operation.as_deref().unwrap_or(USER_CHECK);
                Ok((kind, checking(operation, message, names, Loc::UNKNOWN)?))
            }
            HostFunctionText::Batched { function, mapped, size } => {
                let (kind, function) = function_of(function)?;
                Ok((kind, function.batched(mapped, *size)))
            }
        }
    }
    let text = parameters.get("function").cloned().unwrap_or_default();
    let text: HostFunctionText = serde_json::from_value(text)
        .map_err(|_| RuleError::unsupported("a callback holds a closure of another process"))?;
    let (kind, function) = function_of(&text).map_err(RuleError::value)?;
    Ok(Arc::new(check_call(kind, function)))
}

/// The type that identifies checking closures.
struct Check;
