//! Calls from a compiled program to a closure on the host.

mod on_each_device;

use super::broadcast_in_dim;
use super::rules::batch_at;
use crate::core::{
    Analysis, Array, Aval, BatchAxis, Batched, Cost, DType, Effects, Exemplar, HostArray,
    HostFunction, JvpResult, LowerCtx, Primitive, Program, RuleError, RuleResult, Sample, Tangent,
    TextForm, TransferredCall, bind,
};
use crate::ensure_dtype;
use crate::stablehlo::{TensorType, Value};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Calls a host function.
///
/// | | |
/// |-|-|
/// | operands   | any number, `x: any[…]`, but for dtypes of less than 8 bits |
/// | results    | of the types named |
/// | lowering   | on CPU and GPU a custom call through XLA's foreign function interface; on TPU `stablehlo.send` and `recv` |
/// | derivative | none of its results; a callback without results is left alone |
///
/// In a `shard_map` over all mesh axes, each device calls the function with its shards. In other
/// programs over several devices, the first device calls the function once with whole arrays.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Callback {
    /// The name used in errors.
    pub name: &'static str,
    /// The host function.
    pub function: HostFunction,
    /// The types of the results.
    #[serde(skip)]
    pub results: Vec<Aval>,
    /// [`Effects::None`] for a pure function: the compiler may drop, repeat and move its calls.
    /// Others run once per execution, in any order or in program order.
    pub effects: Effects,
    /// The way in which the function is batched.
    pub vmap_method: VmapMethod,
    /// The way in which a failure of the function is reported.
    pub failure: CallbackFailure,
}

/// The way in which `vmap` batches a host function, as JAX's `vmap_method`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum VmapMethod {
    /// The function is called once for each example, in order.
    #[default]
    Sequential,
    /// As `Sequential`, with one call in the program for each example instead of a loop.
    SequentialUnrolled,
    /// The function is called once, with a leading batch axis on every operand. Operands that are
    /// equal for all examples have size 1 along it. The results have the leading axis.
    ExpandDims,
    /// The function is called once, with a leading batch axis of full size on every operand. The
    /// results have it too.
    BroadcastAll,
    /// The function is called once, with a leading batch axis on the operands that differ between
    /// examples. Operands that are equal for all examples have none. The results have the axis.
    LegacyVectorized,
}

/// The way in which a failure of a host function is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum CallbackFailure {
    /// The function never fails.
    Never,
    /// Reading the program's results returns the error.
    AtResults,
    /// Calls of the program wait for the device and return the error.
    AtCall,
}

