//! `ffi_call`: the primitive that calls a foreign function. It is among the primitives that hold
//! programs because a sequential batch is a loop over its examples.

use super::map;
use crate::core::foreign::handlers::{self, CLOSURE, CLOSURE_TARGET, CONTAINED, SITE};
use crate::core::{
    Analysis, Array, Aval, BatchAxis, Batched, BufferFunction, Cost, DType, Effects, Exemplar,
    FfiAttribute, FfiAttributes, FfiFrame, JvpResult, Loc, LowerCtx, Primitive, Program, RuleError,
    RuleResult, Sample, Tangent, TextForm, bind,
};
use crate::primitives::rules::batch_at;
use crate::primitives::{
    VmapMethod, broadcast_in_dim, concatenate, reshape_to, slice_in_dim, zeros_of,
};
use crate::stablehlo::{TensorType, Value};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::sync::Arc;

/// Calls a foreign function.
///
/// | | |
/// |-|-|
/// | operands   | any number, `x: any[…]` |
/// | results    | of the types named |
/// | lowering   | `stablehlo.custom_call`, with the layouts of operands and results |
/// | derivative | none of its results; a call without floating-point results is left alone |
///
/// In a `shard_map` each device calls the function with its shards. In other programs over several
/// devices, each calls it with whole arrays.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FfiCall {
    /// The function.
    pub target: FfiTarget,
    /// The types of the results.
    #[serde(with = "avals")]
    pub results: Vec<Aval>,
    /// The constants that the function gets.
    #[serde(default, skip_serializing_if = "FfiAttributes::is_empty")]
    pub attributes: FfiAttributes,
    /// True for a function that does more than compute its results.
    pub has_side_effect: bool,
    /// The way in which `vmap` batches the function; `None` for an error.
    pub vmap_method: Option<VmapMethod>,
    /// Pairs of an operand and the result that shares its memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub input_output_aliases: Vec<(usize, usize)>,
    /// The axes of each operand from the slowest to the fastest; `None` for row-major.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub input_layouts: Vec<Option<Vec<usize>>>,
    /// The axes of each result from the slowest to the fastest; `None` for row-major.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub output_layouts: Vec<Option<Vec<usize>>>,
    /// The version of XLA's interface for custom calls.
    pub api_version: u32,
    /// The configuration of a call of a version before 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub legacy_backend_config: Option<String>,
}

/// The function that an [`FfiCall`] calls.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FfiTarget {
    /// A registered function, or one that XLA has.
    Name(String),
    /// A closure of this process.
    Closure(BufferFunction),
}

impl Serialize for FfiTarget {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            FfiTarget::Name(name) => name.serialize(serializer),
            FfiTarget::Closure(function) => function.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for FfiTarget {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FfiTarget, D::Error> {
        match String::deserialize(deserializer)? {
            text if text == "<closure>" => Err(serde::de::Error::custom(
                "a call of a closure cannot be read from text: register a named target",
            )),
            name => Ok(FfiTarget::Name(name)),
        }
    }
}

/// Types of results in the parameters of a printed program: dtype and axis sizes.
mod avals {
    use super::*;

    pub(super) fn serialize<S: Serializer>(avals: &[Aval], to: S) -> Result<S::Ok, S::Error> {
        let parts = avals.iter().map(|aval| (aval.dtype, aval.shape.dims().to_vec()));
        parts.collect::<Vec<_>>().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Aval>, D::Error> {
        let parts = Vec::<(DType, Vec<usize>)>::deserialize(from)?;
        Ok(parts.into_iter().map(|(dtype, shape)| Aval::new(dtype, shape)).collect())
    }
}

impl FfiCall {
    /// Returns the function's name in messages.
    fn name_of_target(&self) -> &str {
        match &self.target {
            FfiTarget::Name(name) => name,
            FfiTarget::Closure(_) => "a closure",
        }
    }

    /// Returns the call for a batch: results and layouts have a leading axis.
    fn widened(&self, size: usize, mapped: impl Fn(usize) -> bool) -> FfiCall {
        let wide = |aval: &Aval| aval.with_shape(aval.shape.insert(0, size));
        let widen = |layout: &Option<Vec<usize>>| {
            let shifted = layout.as_ref()?.iter().map(|axis| axis + 1);
            Some(std::iter::once(0).chain(shifted).collect())
        };
        let inputs = self
            .input_layouts
            .iter()
            .enumerate()
            .map(|(index, layout)| if mapped(index) { widen(layout) } else { layout.clone() });
        FfiCall {
            results: self.results.iter().map(wide).collect(),
            input_layouts: inputs.collect(),
            output_layouts: self.output_layouts.iter().map(widen).collect(),
            ..self.clone()
        }
    }

