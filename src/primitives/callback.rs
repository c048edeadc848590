//! Calls from a compiled program to a closure on the host.

use super::rules::batch_at;
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Effects, Exemplar, HostArray, HostFunction,
    JvpResult, LowerCtx, Primitive, Program, RuleError, RuleResult, Sample, Tangent, bind,
};
use crate::ensure_dtype;
use crate::stablehlo::{TensorType, Value};
use serde::Serialize;
use std::sync::Arc;

/// Calls a host function.
///
/// | | |
/// |-|-|
/// | operands   | any number, `x: any[…]`, but for dtypes of less than 8 bits |
/// | results    | of the types named |
/// | lowering   | on CPU a custom call through XLA's foreign function interface; on TPU `stablehlo.send` and `recv` |
/// | derivative | none of its results; a callback without results is left alone |
///
/// Ordered callbacks run in program order. The compiler may drop, repeat and move others.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Callback {
    /// The name used in errors.
    pub name: &'static str,
    /// The host function.
    pub function: HostFunction,
    /// The types of the results.
    #[serde(skip)]
    pub results: Vec<Aval>,
    /// Runs the callback once per execution of the equation, in program order.
    pub ordered: bool,
}

impl Primitive for Callback {
    fn name(&self) -> &'static str {
        "callback"
    }

    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        for aval in operands.iter().chain(&self.results) {
            ensure_dtype!(
                aval.dtype.bits() >= 8,
                "{} takes and gives dtypes of 8 bits and more, got {aval}",
                self.name
            );
        }
        Ok(self.results.clone())
    }

    fn jvp(&self, primals: &[Array], _: &[Tangent]) -> JvpResult {
        if self.results.iter().any(|aval| aval.dtype.is_inexact()) {
            return Err(RuleError::unsupported(format!(
                "{} has no derivative: nothing is known of the closure on the host",
                self.name
            ))
            .help(
                "give it one with `custom_jvp` or `custom_vjp`, or `stop_gradient` its operands",
            ));
        }
        let outputs = bind(self.clone(), &primals.iter().collect::<Vec<_>>());
        let tangents = outputs.iter().map(Tangent::zero_like).collect();
        Ok((outputs, tangents))
    }

    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        let mapped: Vec<bool> = axes.iter().map(Option::is_some).collect();
        let operands: Vec<Array> = operands
            .iter()
            .zip(axes)
            .map(|(x, from)| if from.is_some() { batch_at(x, *from, 0, axis) } else { x.clone() })
            .collect();
        let wide = |aval: &Aval| aval.with_shape(aval.shape.insert(0, axis.size));
        let batched = Callback {
            function: self.function.batched(&mapped, axis.size),
            results: self.results.iter().map(wide).collect(),
            ..self.clone()
        };
        if axis.size == 0 && !self.ordered {
            // An empty batch calls nothing and has empty results.
            let outputs: Vec<Array> = batched.results.iter().map(super::zeros_of).collect();
            return Ok(Batched { axes: vec![Some(0); outputs.len()], outputs });
        }
        let outputs = bind(batched, &operands.iter().collect::<Vec<_>>());
        Ok(Batched { axes: vec![Some(0); outputs.len()], outputs })
    }

    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let types: Vec<TensorType> = results.iter().map(Aval::stablehlo).collect();
        match ctx.platform() {
            "cpu" | "cuda" => {
                ctx.record_host_call();
                Ok(self.lower_ffi(ctx, operands, &types))
            }
            "tpu" => {
                ctx.record_host_transfer();
                Ok(self.lower_transfer(ctx, operands, &types))
            }
            platform => Err(RuleError::unsupported(format!(
                "{} does not reach the host from {platform} yet",
                self.name
            ))),
        }
    }

    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::movement(operands, results)
    }

    fn effects(&self) -> Effects {
        if self.ordered { Effects::Ordered } else { Effects::None }
    }

    fn is_opaque(&self) -> bool {
        true
    }
}

