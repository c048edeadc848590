//! Lowering of a loop of unknown length.

use super::WhileLoop;
use crate::core::{Effects, LowerCtx, Primitive, RuleResult};
use crate::stablehlo::{TensorType, Value};

/// Lowers the loop. The regions use the constants of the enclosing scope.
///
/// A condition region cannot return a token. A condition with ordered side effects is therefore
/// lowered before the loop and at the end of the body, and its result is carried.
pub(super) fn lower(
    whole: &WhileLoop,
    ctx: &mut LowerCtx<'_>,
    operands: &[Value],
) -> RuleResult<Vec<Value>> {
    let carry = operands[whole.n_consts()..].to_vec();
    let ordered = whole.effects() == Effects::Ordered;
    let carries_condition = whole.cond.effects() == Effects::Ordered;
    let condition = |ctx: &mut LowerCtx<'_>, carry: &[Value]| {
        let inputs = [&operands[..whole.n_cond_consts], carry].concat();
        ctx.inline(&whole.cond, &inputs)
    };
    let mut initial = carry.clone();
    if carries_condition {
        initial.extend(condition(ctx, &carry)?);
    }
    if ordered {
        initial.push(ctx.token());
    }
    if initial.is_empty() {
        // Without carries there are no results.
        return Ok(Vec::new());
    }
    let types: Vec<TensorType> = initial.iter().map(|value| value.ty().clone()).collect();
    let n_carry = carry.len();

    let (outside, arguments) = ctx.open_region(&types);
    let continues = if carries_condition {
        vec![arguments[n_carry].clone()]
    } else {
        condition(ctx, &arguments[..n_carry])?
    };
    let cond = ctx.close_region(outside, &continues);

    let (outside, arguments) = ctx.open_region(&types);
    if ordered {
        ctx.set_token(arguments[types.len() - 1].clone());
    }
    let consts = &operands[whole.n_cond_consts..whole.n_consts()];
    let mut next = ctx.inline(&whole.body, &[consts, &arguments[..n_carry]].concat())?;
    if carries_condition {
        let continues = condition(ctx, &next)?;
        next.extend(continues);
    }
    if ordered {
        next.push(ctx.token());
    }
    let body = ctx.close_region(outside, &next);

    let mut results = ctx.op_full("while", &initial, "", vec![cond, body], &types);
    if ordered {
        ctx.set_token(results[types.len() - 1].clone());
    }
    results.truncate(n_carry);
    Ok(results)
}