/// The name of a check that the user wrote.
pub(crate) const USER_CHECK: &str = "check";

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
        let front = |x: &Array| {
            let dims: Vec<usize> = (1..=x.rank()).collect();
            let size = if self.vmap_method == VmapMethod::ExpandDims { 1 } else { axis.size };
            broadcast_in_dim(x, x.shape().insert(0, size), &dims)
        };
        let operands: Vec<Array> = operands
            .iter()
            .zip(axes)
            .map(|(x, from)| match from {
                Some(_) => batch_at(x, *from, 0, axis),
                None => match self.vmap_method {
                    VmapMethod::ExpandDims | VmapMethod::BroadcastAll => front(x),
                    _ => x.clone(),
                },
            })
            .collect();
        let wide = |aval: &Aval| aval.with_shape(aval.shape.insert(0, axis.size));
        let function = match self.vmap_method {
            VmapMethod::Sequential | VmapMethod::SequentialUnrolled => {
                self.function.batched(&mapped, axis.size)
            }
            _ => self.function.clone(),
        };
        let batched =
            Callback { function, results: self.results.iter().map(wide).collect(), ..self.clone() };
        if axis.size == 0 && self.effects == Effects::None {
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
        let manual = ctx.manual().map(|manual| manual.axes.len() == manual.mesh.axes().len());
        if manual == Some(false) && self.effects != Effects::None {
            let message = format!(
                "{} in a map over some axes of a mesh: the compiler partitions the others",
                self.name
            );
            return Err(RuleError::unsupported(message).help("map over all axes of the mesh"));
        }
        // A failure on one of several devices would leave the others waiting.
        let contained = ctx.is_partitioned() || ctx.platform() == "tpu";
        let waits = match self.failure {
            CallbackFailure::Never => false,
            CallbackFailure::AtResults => contained,
            CallbackFailure::AtCall => true,
        };
        // Outside of maps, devices other than the first one have nothing to add.
        let on_first = ctx.is_partitioned() && manual.is_none();
        match (ctx.platform(), ctx.partition().cloned()) {
            ("cpu" | "cuda", Some(mesh)) if on_first && self.effects != Effects::None => {
                ctx.record_host_call(self.function.id(), waits);
                self.lower_on_each_device(ctx, &mesh, operands, results)
            }
            ("cpu" | "cuda", _) => {
                ctx.record_host_call(self.function.id(), waits);
                Ok(self.lower_ffi(ctx, operands, results, contained, on_first))
            }
            ("tpu", _) => {
                ctx.record_host_call(self.function.id(), waits);
                Ok(self.lower_transfer(ctx, operands, results, on_first))
            }
            (platform, _) => Err(RuleError::unsupported(format!(
                "{} does not reach the host from {platform} yet",
                self.name
            ))),
        }
    }

    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::movement(operands, results)
    }

    fn effects(&self) -> Effects {
        self.effects
    }

    fn is_opaque(&self) -> bool {
        true
    }

    fn text_form(&self) -> TextForm {
        match self.function.text() {
            Some(_) => TextForm::Same,
            None if self.results.is_empty() => TextForm::Omitted,
            None => TextForm::None,
        }
    }

    fn analysis(&self) -> Option<&dyn Analysis> {
        Some(self)
    }
}

impl Analysis for Callback {
    fn is_user_check(&self) -> bool {
        self.name == USER_CHECK
    }

    fn kernel_obstacle(&self) -> Option<&'static str> {
        Some("calls a host function")
    }
}

impl Callback {
    fn lower_ffi(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
        contained: bool,
        on_first: bool,
    ) -> Vec<Value> {
        let attributes = format!(
            "call_target_name = \"oxidax.callback\", api_version = 4 : i32, has_side_effect = {}, \
             backend_config = {{contained = {contained}, id = {} : i64}}",
            self.effects != Effects::None,
            self.function.id()
        );
        let ordered = self.effects == Effects::Ordered;
        let (mut all, mut types) = (Vec::new(), Vec::new());
        if ordered {
            all.push(ctx.token());
            types.push(TensorType::token());
        }
        all.extend_from_slice(operands);
        types.extend(results.iter().map(Aval::stablehlo));
        let annotations = if on_first { ctx.on_first_device(types.len()) } else { String::new() };
        let mut values = ctx.op_annotated(
            "stablehlo.custom_call",
            &all,
            &attributes,
            Vec::new(),
            &annotations,
            &types,
        );
        if ordered {
            ctx.set_token(values.remove(0));
        }
        values
    }

    /// One transfer to the host per operand, then one transfer back per result. Without operands a
    /// number starts the call, and without results a number ends it. Empty arrays are not
    /// transferred.
    fn lower_transfer(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
        on_first: bool,
    ) -> Vec<Value> {
        let ordered = self.effects == Effects::Ordered;
        // Transfers need their own token chain, even if the callback may move.
        let token = match ordered {
            true => ctx.token(),
            false => ctx.op_as("create_token", &[], "", &TensorType::token()),
        };
        let number = Aval::new(DType::F32, [1]);
        let mut chain = Transfers { ctx, token, on_first };
        let mut call = TransferredCall {
            function: self.function.id(),
            operands: Vec::new(),
            start: None,
            results: Vec::new(),
            end: None,
        };
        for operand in operands {
            let aval = aval_of(operand);
            let channel = (aval.size() > 0).then(|| chain.send(operand));
            call.operands.push((channel, aval));
        }
        if call.operands.iter().all(|(channel, _)| channel.is_none()) {
            let zero = chain.ctx.constant("0.0", &number.stablehlo());
            call.start = Some(chain.send(&zero));
        }
        let mut values = Vec::new();
        for aval in results {
            let ty = aval.stablehlo();
            if aval.size() == 0 {
                values.push(chain.ctx.constant("", &ty));
                call.results.push((None, aval.clone()));
                continue;
            }
            let (channel, value) = chain.receive(&ty);
            call.results.push((Some(channel), aval.clone()));
            values.push(value);
        }
        if call.results.iter().all(|(channel, _)| channel.is_none()) {
            call.end = Some(chain.receive(&number.stablehlo()).0);
        }
        let Transfers { ctx, token, .. } = chain;
        if ordered {
            ctx.set_token(token);
        }
        ctx.record_host_transfer(call);
        values
    }
}

