//! Conversion of replicated values to values that vary over mesh axes.

use super::PSum;
use crate::core::varying::joint;
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, LowerCtx, Operand,
    Primitive, Registered, RuleResult, Sample, Spmd, Tangent, Varying, bind1,
};
use crate::primitives::rules::{arity, batched, linear_jvp, one_cotangent};
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// Converts a value that is equal on all devices along mesh axes to one whose type varies over
/// them.
///
/// | | |
/// |-|-|
/// | operand    | `x: any[…]` |
/// | result     | `x`, of a type that varies over the axes too |
/// | lowering   | none: the value itself |
/// | derivative | linear; transposes to [`PSum`] over the axes that the operand did not vary over |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[doc(alias = "pcast")]
pub struct PVary {
    /// The distinct names of the axes.
    pub axis_names: Vec<String>,
}

impl Primitive for PVary {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [x] = arity(operands)?;
        Ok(vec![x.clone()])
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
        let ct = one_cotangent(cts)?;
        let before = &operands[0].aval().varying;
        let added: Vec<String> =
            self.axis_names.iter().filter(|name| !before.contains(name)).cloned().collect();
        Ok(vec![Some(if added.is_empty() {
            ct.clone().into()
        } else {
            bind1(PSum::over(added), [ct]).into()
        })])
    }
    fn spmd(&self) -> Option<&dyn Spmd> {
        Some(self)
    }
}

impl Spmd for PVary {
    fn result_varying(&self, operands: &[Aval], _: &[Aval]) -> Option<Vec<Varying>> {
        Some(vec![joint(operands).and(&Varying::over(&self.axis_names))])
    }
}

/// Converts `x` to vary over these mesh axes too, unless it does already.
#[track_caller]
pub(crate) fn vary(x: &Array, varying: &Varying) -> Array {
    if x.aval().varying.covers(varying) {
        return x.clone();
    }
    let new = varying.without(x.aval().varying.names());
    bind1(PVary { axis_names: new.names().to_vec() }, [x])
}

impl Registered for PVary {
    const NAME: &'static str = "pvary";
    fn exemplars() -> Vec<Exemplar> {
        let pvary = || PVary { axis_names: Vec::new() };
        vec![
            Exemplar::new(pvary(), [Sample::uniform(DType::F32, [2, 3], -1.0, 1.0)]),
            Exemplar::new(pvary(), [Sample::uniform(DType::F64, [], -1.0, 1.0)]),
            Exemplar::new(pvary(), [Sample::uniform(DType::I32, [0], 0.0, 9.0)]),
        ]
    }
}
