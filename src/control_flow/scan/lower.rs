//! Lowering of a scan: a loop with a counter, or its steps one after the other.

use super::Scan;
use crate::core::{Aval, Effects, LowerCtx, Primitive, RuleResult, Scalar};
use crate::stablehlo::{TensorType, Value, i64_array};

/// The values that pass from step to step.
struct State {
    carry: Vec<Value>,
    ys: Vec<Value>,
}

impl State {
    fn values(self) -> Vec<Value> {
        let State { mut carry, ys } = self;
        carry.extend(ys);
        carry
    }

    fn new(mut values: Vec<Value>, n_carry: usize) -> State {
        let ys = values.split_off(n_carry);
        State { carry: values, ys }
    }
}

/// The values that every step uses.
struct Loop<'a> {
    scan: &'a Scan,
    consts: &'a [Value],
    xs: &'a [Value],
    counter: TensorType,
}

/// Lowers the scan. A loop body of several steps runs `length / unroll` times. The remaining steps
/// follow the loop.
pub(super) fn lower(
    scan: &Scan,
    ctx: &mut LowerCtx<'_>,
    operands: &[Value],
    results: &[Aval],
) -> RuleResult<Vec<Value>> {
    let counter = if i32::try_from(scan.length).is_ok() { "i32" } else { "i64" };
    let steps = Loop {
        scan,
        consts: &operands[..scan.n_consts],
        xs: &operands[scan.n_consts + scan.n_carry..],
        counter: TensorType::new(counter, &[]),
    };
    let empty = |ctx: &mut LowerCtx<'_>, aval: &Aval| {
        ctx.constant(&Scalar::Int(0).stablehlo(aval.dtype), &aval.stablehlo())
    };
    let ys = results[scan.n_carry..].iter().map(|aval| empty(ctx, aval)).collect();
    let mut state = State { carry: operands[scan.n_consts..][..scan.n_carry].to_vec(), ys };
    let unroll = scan.unroll.clamp(1, scan.length.max(1));
    let iterations = scan.length / unroll;
    let mut first_after_loop = 0;
    if iterations > 1 {
        state = steps.lower_loop(ctx, state, iterations, unroll)?;
        first_after_loop = iterations * unroll;
    }
    for step in first_after_loop..scan.length {
        let step = steps.number(ctx, step);
        state = steps.lower_step(ctx, &step, state)?;
    }
    Ok(state.values())
}

impl Loop<'_> {
    fn number(&self, ctx: &mut LowerCtx<'_>, value: usize) -> Value {
        ctx.constant(&value.to_string(), &self.counter)
    }

    /// Lowers a loop of `iterations` iterations with `unroll` steps each.
    fn lower_loop(
        &self,
        ctx: &mut LowerCtx<'_>,
        state: State,
        iterations: usize,
        unroll: usize,
    ) -> RuleResult<State> {
        let n_carry = state.carry.len();
        let mut initial = vec![self.number(ctx, 0)];
        let ordered = self.scan.effects() == Effects::Ordered;
        let limit = self.number(ctx, iterations * unroll);
        let stride = self.number(ctx, unroll);
        initial.extend(state.values());
        if ordered {
            initial.push(ctx.token());
        }
        let types: Vec<TensorType> = initial.iter().map(|value| value.ty().clone()).collect();

        let (outside, arguments) = ctx.open_region(&types);
        let less = "comparison_direction = #stablehlo<comparison_direction LT>, \
                    compare_type = #stablehlo<comparison_type SIGNED>";
        let is_less =
            ctx.op_as("compare", &[arguments[0].clone(), limit], less, &TensorType::new("i1", &[]));
        let condition = ctx.close_region(outside, &[is_less]);

        let (outside, mut arguments) = ctx.open_region(&types);
        if ordered && let Some(token) = arguments.pop() {
            ctx.set_token(token);
        }
        let first = &arguments[0];
        let mut state = State::new(arguments[1..].to_vec(), n_carry);
        for offset in 0..unroll {
            let step = if offset == 0 {
                first.clone()
            } else {
                let offset = self.number(ctx, offset);
                ctx.op("add", &[first.clone(), offset])
            };
            state = self.lower_step(ctx, &step, state)?;
        }
        let mut next = vec![ctx.op("add", &[first.clone(), stride])];
        next.extend(state.values());
        if ordered {
            next.push(ctx.token());
        }
        let body = ctx.close_region(outside, &next);
        let mut results = ctx.op_full("while", &initial, "", vec![condition, body], &types);
        if ordered && let Some(token) = results.pop() {
            ctx.set_token(token);
        }
        Ok(State::new(results.split_off(1), n_carry))
    }

    /// Lowers one step: reads an element of each of `xs`, applies the body, writes an element of
    /// each of `ys`.
    fn lower_step(&self, ctx: &mut LowerCtx<'_>, step: &Value, state: State) -> RuleResult<State> {
        let index = if self.scan.reverse {
            let last = self.number(ctx, self.scan.length - 1);
            ctx.op("subtract", &[last, step.clone()])
        } else {
            step.clone()
        };
        let needs_zero = self.xs.iter().chain(&state.ys).any(|array| array.ty().dims().len() > 1);
        let zero = needs_zero.then(|| self.number(ctx, 0));
        let starts = |array: &Value| {
            let zeros = std::iter::repeat_n(&zero, array.ty().dims().len() - 1).flatten();
            std::iter::once(&index).chain(zeros).cloned().collect::<Vec<_>>()
        };
        let mut inputs = self.consts.to_vec();
        inputs.extend(state.carry);
        for x in self.xs {
            let mut sizes = x.ty().dims().to_vec();
            sizes[0] = 1;
            let mut operands = vec![x.clone()];
            operands.extend(starts(x));
            let attribute = format!("slice_sizes = {}", i64_array(&sizes));
            let slice =
                ctx.op_as("dynamic_slice", &operands, &attribute, &x.ty().with_dims(&sizes));
            inputs.push(ctx.op_as("reshape", &[slice], "", &x.ty().with_dims(&sizes[1..])));
        }
        let mut carry = ctx.inline(&self.scan.body, &inputs)?;
        let elements = carry.split_off(self.scan.n_carry);
        let mut ys = Vec::with_capacity(elements.len());
        for (array, element) in state.ys.iter().zip(elements) {
            let mut sizes = array.ty().dims().to_vec();
            sizes[0] = 1;
            let slice = ctx.op_as("reshape", &[element], "", &array.ty().with_dims(&sizes));
            let mut operands = vec![array.clone(), slice];
            operands.extend(starts(array));
            ys.push(ctx.op_as("dynamic_update_slice", &operands, "", array.ty()));
        }
        Ok(State { carry, ys })
    }
}