    /// Calls the function for each example, in a loop or one after the other.
    fn batch_sequential(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
        unrolled: bool,
    ) -> Vec<Array> {
        let call = |examples: Vec<Array>| -> Vec<Array> {
            let mut examples = examples.into_iter();
            let each = operands.iter().zip(axes).map(|(x, from)| match from {
                Some(_) => examples.next().expect("one value per mapped operand"),
                None => x.clone(),
            });
            let each: Vec<Array> = each.collect();
            bind(self.clone(), &each.iter().collect::<Vec<_>>())
        };
        let mapped = operands.iter().zip(axes).filter(|(_, from)| from.is_some());
        let mapped: Vec<Array> = mapped.map(|(x, from)| batch_at(x, *from, 0, axis)).collect();
        if !unrolled {
            return map::map(call, mapped);
        }
        let mut columns: Vec<Vec<Array>> = vec![Vec::new(); self.results.len()];
        for index in 0..axis.size {
            let example = |x: &Array| {
                let at = index as isize;
                let row = slice_in_dim(x, at, at + 1, 1, 0);
                reshape_to(&row, &x.shape().remove(0))
            };
            let results = call(mapped.iter().map(example).collect());
            columns.iter_mut().zip(results).for_each(|(column, result)| column.push(result));
        }
        let stacked = |column: Vec<Array>| {
            let rows: Vec<Array> =
                column.iter().map(|x| reshape_to(x, &x.shape().insert(0, 1))).collect();
            concatenate(&rows, 0)
        };
        columns.into_iter().map(stacked).collect()
    }
}

impl Primitive for FfiCall {
    fn name(&self) -> &'static str {
        "ffi_call"
    }

    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let check = |what: &str, layouts: &[Option<Vec<usize>>], avals: &[Aval]| {
            if !layouts.is_empty() && layouts.len() != avals.len() {
                let (given, there) = (layouts.len(), avals.len());
                return Err(RuleError::value(format!(
                    "{what}_layouts has {given} entries for {there} {what}s"
                )));
            }
            for (index, (layout, aval)) in layouts.iter().zip(avals).enumerate() {
                let Some(layout) = layout else { continue };
                let mut sorted = layout.clone();
                sorted.sort_unstable();
                if !sorted.iter().copied().eq(0..aval.rank()) {
                    return Err(RuleError::value(format!(
                        "the layout of {what} {index} is {layout:?}, which does not order the \
                         axes of {aval}"
                    )));
                }
            }
            Ok(())
        };
        check("input", &self.input_layouts, operands)?;
        check("output", &self.output_layouts, &self.results)?;
        for &(input, output) in &self.input_output_aliases {
            let (Some(from), Some(to)) = (operands.get(input), self.results.get(output)) else {
                return Err(RuleError::value(format!(
                    "input_output_aliases names input {input} of {} and output {output} of {}",
                    operands.len(),
                    self.results.len()
                )));
            };
            if !from.same_type(to) {
                return Err(RuleError::value(format!(
                    "input {input} is {from} and cannot share memory with output {output}, {to}"
                )));
            }
        }
        if !(1..=4).contains(&self.api_version) {
            let version = self.api_version;
            return Err(RuleError::value(format!(
                "custom_call_api_version is {version}, not 1 to 4"
            )));
        }
        if self.api_version == 4 && self.legacy_backend_config.is_some() {
            return Err(RuleError::value(
                "legacy_backend_config is for calls of a version before 4; use attributes",
            ));
        }
        if self.api_version < 4 && !self.attributes.is_empty() {
            let version = self.api_version;
            return Err(RuleError::value(format!(
                "a call of version {version} has no attributes; use legacy_backend_config"
            )));
        }
        Ok(self.results.clone())
    }

