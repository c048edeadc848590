//! `call`: what an inner `jit` becomes.

use super::derived::{
    Derived, jvp_of, same_size, tangents_of, transpose_of, with_kept_inputs, with_used_outputs,
};
use super::partial::partial_eval;
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Effects, Error, Exemplar, HigherOrder, LowerCtx,
    Operand, Primitive, Program, Pruned, Rule, RuleError, Sample, Split, Tangent, bind,
};
use crate::ensure_shape;
use crate::passes;
use crate::stablehlo::Value;
use crate::transforms::staging::trace_rules;
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

impl Primitive for Call {
    fn name(&self) -> &'static str {
        "call"
    }

    fn abstract_eval(&self, operands: &[Aval]) -> Rule<Vec<Aval>> {
        let expected = self.program.avals_in();
        ensure_shape!(
            operands.len() == expected.len(),
            "`{}` takes {} operands, got {}",
            self.name,
            expected.len(),
            operands.len()
        );
        for (position, (operand, expected)) in operands.iter().zip(&expected).enumerate() {
            ensure_shape!(
                operand.same_type(expected),
                "operand {position} of `{}` is {expected}, got {operand}",
                self.name
            );
        }
        Ok(self.program.avals_out())
    }

    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> Rule<(Vec<Array>, Vec<Tangent>)> {
        let varies: Vec<bool> = tangents.iter().map(|tangent| !tangent.is_zero()).collect();
        let avals = self.program.avals_out();
        let Derived { program, marks } = jvp_of(&self.program, &varies, &vec![false; avals.len()]);
        let dense = tangents.iter().filter_map(Tangent::array);
        let operands: Vec<&Array> = primals.iter().chain(dense).collect();
        let mut outputs = bind(self.of("jvp", program), &operands);
        let dense = outputs.split_off(avals.len());
        Ok((outputs, tangents_of(&marks, avals, dense)))
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
        passes::cost(&self.program)
    }

    fn effects(&self) -> Effects {
        self.program.effects()
    }

    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> Rule<Vec<Option<Tangent>>> {
        let linear: Vec<bool> = operands.iter().map(Operand::is_linear).collect();
        let there: Vec<bool> = cts.iter().map(|ct| !ct.is_zero()).collect();
        let n_linear = linear.iter().filter(|linear| **linear).count();
        let Derived { program, marks } =
            transpose_of(&self.program, &linear, &there, &vec![false; n_linear]);
        let known = operands.iter().filter_map(Operand::known);
        let arguments: Vec<&Array> = known.chain(cts.iter().filter_map(Tangent::array)).collect();
        let dense = bind(self.of("transpose", program), &arguments);
        let avals = operands.iter().filter(|x| x.is_linear()).map(|x| x.aval().clone());
        let mut operand_cts = tangents_of(&marks, avals, dense).into_iter();
        let ct = |linear: bool| linear.then(|| operand_cts.next().expect("one per linear operand"));
        Ok(linear.into_iter().map(ct).collect())
    }

    fn as_higher_order(&self) -> Option<&dyn HigherOrder> {
        Some(self)
    }
}

impl HigherOrder for Call {
    fn programs(&self) -> Vec<(&'static str, &Program)> {
        vec![("program", &self.program)]
    }

    fn split(&self, known: &[bool]) -> Option<Split> {
        if !known.contains(&true) {
            return None;
        }
        let halves = partial_eval(&self.program, known, &vec![false; self.program.outputs().len()]);
        if halves.is_idle() {
            // Nothing can be done ahead: the whole is recorded.
            return None;
        }
        Some(Split {
            known: Arc::new(self.of("", halves.known)),
            known_operands: (0..known.len()).filter(|&at| known[at]).collect(),
            unknown: Arc::new(self.of("", halves.unknown)),
            unknown_operands: halves.sources,
            outputs: halves.outputs,
        })
    }

    fn prune(&self, used: &[bool]) -> Option<Pruned> {
        let (program, kept) = with_used_outputs(&self.program, used);
        if !used.contains(&false) && !kept.contains(&false) && same_size(&program, &self.program) {
            return None;
        }
        let positions = |marks: &[bool]| (0..marks.len()).filter(|&at| marks[at]).collect();
        Some(Pruned {
            primitive: Arc::new(self.of("", with_kept_inputs(&program, &kept))),
            operands: positions(&kept),
            results: positions(used),
        })
    }

    fn interpret(&self, operands: &[Array]) -> Result<Vec<Array>, Error> {
        Ok(passes::eval(&self.program, operands))
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
