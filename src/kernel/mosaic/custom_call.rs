//! The custom call that runs a kernel.

use super::base64;
use super::text::list;
use super::windows::{identifier, module};
use crate::core::{Aval, LowerCtx, Primitive, RuleResult};
use crate::kernel::KernelOptions;
use crate::kernel::kernel_call::KernelCall;
use crate::stablehlo::{TensorType, Value};

/// Writes the call of a kernel.
///
/// # Errors
/// `Unsupported` in a module that the compiler partitions, outside of `shard_map`; an operation
/// that has no form on TPUs.
pub(in crate::kernel) fn lower(
    kernel: &KernelCall,
    ctx: &mut LowerCtx<'_>,
    operands: &[Value],
) -> RuleResult<Vec<Value>> {
    let text = module(kernel).map_err(|(error, at)| match at.get() {
        None => error,
        Some(at) => error.note(format!("in the kernel, at {}:{}", at.file(), at.line())),
    })?;
    let operands: Vec<Value> = operands
        .iter()
        .enumerate()
        .map(|(index, operand)| with_axes(ctx, operand, index < kernel.n_prefetch))
        .collect();
    let results: Vec<TensorType> = kernel.outputs.iter().map(|w| array_type(&w.array)).collect();
    let mut attributes = vec![
        "call_target_name = \"tpu_custom_call\"".to_string(),
        format!("backend_config = \"{}\"", escaped(&config(kernel, &text))),
        format!("operand_layouts = [{}]", list(operands.iter().map(|x| row_major(x.ty())))),
        format!("result_layouts = [{}]", list(results.iter().map(row_major))),
    ];
    let alias = |&(input, output): &(usize, usize)| {
        let tuple = if results.len() == 1 { String::new() } else { output.to_string() };
        let operand = kernel.n_prefetch + input;
        format!(
            "#stablehlo.output_operand_alias<output_tuple_indices = [{tuple}], \
             operand_index = {operand}, operand_tuple_indices = []>"
        )
    };
    if !kernel.aliases.is_empty() {
        let aliases = list(kernel.aliases.iter().map(alias));
        attributes.push(format!("output_operand_aliases = [{aliases}]"));
    }
    let name = format!("kernel_name = \"{}\"", identifier(&kernel.name));
    let values =
        ctx.op_annotated("custom_call", &operands, &list(attributes), vec![], &name, &results);
    let outputs = values.into_iter().zip(&kernel.outputs);
    Ok(outputs
        .map(|(value, window)| match window.array.rank() {
            0 => ctx.op_as("reshape", &[value], "", &window.array.stablehlo()),
            _ => value,
        })
        .collect())
}

/// Gives a scalar axes of size 1: two, or one if it is a prefetched operand.
fn with_axes(ctx: &mut LowerCtx<'_>, operand: &Value, is_prefetched: bool) -> Value {
    match operand.ty().dims() {
        [] => {
            let dims: &[usize] = if is_prefetched { &[1] } else { &[1, 1] };
            let ty = operand.ty().with_dims(dims);
            ctx.op_as("reshape", std::slice::from_ref(operand), "", &ty)
        }
        _ => operand.clone(),
    }
}

fn array_type(aval: &Aval) -> TensorType {
    match aval.rank() {
        0 => aval.stablehlo().with_dims(&[1, 1]),
        _ => aval.stablehlo(),
    }
}

fn row_major(ty: &TensorType) -> String {
    let rank = ty.dims().len();
    format!("dense<[{}]> : tensor<{rank}xindex>", list((0..rank).rev()))
}

/// Returns the text in the form of a string of MLIR.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\22")
}

/// Returns the configuration of the call, as JSON.
fn config(kernel: &KernelCall, text: &str) -> String {
    let body = base64::encode(text.as_bytes());
    let cost = kernel.cost(&[], &[]);
    let limit = kernel.options.vmem_limit;
    let memory = match limit > KernelOptions::default().vmem_limit {
        true => format!(
            ", \"scoped_memory_configs\": \
             [{{\"memory_space\": 1, \"offset\": 0, \"size\": {limit}}}]"
        ),
        false => String::new(),
    };
    let bounded = |count: u64| count.min(i64::MAX as u64);
    format!(
        "{{\"custom_call_config\": {{\"body\": \"{body}\", \"serialization_format\": 1, \
         \"needs_layout_passes\": true, \"cost_estimate\": {{\"flops\": {}, \
         \"transcendentals\": {}, \"bytes_accessed\": {}, \"remote_bytes_transferred\": 0}}\
         {memory}}}}}",
        bounded(cost.flops),
        bounded(cost.transcendentals),
        bounded(cost.bytes)
    )
}
