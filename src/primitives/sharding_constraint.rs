//! Sharding constraints.

use super::device_put::in_memory;
use super::reshard::resharded;
use super::rules::{arity, batched, linear_jvp, one_cotangent};
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Device, Exemplar, JvpResult, LowerCtx, Mesh,
    NamedSharding, Operand, PartitionSpec, Primitive, Registered, RuleError, RuleResult, Sample,
    Spmd, Tangent, bind1,
};
use crate::p;
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// Constrains the sharding of a value over a mesh.
///
/// | | |
/// |-|-|
/// | operand    | `x: any[…]`; the compiler pads axes that the mesh axes do not divide |
/// | result     | `x` |
/// | lowering   | `sdy.sharding_constraint`; inside `shard_map` restricted to the axes that are not manual |
/// | derivative | linear; transposes to itself |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ShardingConstraint {
    /// The sharding of the value.
    pub sharding: NamedSharding,
}

impl Primitive for ShardingConstraint {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [x] = arity(operands)?;
        self.sharding.spec().check_constraint(self.sharding.mesh(), &x.shape)?;
        Ok(vec![x.clone()])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        linear_jvp(self, primals, tangents)
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        let batch_axis = axes[0].unwrap_or(0);
        let over = match axis.spmd_axis_name.names() {
            [] => &PartitionSpec::UNCONSTRAINED,
            _ => &axis.spmd_axis_name,
        };
        let sharding = self.sharding.with_axis_over(batch_axis, over)?;
        Ok(batched(bind1(ShardingConstraint { sharding }, [&operands[0]]), batch_axis))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        if let Some(manual) = ctx.manual() {
            let own = self.sharding.spec().mentioned().find(|name| manual.axes.contains(name));
            if let Some(name) = own {
                return Err(RuleError::unsupported(format!(
                    "{} speaks of `{name}`, along which devices compute their own here",
                    self.sharding
                ))
                .help("inside of `shard_map` constrain along the axes that it leaves alone"));
            }
        }
        let text = ctx.sharding(&self.sharding, results[0].rank());
        let attributes = format!("sharding = #sdy.sharding{text}");
        let ty = results[0].stablehlo();
        Ok(vec![ctx.op_as("sdy.sharding_constraint", operands, &attributes, &ty)])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::movement(operands, results)
    }
    fn transpose(&self, cts: &[Tangent], _: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        Ok(vec![Some(bind1(self.clone(), [one_cotangent(cts)?]).into())])
    }
    fn spmd(&self) -> Option<&dyn Spmd> {
        Some(self)
    }
}

/// Constrains `x` to a sharding, and moves it to the sharding's memory. The explicit axes of the
/// mesh become part of its type.
#[track_caller]
pub(crate) fn constrained(x: &Array, sharding: NamedSharding) -> Array {
    let (memory, mesh) = (sharding.memory_kind(), sharding.mesh());
    let x = if mesh.has_explicit_axes() { resharded(x, &sharding) } else { x.clone() };
    if mesh.is_fully_explicit() {
        return in_memory(&x, memory);
    }
    in_memory(&bind1(ShardingConstraint { sharding }, [&x]), memory)
}

impl Spmd for ShardingConstraint {
    fn mesh(&self) -> Option<&Mesh> {
        Some(self.sharding.mesh())
    }
    fn result_specs(&self) -> Option<&[PartitionSpec]> {
        Some(std::slice::from_ref(self.sharding.spec()))
    }
}

impl Registered for ShardingConstraint {
    const NAME: &'static str = "sharding_constraint";
    fn exemplars() -> Vec<Exemplar> {
        // A mesh of one device, which every platform has.
        let device = Device::new(0, 0, "device", "", true);
        let mesh = Mesh::new([device], [("i", 1), ("j", 1)]).expect("one device is a mesh");
        let over = |spec, sample| {
            let sharding = mesh.sharding(spec).expect("the axes are the mesh's");
            Exemplar::new(ShardingConstraint { sharding }, [sample])
        };
        vec![
            over(p!["i"], Sample::uniform(DType::F32, [2, 3], -1.0, 1.0)),
            over(p![None, ["i", "j"]], Sample::uniform(DType::F64, [2, 2], -1.0, 1.0)),
            over(p![UNCONSTRAINED, "j"], Sample::uniform(DType::F32, [3, 2], -1.0, 1.0)),
            over(p![], Sample::uniform(DType::I32, [], 0.0, 9.0)),
        ]
    }
}
