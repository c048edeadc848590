//! Writing a scan: a loop with a counter, or its steps one after the other.

use super::Scan;
use crate::core::{Aval, Effects, LowerCtx, Primitive, RuleResult, Scalar};
use crate::stablehlo::{TensorType, Value, i64_array};

/// What is carried from step to step.
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

    fn from(mut values: Vec<Value>, n_carry: usize) -> State {
        let ys = values.split_off(n_carry);
        State { carry: values, ys }
    }
}

/// What every step sees.
struct Loop<'a> {
    scan: &'a Scan,
    consts: &'a [Value],
    xs: &'a [Value],
    counter: TensorType,
}

/// Writes the scan. A body of several steps runs `length / unroll` times; the steps that are left stand
/// behind the loop.
pub(super) fn lower(
    scan: &Scan,
    ctx: &mut LowerCtx<'_>,
    operands: &[Value],
    results: &[Aval],
) -> RuleResult<Vec<Value>> {
    let carries = scan.carries();
    let counter = if i32::try_from(scan.length).is_ok() { "i32" } else { "i64" };
    let steps = Loop {
        scan,
        consts: &operands[..carries.start],
        xs: &operands[carries.end..],
        counter: TensorType::new(counter, &[]),
    };
    let empty = |ctx: &mut LowerCtx<'_>, aval: &Aval| {
        ctx.constant(&Scalar::Int(0).stablehlo(aval.dtype), &aval.stablehlo())
    };
    let ys = results[scan.n_carry..].iter().map(|aval| empty(ctx, aval)).collect();
    let mut state = State { carry: operands[carries].to_vec(), ys };
    let unroll = match scan.unroll {
        0 => scan.length,
        unroll => unroll.min(scan.length),
    };
    if unroll == 0 {
        return Ok(state.values());
    }
    let trips = scan.length / unroll;
    let mut written = 0;
    if trips > 1 {
        state = steps.rolled(ctx, state, trips, unroll)?;
        written = trips * unroll;
    }
    for step in written..scan.length {
        let at = steps.number(ctx, step);
        state = steps.step(ctx, &at, state)?;
    }
    Ok(state.values())
}

impl Loop<'_> {
    fn number(&self, ctx: &mut LowerCtx<'_>, value: usize) -> Value {
        ctx.constant(&value.to_string(), &self.counter)
    }

    /// `trips` iterations of `unroll` steps each.
    fn rolled(
        &self,
        ctx: &mut LowerCtx<'_>,
        state: State,
        trips: usize,
        unroll: usize,
    ) -> RuleResult<State> {
        let n_carry = state.carry.len();
        let mut initial = vec![self.number(ctx, 0)];
        let ordered = self.scan.effects() == Effects::Ordered;
        let limit = self.number(ctx, trips * unroll);
        let stride = self.number(ctx, unroll);
        initial.extend(state.values());
        if ordered {
            initial.push(ctx.token());
        }
        let types: Vec<TensorType> = initial.iter().map(|value| value.ty().clone()).collect();

        let (outside, arguments) = ctx.open_region(&types);
        let less = "comparison_direction = #stablehlo<comparison_direction LT>, \
                    compare_type = #stablehlo<comparison_type SIGNED>";
        let more = ctx.op_as("compare", &[arguments[0].clone(), limit], less, &self.flag());
        let condition = ctx.close_region(outside, &[more]);

        let (outside, mut arguments) = ctx.open_region(&types);
        if ordered && let Some(token) = arguments.pop() {
            ctx.set_token(token);
        }
        let first = &arguments[0];
        let mut state = State::from(arguments[1..].to_vec(), n_carry);
        for offset in 0..unroll {
            let at = match offset {
                0 => first.clone(),
                _ => {
                    let offset = self.number(ctx, offset);
                    ctx.op("add", &[first.clone(), offset])
                }
            };
            state = self.step(ctx, &at, state)?;
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
        Ok(State::from(results.split_off(1), n_carry))
    }

    fn flag(&self) -> TensorType {
        TensorType::new("i1", &[])
    }

    /// One step: reads an element of each of `xs`, applies the body, writes one of each of `ys`.
    fn step(&self, ctx: &mut LowerCtx<'_>, step: &Value, state: State) -> RuleResult<State> {
        let at = match self.scan.reverse {
            false => step.clone(),
            true => {
                let last = self.number(ctx, self.scan.length - 1);
                ctx.op("subtract", &[last, step.clone()])
            }
        };
        let zero = match self.xs.iter().chain(&state.ys).any(|array| array.ty().dims().len() > 1) {
            true => Some(self.number(ctx, 0)),
            false => None,
        };
        let starts = |array: &Value| {
            let zeros = std::iter::repeat_n(&zero, array.ty().dims().len() - 1).flatten();
            std::iter::once(&at).chain(zeros).cloned().collect::<Vec<_>>()
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
