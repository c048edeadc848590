//! Changes of the sharding over explicit axes of a mesh.

use super::rules::{arity, batched, linear_jvp, one_cotangent};
use crate::core::explicit::{axes_along, sharding_of};
use crate::core::{
    Array, Aval, AxisSpec, BatchAxis, Batched, Cost, DType, Device, Exemplar, JvpResult, LowerCtx,
    Mesh, NamedSharding, Operand, PartitionSpec, Primitive, Registered, RuleError, RuleResult,
    Sample, Spmd, Tangent, bind1, throw_operands,
};
use crate::p;
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// Changes the sharding of a value over the explicit axes of a mesh.
///
/// | | |
/// |-|-|
/// | operand    | `x: any[…]`, over explicit axes of the same mesh or of none; its axes are divisible by those of the sharding |
/// | result     | `x`, with the sharding in its type |
/// | lowering   | `sdy.sharding_constraint` |
/// | derivative | linear; transposes to the sharding of `x` |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Reshard {
    /// The sharding of the result.
    pub sharding: NamedSharding,
}

impl Primitive for Reshard {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [x] = arity(operands)?;
        let mesh = self.sharding.mesh();
        if let Some(other) = x.sharding.as_ref().map(NamedSharding::mesh).filter(|&m| m != mesh) {
            return Err(RuleError::sharding(format!(
                "{x} is sharded over {other}, not over {mesh}"
            ))
            .help("`device_put` moves arrays to another mesh, outside of `jit`"));
        }
        let sharding = sharding_of(mesh, self.sharding.spec().clone(), x)?;
        Ok(vec![Aval { sharding, ..x.clone() }])
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
        let (x, batch_axis) = (&operands[0], axes[0].unwrap_or(0));
        let over = match axis.spmd_axis_name.names() {
            [] => axes_along(x.aval(), batch_axis).unwrap_or_default().to_vec().into(),
            _ => axis.spmd_axis_name.clone(),
        };
        let sharding = self.sharding.with_axis_over(batch_axis, &over)?;
        Ok(batched(bind1(Reshard { sharding }, [x]), batch_axis))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        _: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let (mesh, spec) = (self.sharding.mesh(), self.sharding.spec());
        Ok(operands.iter().map(|x| ctx.constrain_explicit(mesh, spec, x)).collect())
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::movement(operands, results)
    }
    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let ct = sharded_like(one_cotangent(cts)?, operands[0].aval());
        Ok(vec![Some(ct.into())])
    }
    fn spmd(&self) -> Option<&dyn Spmd> {
        Some(self)
    }
}

impl Spmd for Reshard {
    fn mesh(&self) -> Option<&Mesh> {
        Some(self.sharding.mesh())
    }
    fn result_specs(&self) -> Option<&[PartitionSpec]> {
        Some(std::slice::from_ref(self.sharding.spec()))
    }
    fn result_shardings(
        &self,
        _: &[Aval],
        results: &[Aval],
    ) -> RuleResult<Option<Vec<Option<NamedSharding>>>> {
        Ok(Some(vec![results[0].sharding.clone()]))
    }
}

/// Leaves the sharding of a value to the compiler.
///
/// | | |
/// |-|-|
/// | operand    | `x: any[…]` |
/// | result     | `x`, without a sharding in its type |
/// | lowering   | nothing |
/// | derivative | linear; transposes to the sharding of `x` |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ToAutoAxes;

impl Primitive for ToAutoAxes {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [x] = arity(operands)?;
        Ok(vec![x.unsharded()])
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
        Ok(batched(bind1(ToAutoAxes, [&operands[0]]), axes[0].unwrap_or(0)))
    }
    fn lower(
        &self,
        _: &mut LowerCtx<'_>,
        operands: &[Value],
        _: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        Ok(operands.to_vec())
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::movement(operands, results)
    }
    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let ct = sharded_like(one_cotangent(cts)?, operands[0].aval());
        Ok(vec![Some(ct.into())])
    }
    fn spmd(&self) -> Option<&dyn Spmd> {
        Some(self)
    }
}

impl Spmd for ToAutoAxes {
    fn result_shardings(
        &self,
        _: &[Aval],
        _: &[Aval],
    ) -> RuleResult<Option<Vec<Option<NamedSharding>>>> {
        Ok(Some(vec![None]))
    }
    fn leaves_results_to_compiler(&self) -> bool {
        true
    }
}

/// Returns `x`, sharded over the explicit axes of a mesh as stated. Unconstrained dimensions stay
/// as they are.
#[track_caller]
pub(crate) fn resharded(x: &Array, sharding: &NamedSharding) -> Array {
    match target_of_reshard(x.aval(), sharding) {
        Ok(sharding) => bind1(Reshard { sharding }, [x]),
        Err(error) => throw_operands("reshard", error, &[x]),
    }
}

/// Returns the sharding over explicit axes that a value of type `aval` gets where `sharding` is
/// stated. Unconstrained dimensions keep the axes of the value.
///
/// # Errors
/// `Value` if a mesh axis would shard two dimensions.
pub(crate) fn target_of_reshard(
    aval: &Aval,
    sharding: &NamedSharding,
) -> RuleResult<NamedSharding> {
    let axes = sharding.spec().0.iter().enumerate().map(|(dim, axis)| match axis {
        AxisSpec::Unconstrained => axes_along(aval, dim).unwrap_or_default().to_vec().into(),
        stated => stated.clone(),
    });
    let stated = NamedSharding::checked(sharding.mesh(), PartitionSpec(axes.collect()))?;
    Ok(stated.explicit_part().unwrap_or_else(|| sharding.mesh().replicated()))
}

/// Returns `x` sharded over the explicit axes of a mesh as a value of type `aval` is.
#[track_caller]
pub(crate) fn sharded_like(x: &Array, aval: &Aval) -> Array {
    let sharding = match (&x.aval().sharding, &aval.sharding) {
        (from, to) if from == to => return x.clone(),
        (_, Some(to)) => to.clone(),
        (Some(from), None) => from.mesh().replicated(),
        (None, None) => return x.clone(),
    };
    bind1(Reshard { sharding }, [x])
}

/// A mesh of one device, which every platform has, with explicit axes.
fn one_device() -> Mesh {
    let device = Device::new(0, 0, "device", "", true);
    Mesh::new([device], [("i", 1), ("j", 1)]).expect("one device is a mesh").explicit()
}

impl Registered for Reshard {
    const NAME: &'static str = "reshard";
    fn exemplars() -> Vec<Exemplar> {
        let over = |spec, sample| {
            let sharding = one_device().sharding(spec).expect("the axes are the mesh's");
            Exemplar::new(Reshard { sharding }, [sample])
        };
        vec![
            over(p!["i"], Sample::uniform(DType::F32, [2, 3], -1.0, 1.0)),
            over(p![None, ["i", "j"]], Sample::uniform(DType::F64, [2, 2], -1.0, 1.0)),
            over(p![], Sample::uniform(DType::I32, [], 0.0, 9.0)),
        ]
    }
}

impl Registered for ToAutoAxes {
    const NAME: &'static str = "to_auto_axes";
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(ToAutoAxes, [Sample::uniform(DType::F32, [2, 3], -1.0, 1.0)]),
            Exemplar::new(ToAutoAxes, [Sample::uniform(DType::I32, [], 0.0, 9.0)]),
        ]
    }
}
