//! Writes loops and whole programs, those that qualify as one kernel.

use crate::core::error::{Loc, RuleResult};
use crate::core::lowering::loop_kernel::{
    self, Kernel, LoopForm, LoopReport, loop_steps, uses_library,
};
use crate::core::lowering::lower_ctx::LowerCtx;
use crate::core::program::primitive::Primitive;
use crate::core::program::program::{Eqn, Program};
use crate::core::types::aval::Aval;
use crate::stablehlo::{TensorType, Value};

impl LowerCtx<'_> {
    /// Returns true if the module's program holds products that gain from a library.
    fn uses_library(&self) -> bool {
        *self.uses_library.get_or_init(|| self.program.is_some_and(uses_library))
    }

    /// Writes an equation: a loop that qualifies as one kernel, others as their rule does.
    pub(super) fn lower_eqn(
        &mut self,
        program: &Program,
        eqn: &Eqn,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let primitive = &*eqn.primitive;
        if primitive.as_higher_order().is_none() {
            return primitive.lower(self, operands, results);
        }
        let avals = program.avals_of(&eqn.operands);
        let Some(steps) = loop_steps(primitive, &avals, results) else {
            return primitive.lower(self, operands, results);
        };
        if let Some(faster) = self.kernel_form(primitive, &avals) {
            return self.inline(&faster, operands);
        }
        let form = if self.in_kernel {
            LoopForm::Inside
        } else {
            match self.kernel(primitive, &avals, results) {
                Ok(kernel) => {
                    self.facts.kernel_products |= kernel.has_products;
                    LoopForm::Kernel
                }
                Err(reason) => LoopForm::Operations(reason),
            }
        };
        let is_kernel = form == LoopForm::Kernel;
        self.facts.loops.push(LoopReport { name: primitive.name(), loc: eqn.loc, steps, form });
        if is_kernel {
            self.write_kernel(primitive.name(), operands, results.len(), |ctx, operands| {
                primitive.lower(ctx, operands, results)
            })
        } else {
            primitive.lower(self, operands, results)
        }
    }

    /// Returns a program that computes the results of a loop faster, of which a loop is a kernel.
    fn kernel_form(&self, primitive: &dyn Primitive, operands: &[Aval]) -> Option<Program> {
        if self.in_kernel || !self.target.rewrites() || self.target.loop_kernels().is_err() {
            return None;
        }
        let program = primitive.as_higher_order()?.kernel_form(operands)?;
        let has_kernel = program.eqns().iter().any(|eqn| {
            let (of, results) = (program.avals_of(&eqn.operands), program.avals_of(&eqn.results));
            let is_loop = loop_steps(&*eqn.primitive, &of, &results).is_some();
            is_loop && self.kernel(&*eqn.primitive, &of, &results).is_ok()
        });
        has_kernel.then_some(program)
    }

    /// Checks a loop.
    ///
    /// # Errors
    /// The reason why it is not a kernel.
    fn kernel(
        &self,
        primitive: &dyn Primitive,
        operands: &[Aval],
        results: &[Aval],
    ) -> Result<Kernel, String> {
        self.target.loop_kernels()?;
        if self.is_partitioned() {
            return Err("the program runs on several devices".into());
        }
        let kernel = Kernel::of(primitive, operands, results).map_err(|why| why.to_string())?;
        if kernel.has_products && self.uses_library() {
            return Err("its products must not run in the library that the program's large \
                        products gain from"
                .into());
        }
        Ok(kernel)
    }

    /// Writes the equations of a whole program in place, or as one kernel if the program qualifies.
    /// Returns the values of its outputs.
    ///
    /// # Errors
    /// Errors of the `lower` rules.
    pub(super) fn inline_whole(
        &mut self,
        program: &Program,
        inputs: &[Value],
    ) -> RuleResult<Vec<Value>> {
        let is_allowed = self.target.program_kernels()
            && self.target.loop_kernels().is_ok()
            && !self.in_kernel
            && !self.is_partitioned();
        let checked = if is_allowed { Kernel::of_program(program) } else { Ok(None) };
        let Some(kernel) = checked.transpose() else { return self.inline(program, inputs) };
        let loc = program.eqns().iter().map(|eqn| eqn.loc).fold(Loc::UNKNOWN, Loc::or);
        let (form, kernel) = match kernel {
            Ok(kernel) => (LoopForm::Kernel, Some(kernel)),
            Err(obstacle) => (LoopForm::Operations(obstacle.to_string()), None),
        };
        self.facts.loops.push(LoopReport { name: "program", loc, steps: None, form });
        let Some(kernel) = kernel else { return self.inline(program, inputs) };
        self.facts.kernel_products |= kernel.has_products;
        self.set_named_location(loc, "program");
        self.write_kernel("program", inputs, program.outputs().len(), |ctx, inputs| {
            ctx.inline(program, inputs)
        })
    }

    /// Writes operations as a function, and a call of it that the compiler makes one kernel. `body`
    /// returns the values of `n_results` results.
    ///
    /// The compiler ends the process if such a function does not use a parameter, after it has
    /// removed uses by simplification and replaced parameters by constant operands. Of a tuple, it
    /// needs the use of one element only, which it does not replace. The function therefore has
    /// one parameter, a tuple, and returns its smallest element beside the results.
    fn write_kernel(
        &mut self,
        name: &str,
        operands: &[Value],
        n_results: usize,
        body: impl FnOnce(&mut Self, &[Value]) -> RuleResult<Vec<Value>>,
    ) -> RuleResult<Vec<Value>> {
        let mut members: Vec<Value> = Vec::with_capacity(operands.len());
        let positions: Vec<usize> = operands
            .iter()
            .map(|operand| {
                members.iter().position(|member| member == operand).unwrap_or_else(|| {
                    members.push(operand.clone());
                    members.len() - 1
                })
            })
            .collect();
        // A loop of constants has no operands.
        let tuple = (!members.is_empty())
            .then(|| TensorType::tuple(members.iter().map(|value| value.ty().clone())));
        let name = self.function_name(&format!("{name}_kernel"));
        let (outside, parameters) = self.writer.open_function(tuple.as_slice());
        let elements: Vec<Value> = (members.iter().enumerate())
            .map(|(index, member)| {
                let (attributes, types) = (format!("index = {index} : i32"), [member.ty().clone()]);
                let op = "get_tuple_element";
                self.writer.op_full(op, &parameters, &attributes, Vec::new(), &types).swap_remove(0)
            })
            .collect();
        let inner: Vec<Value> = positions.iter().map(|&at| elements[at].clone()).collect();
        self.in_kernel = true;
        let values = body(self, &inner);
        self.in_kernel = false;
        let mut values = values?;
        let size = |value: &&Value| value.ty().dims().iter().product::<usize>();
        values.extend(elements.iter().min_by_key(size).cloned());
        self.writer.close_function(outside, &name, &parameters, &values);
        let types: Vec<TensorType> = values.iter().map(|value| value.ty().clone()).collect();
        let callee = format!("callee = @{name}");
        let writer = &mut self.writer;
        let packed = match tuple {
            Some(tuple) => writer.op_full("tuple", &members, "", Vec::new(), &[tuple]),
            None => Vec::new(),
        };
        let attributes = loop_kernel::ATTRIBUTES;
        let mut called =
            writer.op_annotated("func.call", &packed, &callee, Vec::new(), attributes, &types);
        called.truncate(n_results);
        Ok(called)
    }
}
