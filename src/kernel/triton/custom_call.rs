//! The custom call of a kernel for GPUs, whose text is an attribute.

use crate::core::{Aval, LowerCtx};
use crate::kernel::kernel_call::KernelCall;
use crate::stablehlo::{TensorType, Value};
use std::fmt::Write as _;

/// A custom call: its target, its configuration, and the types of results beside the outputs.
pub(in crate::kernel) struct GpuCall<'a> {
    pub(in crate::kernel) target: &'a str,
    pub(in crate::kernel) config: String,
    pub(in crate::kernel) workspaces: &'a [Aval],
}

impl GpuCall<'_> {
    /// Writes the call. Returns the outputs of the kernel.
    pub(in crate::kernel) fn write(
        &self,
        kernel: &KernelCall,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
    ) -> Vec<Value> {
        let n_results = kernel.outputs.len() + self.workspaces.len();
        let aliases = kernel.aliases.iter().map(|&(input, output)| {
            let tuple = if n_results == 1 { String::new() } else { output.to_string() };
            format!(
                "#stablehlo.output_operand_alias<output_tuple_indices = [{tuple}], operand_index = \
                 {}, operand_tuple_indices = []>",
                kernel.n_prefetch + input
            )
        });
        let aliases: Vec<String> = aliases.collect();
        let arrays = kernel.outputs.iter().map(|window| &window.array).chain(self.workspaces);
        let types: Vec<TensorType> = arrays.map(Aval::stablehlo).collect();
        let operand_types: Vec<TensorType> =
            operands.iter().map(|operand| operand.ty().clone()).collect();
        let attributes = format!(
            "call_target_name = \"{}\", api_version = 4 : i32, backend_config = {{{}}}, \
             operand_layouts = [{}], result_layouts = [{}], output_operand_aliases = [{}]",
            self.target,
            self.config,
            layouts(&operand_types),
            layouts(&types),
            aliases.join(", ")
        );
        let mut results = ctx.op_full("custom_call", operands, &attributes, Vec::new(), &types);
        results.truncate(kernel.outputs.len());
        results
    }
}

/// Returns row-major layouts.
fn layouts(types: &[TensorType]) -> String {
    let layout = |ty: &TensorType| {
        let rank = ty.dims().len();
        let axes: Vec<String> = (0..rank).rev().map(|axis| axis.to_string()).collect();
        match rank {
            0 => "dense<> : tensor<0xindex>".to_string(),
            _ => format!("dense<[{}]> : tensor<{rank}xindex>", axes.join(", ")),
        }
    };
    types.iter().map(layout).collect::<Vec<_>>().join(", ")
}

/// Escapes text for a string in MLIR.
pub(in crate::kernel) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' | 0..32 | 127.. => {
                write!(escaped, "\\{byte:02X}").expect("strings take any text");
            }
            _ => escaped.push(char::from(byte)),
        }
    }
    escaped
}
