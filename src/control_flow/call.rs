//! `call`: what an inner `jit` becomes.

use super::derived::{self, batch_call, jvp_call, transpose_call};
use super::masked::{same_size, with_kept_inputs, with_used_outputs};
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Effects, Error, Exemplar, HigherOrder, JvpResult,
    LowerCtx, Operand, Primitive, Program, Pruned, RuleError, RuleResult, RunCount, Sample, Split,
    Tangent,
};
use crate::ensure_shape;
use crate::passes;
use crate::stablehlo::Value;
use crate::transforms::staging::trace_rules;
use serde::Serialize;
use std::sync::Arc;

/// Applies a program.
///
/// | | |
/// |-|-|
/// | operands   | those of the program |
/// | results    | those of the program |
/// | lowering   | a call of a private function; equal programs share one |
/// | derivative | a call of the program's derivative |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[doc(alias = "pjit")]
pub struct Call {
    /// The function's name, for reading.
    pub name: String,
    /// The program.
    #[serde(skip)]
    pub program: Arc<Program>,
}

impl Call {
    fn of(&self, name: &str, program: Arc<Program>) -> Call {
        let name = match name {
            "" => self.name.clone(),
            name => format!("{name}_{}", self.name),
        };
        Call { name, program }
    }
}

/// Whether `operands` are what `program` takes; then the avals of its outputs.
pub(super) fn expect_operands(
    name: &str,
    program: &Program,
    operands: &[Aval],
) -> RuleResult<Vec<Aval>> {
    let expected = program.avals_in();
    ensure_shape!(
        operands.len() == expected.len(),
        "`{name}` takes {} operands, got {}",
        expected.len(),
        operands.len()
    );
    for (position, (operand, expected)) in operands.iter().zip(&expected).enumerate() {
        ensure_shape!(
            operand.same_type(expected),
            "operand {position} of `{name}` is {expected}, got {operand}"
        );
    }
    Ok(program.avals_out())
}

impl Primitive for Call {
    fn name(&self) -> &'static str {
        "call"
    }

    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        expect_operands(&self.name, &self.program, operands)
    }

    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        Ok(jvp_call(&self.program, primals, tangents, |program| self.of("jvp", program)))
    }

    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        Ok(batch_call(&self.program, operands, axes, axis, |program| self.of("vmap", program)))
    }

    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        _: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        ctx.call(&self.program, &self.name, operands)
    }

    fn cost(&self, _: &[Aval], _: &[Aval]) -> Cost {
        passes::cost(&self.program)
    }

    fn effects(&self) -> Effects {
        self.program.effects()
    }

    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        Ok(transpose_call(&self.program, cts, operands, |program| self.of("transpose", program)))
    }

    fn as_higher_order(&self) -> Option<&dyn HigherOrder> {
        Some(self)
    }
}

impl HigherOrder for Call {
    fn programs(&self) -> Vec<(&'static str, &Program)> {
        vec![("program", &self.program)]
    }

    fn run_counts(&self, _: &[Aval], _: &[Aval]) -> Vec<RunCount> {
        vec![RunCount::Times(1)]
    }

    fn inlined(&self) -> Option<&Program> {
        Some(&self.program)
    }

    fn split(&self, known: &[bool]) -> Option<Split> {
        let halves = derived::split(&self.program, known)?;
        Some(Split {
            known: Arc::new(self.of("", halves.known.clone())),
            known_operands: (0..known.len()).filter(|&at| known[at]).collect(),
            unknown: Arc::new(self.of("", halves.unknown.clone())),
            unknown_operands: halves.sources.clone(),
            outputs: halves.outputs.clone(),
        })
    }

    fn prune(&self, used: &[bool]) -> Option<Pruned> {
        prune_call(&self.program, used, |program| self.of("", program))
    }

    fn interpret(&self, operands: &[Array]) -> Result<Vec<Array>, Error> {
        Ok(passes::eval(&self.program, operands))
    }
}

/// What is left of an equation that applies a program, without what only unused results need; `wrap` makes
/// the primitive that applies the rest.
pub(super) fn prune_call<P: Primitive>(
    program: &Program,
    used: &[bool],
    wrap: impl FnOnce(Arc<Program>) -> P,
) -> Option<Pruned> {
    let (pruned, kept) = with_used_outputs(program, used);
    if !used.contains(&false) && !kept.contains(&false) && same_size(&pruned, program) {
        return None;
    }
    let positions = |marks: &[bool]| (0..marks.len()).filter(|&at| marks[at]).collect();
    Some(Pruned {
        primitive: Arc::new(wrap(Arc::new(with_kept_inputs(&pruned, &kept)))),
        operands: positions(&kept),
        results: positions(used),
    })
}

pub(super) fn make(
    params: serde_json::Value,
    programs: Vec<Program>,
) -> RuleResult<Arc<dyn Primitive>> {
    let name = params.get("name").and_then(serde_json::Value::as_str);
    let name = name.ok_or_else(|| RuleError::value("call: `name` is missing"))?.to_string();
    match <[Program; 1]>::try_from(programs) {
        Ok([program]) => Ok(Arc::new(Call { name, program: Arc::new(program) })),
        Err(programs) => {
            Err(RuleError::value(format!("call holds one program, got {}", programs.len())))
        }
    }
}

pub(super) fn exemplars() -> Vec<Exemplar> {
    // The laws of derivatives are checked in f64, and a program keeps its types.
    [DType::F32, DType::F64]
        .map(|dtype| {
            let aval = || Aval::new(dtype, [2, 3]);
            let program = trace_rules([aval(), aval()], |inputs| {
                let product = &inputs[0] * &crate::primitives::sin(&inputs[1]);
                vec![product, inputs[1].clone()]
            });
            let call = Call { name: "f".into(), program: Arc::new(program) };
            let sample = || Sample::uniform(dtype, [2, 3], -2.0, 2.0);
            Exemplar::new(call, [sample(), sample()])
        })
        .into()
}
