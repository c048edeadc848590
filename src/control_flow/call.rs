//! `call`: what an inner `jit` becomes.

use super::derived;
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Effects, Exemplar, HigherOrder, LowerCtx,
    Operand, Primitive, Program, Rule, RuleError, Sample, Split, Tangent, bind,
};
use crate::ensure_shape;
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
pub(super) fn expect_operands(name: &str, program: &Program, operands: &[Aval]) -> Rule<Vec<Aval>> {
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

/// The jvp of an equation that applies a program: `wrap` makes the primitive that applies the
/// program's own jvp, of primals and dense tangents to outputs and dense tangents.
pub(super) fn jvp_call<P: Primitive>(
    program: &Arc<Program>,
    primals: &[Array],
    tangents: &[Tangent],
    wrap: impl FnOnce(Arc<Program>) -> P,
) -> (Vec<Array>, Vec<Tangent>) {
    let (program, results) = derived::jvp(program, tangents);
    let dense = tangents.iter().filter_map(Tangent::array);
    let operands: Vec<&Array> = primals.iter().chain(dense).collect();
    let mut outputs = bind(wrap(program), &operands);
    let mut dense = outputs.split_off(results.len()).into_iter();
    (outputs, results.iter().map(|slot| slot.fill(&mut dense)).collect())
}

/// The transpose of an equation that applies a program: `wrap` makes the primitive that applies the
/// program's own transpose, of known operands and dense cotangents to dense cotangents.
pub(super) fn transpose_call<P: Primitive>(
    program: &Arc<Program>,
    cts: &[Tangent],
    operands: &[Operand],
    wrap: impl FnOnce(Arc<Program>) -> P,
) -> Vec<Option<Tangent>> {
    let (program, pulled) = derived::transpose(program, cts, operands);
    let known = operands.iter().filter_map(Operand::known);
    let arguments: Vec<&Array> = known.chain(cts.iter().filter_map(Tangent::array)).collect();
    let mut dense = bind(wrap(program), &arguments).into_iter();
    let mut pulled = pulled.iter();
    let ct = |operand: &Operand| {
        operand.is_linear().then(|| pulled.next().expect("one per linear operand").fill(&mut dense))
    };
    operands.iter().map(ct).collect()
}

impl Primitive for Call {
    fn name(&self) -> &'static str {
        "call"
    }

    fn abstract_eval(&self, operands: &[Aval]) -> Rule<Vec<Aval>> {
        expect_operands(&self.name, &self.program, operands)
    }

    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> Rule<(Vec<Array>, Vec<Tangent>)> {
        Ok(jvp_call(&self.program, primals, tangents, |program| self.of("jvp", program)))
    }

    fn batch(&self, operands: &[Array], axes: &[Option<usize>], axis: &BatchAxis) -> Rule<Batched> {
        let (program, axes) = derived::batch(&self.program, operands, axes, axis);
        let outputs = bind(self.of("vmap", program), &operands.iter().collect::<Vec<_>>());
        Ok(Batched { outputs, axes })
    }

    fn lower(&self, ctx: &mut LowerCtx<'_>, operands: &[Value], _: &[Aval]) -> Rule<Vec<Value>> {
        ctx.call(&self.program, &self.name, operands)
    }

    fn cost(&self, _: &[Aval], _: &[Aval]) -> Cost {
        crate::passes::cost(&self.program)
    }

    fn effects(&self) -> Effects {
        self.program.effects()
    }

    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> Rule<Vec<Option<Tangent>>> {
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

    fn inlined(&self) -> Option<&Program> {
        Some(&self.program)
    }

    fn split(&self, known: &[bool]) -> Option<Split> {
        if !known.contains(&true) {
            return None;
        }
        let halves = derived::split(&self.program, known)?;
        Some(Split {
            known: Arc::new(self.of("", halves.known.clone())),
            known_operands: (0..known.len()).filter(|&at| known[at]).collect(),
            unknown: Arc::new(self.of("", halves.unknown.clone())),
            unknown_operands: halves.unknown_inputs.clone(),
            n_residuals: halves.n_residuals,
            outputs: halves.outputs.clone(),
        })
    }
}

pub(super) fn make(params: serde_json::Value, programs: Vec<Program>) -> Rule<Arc<dyn Primitive>> {
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
    let aval = || Aval::new(DType::F32, [2, 3]);
    let program = trace_rules([aval(), aval()], |inputs| {
        let product = &inputs[0] * &crate::primitives::sin(&inputs[1]);
        vec![product, inputs[1].clone()]
    });
    let call = Call { name: "f".into(), program: Arc::new(program) };
    let sample = || Sample::uniform(DType::F32, [2, 3], -2.0, 2.0);
    vec![Exemplar::new(call, [sample(), sample()])]
}
