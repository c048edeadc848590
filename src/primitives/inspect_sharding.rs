//! The observation of a value's sharding.

use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, Effects, JvpResult, LowerCtx, NamedSharding, Primitive,
    RuleResult, ShardingObserver, Spmd, Tangent, TextForm, bind,
};
use crate::ensure;
use crate::stablehlo::Value;
use serde::Serialize;

/// Passes the sharding of a value to a function on the host, when a program is compiled.
///
/// | | |
/// |-|-|
/// | operand    | `x: any[…]` |
/// | results    | none |
/// | lowering   | none |
/// | derivative | none: the value of `x` is observed, not its tangent |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct InspectSharding {
    /// The function.
    #[serde(skip)]
    pub observer: ShardingObserver,
}

impl Primitive for InspectSharding {
    fn name(&self) -> &'static str {
        "inspect_sharding"
    }

    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        ensure!(operands.len() == 1, "takes one operand, got {}", operands.len());
        Ok(Vec::new())
    }

    fn jvp(&self, primals: &[Array], _: &[Tangent]) -> JvpResult {
        bind(self.clone(), &primals.iter().collect::<Vec<_>>());
        Ok((Vec::new(), Vec::new()))
    }

    fn batch(&self, operands: &[Array], _: &[Option<usize>], _: &BatchAxis) -> RuleResult<Batched> {
        bind(self.clone(), &operands.iter().collect::<Vec<_>>());
        Ok(Batched { outputs: Vec::new(), axes: Vec::new() })
    }

    fn lower(&self, _: &mut LowerCtx<'_>, _: &[Value], _: &[Aval]) -> RuleResult<Vec<Value>> {
        Ok(Vec::new())
    }

    fn cost(&self, _: &[Aval], _: &[Aval]) -> Cost {
        Cost::default()
    }

    fn effects(&self) -> Effects {
        Effects::Unordered
    }

    fn is_opaque(&self) -> bool {
        true
    }

    fn text_form(&self) -> TextForm {
        TextForm::Omitted
    }

    fn spmd(&self) -> Option<&dyn Spmd> {
        Some(self)
    }
}

impl Spmd for InspectSharding {
    fn observer(&self) -> Option<&ShardingObserver> {
        Some(&self.observer)
    }
}

/// Passes the sharding of `x` to `observer`: at once if it is known while tracing, else when the
/// program is compiled.
#[track_caller]
pub(crate) fn inspect_sharding(
    x: &Array,
    known: Option<NamedSharding>,
    observer: ShardingObserver,
) {
    match known.or_else(|| x.aval().sharding.clone()) {
        Some(sharding) => observer.observe(Some(&sharding)),
        None if x.is_traced() => drop(bind(InspectSharding { observer }, &[x])),
        None => observer.observe(None),
    }
}