/// Returns the type of an operand.
fn aval_of(operand: &Value) -> Aval {
    let ty = operand.ty();
    let dtype = DType::all().find(|dtype| dtype.stablehlo() == ty.element());
    Aval::new(dtype.expect("operands are arrays"), ty.dims())
}

/// Transfers between device and host, in the order of a token.
struct Transfers<'c, 'a> {
    ctx: &'c mut LowerCtx<'a>,
    token: Value,
    on_first: bool,
}

impl Transfers<'_, '_> {
    /// Sends a value to the host and returns the channel.
    fn send(&mut self, value: &Value) -> usize {
        let operands = [value.clone(), self.token.clone()];
        let (channel, mut results) = self.transfer("send", 2, &operands, &[TensorType::token()]);
        self.token = results.remove(0);
        channel
    }

    /// Receives a value from the host. Returns the channel and the value.
    fn receive(&mut self, ty: &TensorType) -> (usize, Value) {
        let types = [ty.clone(), TensorType::token()];
        let token = [self.token.clone()];
        let (channel, mut results) = self.transfer("recv", 3, &token, &types);
        self.token = results.remove(1);
        (channel, results.remove(0))
    }

    /// Writes a transfer over a new channel. Kind 2 goes to the host, kind 3 comes from the host.
    fn transfer(
        &mut self,
        name: &str,
        kind: usize,
        operands: &[Value],
        results: &[TensorType],
    ) -> (usize, Vec<Value>) {
        let channel = self.ctx.channel();
        let attributes = format!(
            "channel_handle = #stablehlo.channel_handle<handle = {channel}, type = {kind}>, \
             is_host_transfer = true"
        );
        let mut annotations = format!(
            "mhlo.frontend_attributes = {{_xla_host_transfer_handler_name = \"pjrt_rendezvous\", \
             _xla_host_transfer_rendezvous = \"{channel}\"}}"
        );
        if self.on_first {
            let sharding = self.ctx.on_first_device(results.len());
            annotations.push_str(&format!(", {sharding}"));
        }
        let values =
            self.ctx.op_annotated(name, operands, &attributes, Vec::new(), &annotations, results);
        (channel, values)
    }
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
    let exemplar = |effects, shape: &[usize]| {
        let callback = Callback {
            name: "twice",
            function: twice(),
            results: vec![Aval::new(DType::I32, shape)],
            effects,
            vmap_method: VmapMethod::Sequential,
            failure: CallbackFailure::AtResults,
        };
        let numbers = Sample::uniform(DType::I32, shape, -5.0, 5.0);
        let unused = Sample::uniform(DType::F32, [2], -1.0, 1.0);
        Exemplar::new(callback, [numbers, unused])
    };
    vec![
        exemplar(Effects::None, &[2, 3]),
        exemplar(Effects::Ordered, &[]),
        exemplar(Effects::Unordered, &[2]),
        exemplar(Effects::None, &[0]),
        exemplar(Effects::None, &[1]),
    ]
}

/// Calls a host function on `operands`. `results` are the types of its results.
///
/// Callbacks with effects run once per execution and keep the computation of their
/// operands alive. See [`Callback`] for its rules.
#[track_caller]
pub fn callback(callback: Callback, operands: &[&Array]) -> Vec<Array> {
    bind(callback, operands)
}
