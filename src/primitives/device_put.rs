//! Transfers between memories inside a program.

use super::rules::{arity, batched, linear_jvp, one_cotangent};
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, LowerCtx, MemoryKind,
    Operand, Primitive, Registered, RuleResult, Sample, Spmd, Tangent, bind1,
};
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// Moves a value to another memory of its devices.
///
/// | | |
/// |-|-|
/// | operand    | `x: any[…]`, in any memory |
/// | result     | `x`, in `memory` |
/// | lowering   | a custom call `annotate_device_placement`; nothing on CPUs, whose memories are one, and for scalars that move to the host, which compilers place |
/// | derivative | linear; transposes to the move back |
///
/// Source of the custom call: XLA's `host_memory_offload_annotations.h`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DevicePut {
    /// The memory of the result.
    pub memory: MemoryKind,
}

impl Primitive for DevicePut {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [x] = arity(operands)?;
        Ok(vec![x.with_memory(self.memory)])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        linear_jvp(self, primals, tangents)
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        _: &BatchAxis,
    ) -> RuleResult<Batched> {
        Ok(batched(bind1(self.clone(), [&operands[0]]), axes[0].unwrap_or(0)))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let is_free = results[0].rank() == 0 && self.memory.is_host();
        if ctx.platform() == "cpu" || is_free {
            return Ok(operands.to_vec());
        }
        let attributes = "call_target_name = \"annotate_device_placement\", has_side_effect = true";
        let placement =
            format!("mhlo.frontend_attributes = {{_xla_buffer_placement = \"{}\"}}", self.memory);
        let ty = [results[0].stablehlo()];
        let name = "stablehlo.custom_call";
        Ok(ctx.op_annotated(name, operands, attributes, Vec::new(), &placement, &ty))
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::movement(operands, results)
    }
    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let memory = match &operands[0] {
            Operand::Linear(aval) => aval.memory,
            Operand::Known(x) => x.aval().memory,
        };
        Ok(vec![Some(in_memory(one_cotangent(cts)?, memory).into())])
    }
    fn spmd(&self) -> Option<&dyn Spmd> {
        Some(self)
    }
}

impl Spmd for DevicePut {
    fn result_memory(&self) -> Option<MemoryKind> {
        Some(self.memory)
    }
}

/// Moves `x` to another memory of its devices, unless it is there already.
#[track_caller]
pub(crate) fn in_memory(x: &Array, memory: MemoryKind) -> Array {
    if x.aval().memory == memory { x.clone() } else { bind1(DevicePut { memory }, [x]) }
}

impl Registered for DevicePut {
    const NAME: &'static str = "device_put";
    fn exemplars() -> Vec<Exemplar> {
        let put = |memory, sample| Exemplar::new(DevicePut { memory }, [sample]);
        vec![
            put(MemoryKind::PinnedHost, Sample::uniform(DType::F32, [2, 3], -1.0, 1.0)),
            put(MemoryKind::Device, Sample::uniform(DType::F64, [], -1.0, 1.0)),
            put(MemoryKind::PinnedHost, Sample::uniform(DType::I32, [0], 0.0, 9.0)),
        ]
    }
}