impl Callback {
    fn lower_ffi(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[TensorType],
    ) -> Vec<Value> {
        let attributes = format!(
            "call_target_name = \"oxidax.callback\", api_version = 4 : i32, has_side_effect = {}, \
             backend_config = {{id = {} : i64}}",
            self.ordered,
            self.function.id()
        );
        if !self.ordered {
            return ctx.op_full(
                "stablehlo.custom_call",
                operands,
                &attributes,
                Vec::new(),
                results,
            );
        }
        let mut all = vec![ctx.token()];
        all.extend_from_slice(operands);
        let mut types = vec![TensorType::token()];
        types.extend_from_slice(results);
        let mut values =
            ctx.op_full("stablehlo.custom_call", &all, &attributes, Vec::new(), &types);
        ctx.set_token(values.remove(0));
        values
    }

    /// One transfer to the host per operand, then one transfer back per result.
    fn lower_transfer(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[TensorType],
    ) -> Vec<Value> {
        // Transfers need their own token chain, even if the callback may move.
        let mut token = if self.ordered {
            ctx.token()
        } else {
            let ty = [TensorType::token()];
            ctx.op_full("stablehlo.create_token", &[], "", Vec::new(), &ty).remove(0)
        };
        for operand in operands {
            let ty = [TensorType::token()];
            token = transfer(ctx, "send", 2, &[operand.clone(), token], &ty).remove(0);
        }
        let mut values = Vec::new();
        for ty in results {
            let types = [ty.clone(), TensorType::token()];
            let mut received = transfer(ctx, "recv", 3, &[token], &types);
            token = received.remove(1);
            values.push(received.remove(0));
        }
        if self.ordered {
            ctx.set_token(token);
        }
        values
    }
}

/// Returns the attributes of a transfer over a new channel. Kind 2 goes to the host, kind 3 comes
/// from the host.
fn transfer(
    ctx: &mut LowerCtx<'_>,
    name: &str,
    kind: usize,
    operands: &[Value],
    results: &[TensorType],
) -> Vec<Value> {
    let channel = ctx.channel();
    let attributes = format!(
        "channel_handle = #stablehlo.channel_handle<handle = {channel}, type = {kind}>, \
         is_host_transfer = true"
    );
    let annotations = format!(
        "mhlo.frontend_attributes = {{_xla_host_transfer_handler_name = \"pjrt_rendezvous\", \
         _xla_host_transfer_rendezvous = \"{channel}\"}}"
    );
    ctx.op_annotated(name, operands, &attributes, Vec::new(), &annotations, results)
}

pub(super) fn make(_: serde_json::Value, _: Vec<Program>) -> RuleResult<Arc<dyn Primitive>> {
    Err(RuleError::unsupported("callback holds a closure and cannot be read from text"))
}

pub(super) fn exemplars() -> Vec<Exemplar> {
    let twice = || {
        HostFunction::new("twice", |operands| {
            let doubled: Vec<i32> =
                operands[0].to_vec::<i32>()?.iter().map(|x| x.wrapping_mul(2)).collect();
            Ok(vec![HostArray::from_slice(&doubled, operands[0].shape())?])
        })
    };
    let exemplar = |ordered, shape: &[usize]| {
        let results = vec![Aval::new(DType::I32, shape)];
        let callback = Callback { name: "twice", function: twice(), results, ordered };
        let numbers = Sample::uniform(DType::I32, shape, -5.0, 5.0);
        let unused = Sample::uniform(DType::F32, [2], -1.0, 1.0);
        Exemplar::new(callback, [numbers, unused])
    };
    vec![
        exemplar(false, &[2, 3]),
        exemplar(true, &[]),
        exemplar(false, &[0]),
        exemplar(false, &[1]),
    ]
}

/// Calls a host function on `operands`. `results` are the types of its results.
///
/// Ordered callbacks run once per execution, in program order, and keep the computation of their
/// operands alive. See [`Callback`] for its rules.
#[track_caller]
pub fn callback(callback: Callback, operands: &[&Array]) -> Vec<Array> {
    bind(callback, operands)
}
