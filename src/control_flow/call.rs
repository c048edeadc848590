//! `call`: the primitive that an inner `jit` binds.

use super::derive::{batch_call, jvp_call, split_call, transpose_call};
use super::parse;
use super::pruning::prune_call;
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Effects, Error, Exemplar, HigherOrder, JvpResult,
    Known, Loc, LowerCtx, Marks, Operand, Primitive, Program, Pruned, RuleError, RuleResult,
    RunCount, Sample, SplitEqn, Tangent, Used, bind,
};
use crate::ensure_shape;
use crate::passes;
use crate::stablehlo::Value;
use crate::transforms::staging::{Traced, trace_rules};
use crate::tree::{Tree, rebuild};
use serde::Serialize;
use std::sync::Arc;

/// Applies a program.
///
/// | | |
/// |-|-|
/// | operands   | those of the program |
/// | results    | those of the program |
/// | lowering   | a call of a private function; equal programs share a function |
/// | derivative | a call of the program's derivative |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[doc(alias = "pjit")]
pub struct Call {
    /// The name of the function, for printing.
    pub name: String,
    /// The program.
    #[serde(skip)]
    pub program: Arc<Program>,
}

impl Call {
    /// Returns a call of a program derived from this one. `prefix` is prepended to the name.
    fn derived(&self, prefix: &str, program: Arc<Program>) -> Call {
        Call { name: format!("{prefix}_{}", self.name), program }
    }

    fn with_program(&self, program: Arc<Program>) -> Call {
        Call { name: self.name.clone(), program }
    }
}

/// Returns the types of the program's outputs.
///
/// # Errors
/// If `operands` do not have the types of the program's inputs.
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

/// Binds the primitive that applies a traced function to these operands, and returns the function's
/// result. What the function writes to references is written.
pub(super) fn bind_traced<P: Primitive, O: Tree>(
    traced: Traced<O>,
    mut operands: Vec<Array>,
    loc: Loc,
    primitive: impl FnOnce(Arc<Program>) -> P,
) -> O {
    operands.extend(traced.captures);
    let primitive = primitive(Arc::new(traced.program));
    let operands: Vec<&Array> = operands.iter().collect();
    let mut outputs = loc.scope(|| bind(primitive, &operands));
    traced.refs.write_back(&mut outputs);
    rebuild(&traced.template, outputs)
}

impl Primitive for Call {
    fn name(&self) -> &'static str {
        "call"
    }

    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        expect_operands(&self.name, &self.program, operands)
    }

    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        Ok(jvp_call(&self.program, primals, tangents, |program| self.derived("jvp", program)))
    }

    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        Ok(batch_call(&self.program, operands, axes, axis, |program| self.derived("vmap", program)))
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
        Ok(transpose_call(&self.program, cts, operands, |program| {
            self.derived("transpose", program)
        }))
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

    fn split(&self, known: &Marks<Known>) -> Option<SplitEqn> {
        let half = |program| self.with_program(program);
        split_call(&self.program, known, half, half)
    }

    fn prune(&self, used: &Marks<Used>) -> Option<Pruned> {
        prune_call(&self.program, used, |program, _| self.with_program(program))
    }

    fn with_programs(&self, programs: Vec<Arc<Program>>) -> Option<Arc<dyn Primitive>> {
        let [program] = <[_; 1]>::try_from(programs).ok()?;
        Some(Arc::new(Call::with_program(self, program)))
    }

    fn interpret(&self, operands: &[Array]) -> Result<Vec<Array>, Error> {
        Ok(passes::eval(&self.program, operands))
    }
}

pub(super) fn make(
    params: serde_json::Value,
    programs: Vec<Program>,
) -> RuleResult<Arc<dyn Primitive>> {
    let name = params.get("name").and_then(serde_json::Value::as_str);
    let name = name.ok_or_else(|| RuleError::value("call: `name` is missing"))?.to_string();
    let [program] = parse::exact("call", programs)?;
    Ok(Arc::new(Call { name, program: Arc::new(program) }))
}

pub(super) fn exemplars() -> Vec<Exemplar> {
    // Derivative laws run in f64, and the types of a program are fixed.
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
