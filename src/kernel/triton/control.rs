//! Conditions, loops and calls.

use super::emitter::{Emitter, Value};
use super::ir::Tensor;
use crate::control_flow::{Call, Cond, CustomJvp, CustomVjp, Remat, Scan, WhileLoop};
use crate::core::{DType, Program, RuleError, RuleResult};
use std::any::Any;
use std::sync::Arc;

impl Emitter<'_> {
    /// Writes an operation that has programs, or returns `None` if it is another one.
    pub(super) fn control(
        &mut self,
        primitive: &dyn Any,
        operands: &[Value],
    ) -> RuleResult<Option<Vec<Value>>> {
        let call = |program: &Arc<Program>| Some(program.clone());
        let program = if let Some(of) = primitive.downcast_ref::<Call>() {
            call(&of.program)
        } else if let Some(of) = primitive.downcast_ref::<CustomJvp>() {
            call(&of.function.program)
        } else if let Some(of) = primitive.downcast_ref::<CustomVjp>() {
            call(&of.function.program)
        } else if let Some(of) = primitive.downcast_ref::<Remat>() {
            call(&of.program)
        } else {
            None
        };
        if let Some(program) = program {
            let n_inputs = program.inputs().len();
            return self.program(&program, &operands[..n_inputs]).map(Some);
        }
        if let Some(cond) = primitive.downcast_ref::<Cond>() {
            let [Value::Tensor(index), rest @ ..] = operands else {
                return Err(RuleError::value("the number of the branch is in memory"));
            };
            return self.branches(index, 0, &cond.branches, rest).map(Some);
        }
        if let Some(scan) = primitive.downcast_ref::<Scan>() {
            return self.scan(scan, operands).map(Some);
        }
        if let Some(of) = primitive.downcast_ref::<WhileLoop>() {
            return self.while_loop(of, operands).map(Some);
        }
        Ok(None)
    }

    /// Writes a program as the body of a region. Returns its text and its outputs.
    fn region(
        &mut self,
        write: impl FnOnce(&mut Self) -> RuleResult<Vec<Value>>,
    ) -> RuleResult<(String, Vec<Value>)> {
        let outside = std::mem::take(&mut self.ir.text);
        let outputs = write(self);
        let text = std::mem::replace(&mut self.ir.text, outside);
        Ok((text, outputs?))
    }

    fn branches(
        &mut self,
        index: &Tensor,
        number: usize,
        branches: &[Arc<Program>],
        operands: &[Value],
    ) -> RuleResult<Vec<Value>> {
        if number + 1 == branches.len() {
            return self.program(&branches[number], operands);
        }
        let this = self.ir.int(number as i128, index.dtype, &[]);
        let is_this = self.ir.compare("cmpi eq", index, &this);
        let (yes, outputs) = self.region(|of| of.program(&branches[number], operands))?;
        let (no, others) = self.region(|of| of.branches(index, number + 1, branches, operands))?;
        let (first, second) = (Self::tensors(&outputs), Self::tensors(&others));
        let results = self.names_of(&first);
        let types = types_of(&first);
        let names: Vec<&str> = results.iter().map(|result| result.name.as_str()).collect();
        let (is_empty, location) = (first.is_empty(), self.ir.location());
        let condition = &is_this.name;
        let header = match is_empty {
            true => format!("scf.if {condition} {{"),
            false => format!("{} = scf.if {condition} -> ({types}) {{", tuple_of(&names)),
        };
        self.ir.line(&header);
        self.ir.text.push_str(&yes);
        self.yield_(&first);
        self.ir.line("} else {");
        self.ir.text.push_str(&no);
        self.yield_(&second);
        self.ir.line(&format!("}}{location}"));
        let mut results = unpacked(results).into_iter();
        let replace = |output: &Value| match output {
            Value::Memory(number) => Value::Memory(*number),
            Value::Tensor(_) => Value::Tensor(results.next().expect("one result per output")),
        };
        Ok(outputs.iter().map(replace).collect())
    }

    fn yield_(&mut self, values: &[Tensor]) {
        if !values.is_empty() {
            let names: Vec<&str> = values.iter().map(|value| value.name.as_str()).collect();
            self.ir.line(&format!("scf.yield {} : {}", names.join(", "), types_of(values)));
        }
    }

    /// Returns new values of the same types.
    fn names_of(&mut self, values: &[Tensor]) -> Vec<Tensor> {
        values
            .iter()
            .map(|value| {
                let name = self.ir.name();
                value.renamed(name)
            })
            .collect()
    }

    /// Starts a loop of `length` steps. Returns its index, the values in it, and its first line,
    /// which the caller writes.
    pub(super) fn open_for(
        &mut self,
        length: usize,
        inits: &[Tensor],
    ) -> (Tensor, Vec<Tensor>, String) {
        let zero = self.ir.int(0, DType::I32, &[]);
        let one = self.ir.int(1, DType::I32, &[]);
        let end = self.ir.int(length as i128, DType::I32, &[]);
        let inner = self.names_of(inits);
        let index = self.ir.name();
        let range = format!("{index} = {} to {} step {}", zero.name, end.name, one.name);
        let index = self.ir.value(index, DType::I32, &[]);
        if inits.is_empty() {
            return (index, inner, format!("scf.for {range} : i32 {{"));
        }
        let pairs: Vec<String> = inner
            .iter()
            .zip(inits)
            .map(|(inner, init)| format!("{} = {}", inner.name, init.name))
            .collect();
        let results = self.names_of(inits);
        let names: Vec<&str> = results.iter().map(|result| result.name.as_str()).collect();
        let header = format!(
            "{} = scf.for {range} iter_args({}) -> ({}) : i32 {{",
            tuple_of(&names),
            pairs.join(", "),
            types_of(inits)
        );
        (index, inner, header)
    }

    /// Ends a loop. Returns its results.
    pub(super) fn close_for(&mut self, header: &str, last: &[Tensor]) -> Vec<Tensor> {
        self.yield_(last);
        let location = self.ir.location();
        self.ir.line(&format!("}}{location}"));
        let name = header.split([':', ' ']).next().expect("a line starts with a name");
        let results = last.iter().enumerate().map(|(index, value)| {
            let name = if last.len() == 1 { name.to_string() } else { format!("{name}#{index}") };
            value.renamed(name)
        });
        results.collect()
    }

    fn scan(&mut self, scan: &Scan, operands: &[Value]) -> RuleResult<Vec<Value>> {
        let n_fixed = scan.n_consts + scan.n_carry;
        let body: &Program = &scan.body;
        if operands.len() > n_fixed || body.outputs().len() > scan.n_carry {
            return Err(RuleError::unsupported(
                "kernels for GPUs have no `scan` over the elements of arrays",
            )
            .help("use `kernel::fori_loop`, and read and write parts of references"));
        }
        let (consts, carry) = operands.split_at(scan.n_consts);
        let inits = Self::tensors(carry);
        let (_, inner, header) = self.open_for(scan.length, &inits);
        let (text, outputs) = self.region(|of| {
            let mut inputs = consts.to_vec();
            inputs.extend(with_tensors(carry, inner));
            of.program(body, &inputs)
        })?;
        self.ir.line(&header);
        self.ir.text.push_str(&text);
        let results = self.close_for(&header, &Self::tensors(&outputs));
        Ok(with_tensors(carry, results))
    }

    fn while_loop(&mut self, of: &WhileLoop, operands: &[Value]) -> RuleResult<Vec<Value>> {
        let (cond_consts, rest) = operands.split_at(of.n_cond_consts);
        let (body_consts, carry) = rest.split_at(of.n_body_consts);
        let inits = Self::tensors(carry);
        let (before, after, results) =
            (self.names_of(&inits), self.names_of(&inits), self.names_of(&inits));
        let inputs = |consts: &[Value], carry: Vec<Value>| [consts, &carry].concat();
        let (cond, outputs) = self.region(|emitter| {
            let carry = with_tensors(carry, before.clone());
            emitter.program(&of.cond, &inputs(cond_consts, carry))
        })?;
        let (body, last) = self.region(|emitter| {
            let carry = with_tensors(carry, after.clone());
            emitter.program(&of.body, &inputs(body_consts, carry))
        })?;
        let Some(Value::Tensor(condition)) = outputs.first() else {
            return Err(RuleError::value("the condition of a loop is in memory"));
        };
        let types = types_of(&inits);
        let pairs: Vec<String> = before
            .iter()
            .zip(&inits)
            .map(|(inner, init)| format!("{} = {}", inner.name, init.name))
            .collect();
        let names: Vec<&str> = results.iter().map(|result| result.name.as_str()).collect();
        let location = self.ir.location();
        let assigned = match inits.is_empty() {
            true => String::new(),
            false => format!("{} = ", tuple_of(&names)),
        };
        let header =
            format!("{assigned}scf.while ({}) : ({types}) -> ({types}) {{", pairs.join(", "));
        self.ir.line(&header);
        self.ir.text.push_str(&cond);
        let names: Vec<&str> = before.iter().map(|value| value.name.as_str()).collect();
        let passed = match inits.is_empty() {
            true => String::new(),
            false => format!(" {} : {types}", names.join(", ")),
        };
        self.ir.line(&format!("scf.condition({}){passed}", condition.name));
        self.ir.line("} do {");
        let arguments: Vec<String> =
            after.iter().map(|value| format!("{}: {}", value.name, value.ty())).collect();
        self.ir.line(&format!("^bb0({}):", arguments.join(", ")));
        self.ir.text.push_str(&body);
        self.yield_(&Self::tensors(&last));
        if inits.is_empty() {
            self.ir.line("scf.yield");
        }
        self.ir.line(&format!("}}{location}"));
        Ok(with_tensors(carry, unpacked(results)))
    }
}

/// Replaces the tensors among values.
fn with_tensors(values: &[Value], tensors: Vec<Tensor>) -> Vec<Value> {
    let mut tensors = tensors.into_iter();
    let replace = |value: &Value| match value {
        Value::Memory(number) => Value::Memory(*number),
        Value::Tensor(_) => Value::Tensor(tensors.next().expect("one tensor per value")),
    };
    values.iter().map(replace).collect()
}

fn types_of(values: &[Tensor]) -> String {
    values.iter().map(Tensor::ty).collect::<Vec<_>>().join(", ")
}

/// Returns the left side of an operation with several results, which share the first name.
fn tuple_of(names: &[&str]) -> String {
    match names {
        [name] => (*name).to_string(),
        _ => format!("{}:{}", names[0], names.len()),
    }
}

/// Returns results with the names by which they are used: all share the first name.
fn unpacked(results: Vec<Tensor>) -> Vec<Tensor> {
    if results.len() < 2 {
        return results;
    }
    let first = results[0].name.clone();
    let name = |(index, result): (usize, Tensor)| result.renamed(format!("{first}#{index}"));
    results.into_iter().enumerate().map(name).collect()
}
