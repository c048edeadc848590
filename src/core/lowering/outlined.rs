//! Writes programs whose repeated parts are functions.

use crate::core::error::RuleResult;
use crate::core::lowering::lower_ctx::{
    LowerCtx, NOT_INLINED, Outline, Outliner, PartCall, PartFunction, Step,
};
use crate::core::lowering::repeated_part::RepeatedPart;
use crate::core::program::program::{Program, Var};
use crate::stablehlo::{TensorType, Value};

impl LowerCtx<'_> {
    /// Sets the pass that finds repeated parts of programs.
    pub(crate) fn set_outliner(&mut self, outliner: Outliner) {
        self.outliner = Some(outliner);
    }

    /// Writes a program whose repeated parts are functions.
    pub(super) fn inline_outlined(
        &mut self,
        program: &Program,
        outline: &Outline,
        inputs: &[Value],
    ) -> RuleResult<Vec<Value>> {
        let mut values: Vec<Option<Value>> = vec![None; program.avals().len()];
        for (&var, input) in program.inputs().iter().zip(inputs) {
            values[var as usize] = Some(input.clone());
        }
        let read = |values: &[Option<Value>], vars: &[Var]| -> Vec<Value> {
            let value = |&var: &Var| values[var as usize].clone();
            vars.iter().map(|var| value(var).expect("a definition comes before its uses")).collect()
        };
        let mut names: Vec<Option<String>> = vec![None; outline.parts.len()];
        for step in &outline.steps {
            let (results, written) = match *step {
                Step::Eqn(index) => {
                    let eqn = &program.eqns()[index];
                    let operands = read(&values, &eqn.operands);
                    (&eqn.results[..], self.write_eqn(program, eqn, &operands)?)
                }
                Step::Call { part: index, copy } => {
                    let part = &outline.parts[index];
                    let name = match &names[index] {
                        Some(name) => name.clone(),
                        None => self.part_function(part)?,
                    };
                    names[index] = Some(name.clone());
                    let PartCall { operands, results, loc } = &part.calls[copy];
                    let operands = read(&values, operands);
                    let types: Vec<TensorType> =
                        results.iter().map(|&var| program.aval(var).stablehlo()).collect();
                    self.set_named_location(*loc, &format!("{name}[{copy}]"));
                    let callee = format!("callee = @{name}");
                    let written = self.writer.op_annotated(
                        "func.call",
                        &operands,
                        &callee,
                        Vec::new(),
                        NOT_INLINED,
                        &types,
                    );
                    (&results[..], written)
                }
            };
            for (&var, value) in results.iter().zip(written) {
                values[var as usize] = Some(value);
            }
        }
        Ok(read(&values, program.outputs()))
    }

    /// Writes the body of a repeated part as a function. Returns its name.
    fn part_function(&mut self, part: &PartFunction) -> RuleResult<String> {
        let name = self.function_name("part");
        let equations = part.body.eqns().len();
        let (times, loc) = (part.calls.len(), part.loc);
        self.facts.repeated_parts.push(RepeatedPart { name: name.clone(), equations, times, loc });
        let outliner = self.outliner.take();
        let written = self.function(&part.body, &name);
        self.outliner = outliner;
        written.map(|()| name)
    }
}
