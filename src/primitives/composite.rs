//! Lowering by array functions, for operations that StableHLO does not have.
//!
//! A rule written with ordinary array functions is traced when the operation is lowered, and the
//! traced program is written in its place. Loops are written around traced bodies, so that a series
//! is summed until it converges.

use super::convert::convert_element_type;
use super::rules::element_dtype;
use crate::core::trace::{Mode, Tracing};
use crate::core::{Array, Aval, DType, LowerCtx, Program, RuleResult};
use crate::stablehlo::{Region, TensorType, Value};

/// Combines the partial results of two adjacent ranges. Each may consist of several arrays.
pub(super) type Combine<'a> = &'a dyn Fn(&[Array], &[Array]) -> Vec<Array>;

/// Traces `f` on operands of the values' types.
fn traced(operands: &[Value], f: impl FnOnce(&[Array]) -> Vec<Array>) -> Program {
    let mut f = Some(f);
    traced_dyn(operands, &mut |inputs| f.take().map(|f| f(inputs)).unwrap_or_default())
}

/// The body of [`traced`], compiled once for all closures.
fn traced_dyn(operands: &[Value], f: &mut dyn FnMut(&[Array]) -> Vec<Array>) -> Program {
    let tracing = Tracing::begin(Mode::All, None);
    let inputs: Vec<Array> = operands
        .iter()
        .map(|value| tracing.input(Aval::new(element_dtype(value), value.ty().dims())))
        .collect();
    let outputs = f(&inputs);
    let (program, captures) = tracing.finish(&outputs);
    assert!(captures.is_empty(), "a lowering rule uses its operands alone");
    program
}

/// Writes the operations of `f`, applied to the operands, in place.
pub(super) fn lower_by(
    ctx: &mut LowerCtx<'_>,
    operands: &[Value],
    f: impl FnOnce(&[Array]) -> Vec<Array>,
) -> RuleResult<Vec<Value>> {
    let program = traced(operands, f);
    ctx.inline(&program, operands)
}

/// [`lower_by`], compiled once for all closures.
pub(super) fn lower_by_dyn(
    ctx: &mut LowerCtx<'_>,
    operands: &[Value],
    f: &mut dyn FnMut(&[Array]) -> Vec<Array>,
) -> RuleResult<Vec<Value>> {
    let program = traced_dyn(operands, f);
    ctx.inline(&program, operands)
}

/// Applies `f` to two-bit operands converted to bytes; `None` if no operand has two-bit elements.
///
/// XLA's CPU compiler (C API 0.115) aborts the process on two-bit parts of a `concatenate`, refuses
/// them in a `reduce` of pairs, and sorts them wrongly.
pub(super) fn lower_two_bits(
    ctx: &mut LowerCtx<'_>,
    operands: &[Value],
    results: &[Aval],
    f: impl FnOnce(&[Array]) -> Vec<Array>,
) -> Option<RuleResult<Vec<Value>>> {
    let is_narrow = |operand: &Value| element_dtype(operand).bits() == 2;
    if !operands.iter().any(is_narrow) {
        return None;
    }
    let byte = |x: &Array| match x.dtype() {
        DType::I2 => convert_element_type(x, DType::I8),
        DType::U2 => convert_element_type(x, DType::U8),
        _ => x.clone(),
    };
    Some(lower_by(ctx, operands, |operands| {
        let outputs = f(&operands.iter().map(byte).collect::<Vec<_>>());
        let pairs = outputs.iter().zip(results);
        pairs.map(|(output, result)| convert_element_type(output, result.dtype)).collect()
    }))
}

/// Writes `f` as a function called `name`, which equal calls share, and a call of it.
pub(super) fn lower_as_function(
    ctx: &mut LowerCtx<'_>,
    name: &str,
    operands: &[Value],
    f: impl FnOnce(&[Array]) -> Vec<Array>,
) -> RuleResult<Vec<Value>> {
    let program = traced(operands, f);
    ctx.call(&program, name, operands)
}

/// Writes a `stablehlo.while` around two traced functions of the state: the condition, a scalar
/// `bool`, and the next state.
pub(super) fn lower_while(
    ctx: &mut LowerCtx<'_>,
    state: &[Value],
    condition: impl FnOnce(&[Array]) -> Array,
    next: impl FnOnce(&[Array]) -> Vec<Array>,
) -> RuleResult<Vec<Value>> {
    let types: Vec<TensorType> = state.iter().map(|value| value.ty().clone()).collect();
    let condition = traced(state, |state| vec![condition(state)]);
    let next = traced(state, next);
    let regions = vec![region(ctx, &types, &condition)?, region(ctx, &types, &next)?];
    Ok(ctx.op_full("while", state, "", regions, &types))
}

fn region(ctx: &mut LowerCtx<'_>, types: &[TensorType], program: &Program) -> RuleResult<Region> {
    let (outside, arguments) = ctx.open_region(types);
    let results = ctx.inline(program, &arguments)?;
    Ok(ctx.close_region(outside, &results))
}