    fn jvp(&self, primals: &[Array], _: &[Tangent]) -> JvpResult {
        if self.results.iter().any(|aval| aval.dtype.is_inexact()) {
            return Err(RuleError::unsupported(format!(
                "the call of `{}` has no derivative: nothing is known of the foreign function",
                self.name_of_target()
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
        let Some(method) = self.vmap_method else {
            return Err(RuleError::unsupported(format!(
                "nothing is known of how `{}` computes a batch",
                self.name_of_target()
            ))
            .help("choose a `vmap_method` in `FfiCallOptions`"));
        };
        let front = |x: &Array, size: usize| {
            let dims: Vec<usize> = (1..=x.rank()).collect();
            broadcast_in_dim(x, x.shape().insert(0, size), &dims)
        };
        let all = |size: Option<usize>| {
            let operands = operands.iter().zip(axes).map(|(x, from)| match (from, size) {
                (Some(_), _) => batch_at(x, *from, 0, axis),
                (None, Some(size)) => front(x, size),
                (None, None) => x.clone(),
            });
            let operands: Vec<Array> = operands.collect();
            let mapped = |index: usize| size.is_some() || axes[index].is_some();
            let call = self.widened(axis.size, mapped);
            bind(call, &operands.iter().collect::<Vec<_>>())
        };
        let wide = |aval: &Aval| aval.with_shape(aval.shape.insert(0, axis.size));
        let outputs = match method {
            _ if axis.size == 0 && !self.has_side_effect => {
                let empty = self.results.iter().map(|aval| zeros_of(&wide(aval)));
                empty.collect()
            }
            VmapMethod::Sequential => self.batch_sequential(operands, axes, axis, false),
            VmapMethod::SequentialUnrolled => self.batch_sequential(operands, axes, axis, true),
            VmapMethod::ExpandDims => all(Some(1)),
            VmapMethod::BroadcastAll => all(Some(axis.size)),
            VmapMethod::LegacyVectorized => all(None),
        };
        Ok(Batched { axes: vec![Some(0); outputs.len()], outputs })
    }

    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let target = self.name_of_target();
        let is_rust = match &self.target {
            FfiTarget::Name(name) => handlers::is_rust(name),
            FfiTarget::Closure(_) => true,
        };
        let platform = ctx.platform().to_owned();
        if is_rust && !matches!(platform.as_str(), "cpu" | "cuda" | "rocm") {
            return Err(RuleError::unsupported(format!(
                "{platform} programs cannot call the handler of {target} on the host"
            ))
            .help("use `debug::pure_callback`, which transfers its operands"));
        }
        let is_outside = ctx.is_partitioned() && ctx.manual().is_none();
        if is_outside && self.has_side_effect {
            return Err(RuleError::unsupported(format!(
                "{target} has side effects, and the compiler partitions the program over devices"
            ))
            .help("call it in `shard_map`, where each device calls it for its shards"));
        }
        let name = match &self.target {
            FfiTarget::Name(name) => name.as_str(),
            FfiTarget::Closure(_) => CLOSURE_TARGET,
        };
        let mut attributes = self.attributes.clone();
        if self.api_version == 4
            && (is_rust || handlers::is_registered(name, &platform))
            && let Some(site) = handlers::record_site(Loc::caller())
        {
            attributes.insert(SITE, FfiAttribute::from(site));
        }
        if let FfiTarget::Closure(function) = &self.target {
            attributes.insert(CLOSURE, function.id() as i64);
            ctx.record_host_call(function.id() | handlers::CLOSURES, false);
        }
        // A failure on one of several devices would leave the others waiting.
        if is_rust && ctx.is_partitioned() {
            let id = handlers::next_contained();
            attributes.insert(CONTAINED, id as i64);
            ctx.record_host_call(id, true);
        }
        let config = match (self.api_version, &self.legacy_backend_config) {
            (4, _) => format!(", backend_config = {}", attributes.stablehlo()),
            (_, Some(config)) => format!(", backend_config = {}", quoted(config)),
            (_, None) => String::new(),
        };
        let operand_layouts = operands.iter().enumerate().map(|(index, operand)| {
            layout(self.input_layouts.get(index), operand.ty().dims().len())
        });
        let operand_layouts = operand_layouts.collect::<Vec<_>>().join(", ");
        let result_layouts = results
            .iter()
            .enumerate()
            .map(|(index, result)| layout(self.output_layouts.get(index), result.rank()));
        let result_layouts = result_layouts.collect::<Vec<_>>().join(", ");
        let mut text = format!(
            "call_target_name = {}, api_version = {} : i32, has_side_effect = {}{config}, \
             operand_layouts = [{operand_layouts}], result_layouts = [{result_layouts}]",
            quoted(name),
            self.api_version,
            self.has_side_effect
        );
        if !self.input_output_aliases.is_empty() {
            let alias = |&(input, output): &(usize, usize)| {
                let tuple = if results.len() == 1 { String::new() } else { output.to_string() };
                format!(
                    "#stablehlo.output_operand_alias<output_tuple_indices = [{tuple}], \
                     operand_index = {input}, operand_tuple_indices = []>"
                )
            };
            let aliases: Vec<String> = self.input_output_aliases.iter().map(alias).collect();
            text.push_str(&format!(", output_operand_aliases = [{}]", aliases.join(", ")));
        }
        let types: Vec<TensorType> = results.iter().map(Aval::stablehlo).collect();
        Ok(ctx.op_full("stablehlo.custom_call", operands, &text, Vec::new(), &types))
    }

    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::movement(operands, results)
    }

    fn effects(&self) -> Effects {
        if self.has_side_effect { Effects::Unordered } else { Effects::None }
    }

    fn is_opaque(&self) -> bool {
        matches!(self.target, FfiTarget::Closure(_))
    }

    fn text_form(&self) -> TextForm {
        if self.is_opaque() { TextForm::None } else { TextForm::Same }
    }

    fn analysis(&self) -> Option<&dyn Analysis> {
        Some(self)
    }
}

impl Analysis for FfiCall {
    fn kernel_obstacle(&self) -> Option<&'static str> {
        Some("calls a foreign function")
    }
}

/// Returns a layout as XLA has it, from the fastest axis to the slowest.
fn layout(layout: Option<&Option<Vec<usize>>>, rank: usize) -> String {
    let row_major: Vec<usize> = (0..rank).collect();
    let axes = layout.and_then(Option::as_ref).unwrap_or(&row_major);
    let reversed: Vec<String> = axes.iter().rev().map(usize::to_string).collect();
    format!("dense<[{}]> : tensor<{rank}xindex>", reversed.join(", "))
}

/// Returns text as a string of MLIR.
fn quoted(text: &str) -> String {
    FfiAttribute::from(text).stablehlo()
}

pub(super) fn make(
    parameters: serde_json::Value,
    _: Vec<Program>,
) -> RuleResult<Arc<dyn Primitive>> {
    let call: FfiCall = crate::core::FromParameters::from_parameters(parameters)?;
    Ok(Arc::new(call))
}

pub(super) fn exemplars() -> Vec<Exemplar> {
    let twice = BufferFunction::new(|frame: &mut FfiFrame<'_>| {
        let factor: i32 = frame.attribute("factor")?;
        let (inputs, outputs) = frame.buffers();
        let x = inputs[0].as_slice::<i32>()?;
        let y = outputs[0].as_mut_slice::<i32>()?;
        // An operand that is equal for all examples of a batch has size 1, or no batch axis.
        for (index, y) in y.iter_mut().enumerate() {
            *y = x[index % x.len()].wrapping_mul(factor);
        }
        Ok(())
    });
    let exemplar = |vmap_method, has_side_effect, shape: &[usize]| {
        let call = FfiCall {
            target: FfiTarget::Closure(twice.clone()),
            results: vec![Aval::new(DType::I32, shape)],
            attributes: FfiAttributes::new().with("factor", 2i32),
            has_side_effect,
            vmap_method: Some(vmap_method),
            input_output_aliases: Vec::new(),
            input_layouts: Vec::new(),
            output_layouts: Vec::new(),
            api_version: 4,
            legacy_backend_config: None,
        };
        let numbers = Sample::uniform(DType::I32, shape, -5.0, 5.0);
        let unused = Sample::uniform(DType::F32, [2], -1.0, 1.0);
        Exemplar::new(call, [numbers, unused])
    };
    vec![
        exemplar(VmapMethod::Sequential, false, &[2, 3]),
        exemplar(VmapMethod::SequentialUnrolled, false, &[1]),
        exemplar(VmapMethod::ExpandDims, false, &[]),
        exemplar(VmapMethod::BroadcastAll, true, &[2]),
        exemplar(VmapMethod::LegacyVectorized, false, &[0]),
    ]
}
