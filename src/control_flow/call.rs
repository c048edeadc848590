//! `call`: what an inner `jit` becomes.

use super::partial::{PartialEval, partial_eval};
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Effects, Exemplar, HigherOrder, LowerCtx,
    Operand, Primitive, Program, Rule, RuleError, Sample, Split, Tangent, bind,
};
use crate::ensure_shape;
use crate::stablehlo::Value;
use crate::transforms::jvp::jvp_program;
use crate::transforms::staging::trace_rules;
use crate::transforms::transpose::transpose_program;
use crate::transforms::vmap::batch_program;
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
    fn of(&self, name: &str, program: Program) -> Call {
        let name = match name {
            "" => self.name.clone(),
            name => format!("{name}_{}", self.name),
        };
        Call { name, program: Arc::new(program) }
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
    program: &Program,
    primals: &[Array],
    tangents: &[Tangent],
    wrap: impl FnOnce(Program) -> P,
) -> (Vec<Array>, Vec<Tangent>) {
    let dense: Vec<&Array> = tangents.iter().filter_map(Tangent::array).collect();
    let avals = program.avals_in().into_iter();
    let avals = avals.chain(dense.iter().map(|tangent| tangent.aval().clone()));
    let mut out_tangents = Vec::new();
    let derived = trace_rules(avals, |inputs| {
        let (primals, mut rest) = {
            let (primals, rest) = inputs.split_at(tangents.len());
            (primals, rest.iter())
        };
        let tangents: Vec<Tangent> = tangents
            .iter()
            .map(|tangent| match tangent {
                Tangent::Zero(aval) => Tangent::Zero(aval.clone()),
                Tangent::Dense(_) => {
                    Tangent::Dense(rest.next().expect("one per dense tangent").clone())
                }
            })
            .collect();
        let (mut outputs, tangents) = jvp_program(program, primals, &tangents);
        outputs.extend(tangents.iter().filter_map(Tangent::array).cloned());
        out_tangents = tangents;
        outputs
    });
    let operands: Vec<&Array> = primals.iter().chain(dense).collect();
    let mut outputs = bind(wrap(derived), &operands);
    let mut dense = outputs.split_off(out_tangents.len()).into_iter();
    let tangents = out_tangents
        .into_iter()
        .map(|tangent| match tangent {
            Tangent::Zero(aval) => Tangent::Zero(aval),
            Tangent::Dense(_) => Tangent::Dense(dense.next().expect("one per dense tangent")),
        })
        .collect();
    (outputs, tangents)
}

/// The transpose of an equation that applies a program: `wrap` makes the primitive that applies the
/// program's own transpose, of known operands and dense cotangents to dense cotangents.
pub(super) fn transpose_call<P: Primitive>(
    program: &Program,
    cts: &[Tangent],
    operands: &[Operand],
    wrap: impl FnOnce(Program) -> P,
) -> Vec<Option<Tangent>> {
    let linear: Vec<bool> = operands.iter().map(Operand::is_linear).collect();
    let known: Vec<&Array> = operands.iter().filter_map(Operand::known).collect();
    let dense: Vec<&Array> = cts.iter().filter_map(Tangent::array).collect();
    let arguments: Vec<&Array> = known.iter().chain(&dense).copied().collect();
    let mut operand_cts = Vec::new();
    let derived = trace_rules(arguments.iter().map(|x| x.aval().clone()), |inputs| {
        let (known, rest) = inputs.split_at(known.len());
        let mut rest = rest.iter();
        let cts: Vec<Tangent> = cts
            .iter()
            .map(|ct| match ct {
                Tangent::Zero(aval) => Tangent::Zero(aval.clone()),
                Tangent::Dense(_) => {
                    Tangent::Dense(rest.next().expect("one per dense cotangent").clone())
                }
            })
            .collect();
        operand_cts = transpose_program(program, &linear, known, &cts);
        operand_cts.iter().filter_map(Tangent::array).cloned().collect()
    });
    let mut dense = bind(wrap(derived), &arguments).into_iter();
    let mut operand_cts = operand_cts.into_iter();
    let ct = |linear: bool| {
        linear.then(|| match operand_cts.next().expect("one per linear operand") {
            Tangent::Zero(aval) => Tangent::Zero(aval),
            Tangent::Dense(_) => Tangent::Dense(dense.next().expect("one per dense cotangent")),
        })
    };
    linear.into_iter().map(ct).collect()
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
        let mut out_axes = Vec::new();
        let program = trace_rules(operands.iter().map(|x| x.aval().clone()), |inputs| {
            let (outputs, axes) = batch_program(&self.program, inputs, axes, axis);
            out_axes = axes;
            outputs
        });
        let outputs = bind(self.of("vmap", program), &operands.iter().collect::<Vec<_>>());
        Ok(Batched { outputs, axes: out_axes })
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
        let PartialEval { known: ahead, unknown, unknown_inputs, n_residuals, outputs } =
            partial_eval(&self.program, known);
        if ahead.eqns().is_empty() && outputs.iter().all(Result::is_err) {
            // Nothing can be done ahead: the whole is recorded.
            return None;
        }
        Some(Split {
            known: Arc::new(self.of("", ahead)),
            known_operands: (0..known.len()).filter(|&at| known[at]).collect(),
            unknown: Arc::new(self.of("", unknown)),
            unknown_operands: unknown_inputs,
            n_residuals,
            outputs,
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
