//! Lowering by other primitives: for operations that StableHLO does not have.
//!
//! A rule that is written with ordinary functions of arrays is traced when it is lowered, and what was
//! traced is written in its place. Loops are written around traced bodies, so that a series can be
//! summed until it converges.

use super::convert::convert_element_type;
use super::rules::element_dtype;
use crate::core::trace::{Mode, Tracing};
use crate::core::{Array, Aval, DType, LowerCtx, Program, RuleResult};
use crate::stablehlo::{Region, TensorType, Value};

/// How two stretches of arrays that follow each other become one; each may be several arrays that go together.
pub(super) type Combine<'a> = &'a dyn Fn(&[Array], &[Array]) -> Vec<Array>;

/// Traces `f` on operands of the values' types.
fn traced(operands: &[Value], f: impl FnOnce(&[Array]) -> Vec<Array>) -> Program {
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

/// Writes what `f` does with the operands, in place.
pub(super) fn lower_by(
    ctx: &mut LowerCtx<'_>,
    operands: &[Value],
    f: impl FnOnce(&[Array]) -> Vec<Array>,
) -> RuleResult<Vec<Value>> {
    let program = traced(operands, f);
    ctx.inline(&program, operands)
}

/// Writes what `f` does with operands of two bits an element by way of bytes: XLA's CPU compiler (C API 0.115)
/// aborts the process on such parts of a `concatenate`, refuses them in a `reduce` of pairs, and sorts them wrongly.
/// `None` if there is no such operand.
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

/// Writes what `f` does with the operands as a function called `name`, which equal uses share.
pub(super) fn lower_as_function(
    ctx: &mut LowerCtx<'_>,
    name: &str,
    operands: &[Value],
    f: impl FnOnce(&[Array]) -> Vec<Array>,
) -> RuleResult<Vec<Value>> {
    let program = traced(operands, f);
    ctx.call(&program, name, operands)
}

/// Writes a `stablehlo.while` around two traced functions of the state: whether to go on, a scalar
/// `bool`, and the next state.
pub(super) fn lower_while(
    ctx: &mut LowerCtx<'_>,
    state: &[Value],
    go_on: impl FnOnce(&[Array]) -> Array,
    next: impl FnOnce(&[Array]) -> Vec<Array>,
) -> RuleResult<Vec<Value>> {
    let types: Vec<TensorType> = state.iter().map(|value| value.ty().clone()).collect();
    let go_on = traced(state, |state| vec![go_on(state)]);
    let next = traced(state, next);
    let regions = vec![region(ctx, &types, &go_on)?, region(ctx, &types, &next)?];
    Ok(ctx.op_full("while", state, "", regions, &types))
}

fn region(ctx: &mut LowerCtx<'_>, types: &[TensorType], program: &Program) -> RuleResult<Region> {
    let (outside, arguments) = ctx.open_region(types);
    let results = ctx.inline(program, &arguments)?;
    Ok(ctx.close_region(outside, &results))
}
