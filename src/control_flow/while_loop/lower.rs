//! Writing a loop whose length is not known.

use super::WhileLoop;
use crate::core::{Effects, LowerCtx, Primitive, RuleResult};
use crate::stablehlo::{TensorType, Value};

/// Writes the loop. The regions see the constants outside of them.
///
/// A condition with ordered side effects cannot hand on its token. It is written in front of the loop
/// and at the end of the body instead, and what it says is carried.
pub(super) fn lower(
    whole: &WhileLoop,
    ctx: &mut LowerCtx<'_>,
    operands: &[Value],
) -> RuleResult<Vec<Value>> {
    let carries = operands[whole.carries()].to_vec();
    let ordered = whole.effects() == Effects::Ordered;
    let said_ahead = whole.cond.effects() == Effects::Ordered;
    let condition = |ctx: &mut LowerCtx<'_>, carries: &[Value]| {
        let inputs = [&operands[..whole.n_cond_consts], carries].concat();
        ctx.inline(&whole.cond, &inputs)
    };
    let mut initial = carries.clone();
    if said_ahead {
        initial.extend(condition(ctx, &carries)?);
    }
    if ordered {
        initial.push(ctx.token());
    }
    if initial.is_empty() {
        // Nothing is carried, so nothing comes out.
        return Ok(Vec::new());
    }
    let types: Vec<TensorType> = initial.iter().map(|value| value.ty().clone()).collect();
    let n = carries.len();

    let (outside, arguments) = ctx.open_region(&types);
    let go_on = match said_ahead {
        true => vec![arguments[n].clone()],
        false => condition(ctx, &arguments[..n])?,
    };
    let cond = ctx.close_region(outside, &go_on);

    let (outside, arguments) = ctx.open_region(&types);
    if ordered {
        ctx.set_token(arguments[types.len() - 1].clone());
    }
    let consts = &operands[whole.n_cond_consts..whole.n_consts()];
    let mut next = ctx.inline(&whole.body, &[consts, &arguments[..n]].concat())?;
    if said_ahead {
        let go_on = condition(ctx, &next)?;
        next.extend(go_on);
    }
    if ordered {
        next.push(ctx.token());
    }
    let body = ctx.close_region(outside, &next);

    let mut results = ctx.op_full("while", &initial, "", vec![cond, body], &types);
    if ordered {
        ctx.set_token(results[types.len() - 1].clone());
    }
    results.truncate(n);
    Ok(results)
}
