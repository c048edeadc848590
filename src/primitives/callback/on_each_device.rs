//! Calls with effects in programs that the compiler partitions over a mesh.
//!
//! The partitioner refuses side effects without a sharding, and drops the sharding of custom calls
//! that have one. Such a call is therefore in a manual computation over all devices: each device
//! makes the call with whole operands and its ordinal, and the host runs the function for the first
//! device alone. It returns zeros to the others, and a sum over the devices distributes the
//! results.

use super::Callback;
use crate::core::manual_axes::{DimSharding, Manual};
use crate::core::{Array, Aval, DType, Effects, LowerCtx, Mesh, PartitionSpec, RuleResult, bind1};
use crate::primitives::composite::lower_by;
use crate::primitives::{PSum, bitcast_convert_type, complex, convert_element_type, imag, real};
use crate::stablehlo::{TensorType, Value};

impl Callback {
    /// Writes the call. Ordered calls take and return a number as their token.
    pub(super) fn lower_on_each_device(
        &self,
        ctx: &mut LowerCtx<'_>,
        mesh: &Mesh,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let ordered = self.effects == Effects::Ordered;
        let mut inputs = Vec::new();
        let mut types: Vec<TensorType> = Vec::new();
        if ordered {
            let token = ctx.token();
            types.push(token.ty().clone());
            inputs.push(token);
        }
        inputs.extend_from_slice(operands);
        types.extend(results.iter().map(Aval::stablehlo));
        let axes: Vec<String> = mesh.axes().iter().map(|(name, _)| name.clone()).collect();
        // The devices of one process wait for the first in the host function. Others cannot.
        let first = mesh.devices()[0].process_index();
        let is_local = mesh.devices().iter().all(|device| device.process_index() == first);
        let local_devices = if is_local { mesh.devices().len() } else { 0 };
        let mut values = manual_computation(ctx, mesh, &axes, &inputs, &types, |ctx, inputs| {
            let attributes = format!(
                "call_target_name = \"oxidax.callback\", api_version = 4 : i32, has_side_effect = \
                 true, backend_config = {{contained = true, devices = {local_devices} : i64, id = {} \
                 : i64, on_first = true, ordered = {ordered}}}",
                self.function.id()
            );
            let mut values = ctx.op_full("custom_call", inputs, &attributes, Vec::new(), &types);
            let results = values.split_off(usize::from(ordered));
            let sum = |x: &Array| sum_of_bits(x, &axes);
            values.extend(lower_by(ctx, &results, |xs| xs.iter().map(sum).collect())?);
            Ok(values)
        })?;
        if ordered {
            ctx.set_token(values.remove(0));
        }
        Ok(values)
    }
}

/// Writes a computation of every device with whole arrays. `body` gets the operands and the ordinal
/// of the device.
fn manual_computation(
    ctx: &mut LowerCtx<'_>,
    mesh: &Mesh,
    axes: &[String],
    operands: &[Value],
    results: &[TensorType],
    body: impl FnOnce(&mut LowerCtx<'_>, &[Value]) -> RuleResult<Vec<Value>>,
) -> RuleResult<Vec<Value>> {
    let ordinal = TensorType::new("ui32", &[]);
    // A manual computation without operands is not one to the compiler.
    let has_operands = !operands.is_empty();
    let nothing = if has_operands { None } else { Some(ctx.constant("0", &ordinal)) };
    let operands = nothing.as_ref().map_or(operands, std::slice::from_ref);
    let whole = PartitionSpec::replicated();
    let mut shardings = |types: &[&TensorType]| {
        let each =
            types.iter().map(|ty| ctx.spec(mesh, &whole, ty.dims().len(), DimSharding::Closed));
        each.collect::<Vec<String>>().join(", ")
    };
    let in_shardings = shardings(&operands.iter().map(Value::ty).collect::<Vec<_>>());
    let out_shardings = shardings(&results.iter().collect::<Vec<_>>());
    let manual_axes: Vec<String> = axes.iter().map(|axis| format!("{axis:?}")).collect();
    let attributes = format!(
        "in_shardings = #sdy.sharding_per_value<[{in_shardings}]>, manual_axes = \
         #sdy<manual_axes{{{}}}>, out_shardings = #sdy.sharding_per_value<[{out_shardings}]>",
        manual_axes.join(", ")
    );
    let types: Vec<TensorType> = operands.iter().map(|operand| operand.ty().clone()).collect();
    let (outside, mut inputs) = ctx.open_region(&types);
    let manual = Manual { mesh: mesh.clone(), axes: axes.to_vec() };
    let values = ctx.with_manual(manual, |ctx| {
        let device = ctx.op_as("partition_id", &[], "", &ordinal);
        match has_operands {
            true => inputs.push(device),
            false => inputs[0] = ctx.op("add", &[inputs[0].clone(), device]),
        }
        body(ctx, &inputs)
    })?;
    let region = ctx.close_region_with("sdy.return", outside, &values);
    Ok(ctx.op_full("sdy.manual_computation", operands, &attributes, vec![region], results))
}

/// Returns the value of the device whose bits are not zero, on all devices along the axes.
fn sum_of_bits(x: &Array, axes: &[String]) -> Array {
    if x.size() == 0 {
        return x.clone();
    }
    let sum = |x: &Array| bind1(PSum::over(axes.to_vec()), [x]);
    let bits = match x.dtype() {
        DType::Bool => {
            let bytes = convert_element_type(x, DType::U8);
            return convert_element_type(&sum(&bytes), DType::Bool);
        }
        dtype if dtype.is_integer() => return sum(x),
        dtype if dtype.is_complex() => {
            return complex(sum_of_bits(&real(x), axes), sum_of_bits(&imag(x), axes));
        }
        dtype => match dtype.bits() {
            8 => DType::U8,
            16 => DType::U16,
            32 => DType::U32,
            _ => DType::U64,
        },
    };
    bitcast_convert_type(&sum(&bitcast_convert_type(x, bits)), x.dtype())
}
