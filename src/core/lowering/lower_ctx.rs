//! [`LowerCtx`]: what a primitive's `lower` rule writes to.

use crate::core::error::loc::at_location;
use crate::core::error::{Loc, RuleError, RuleResult};
use crate::core::lowering::manual_axes::Manual;
use crate::core::program::primitive::Effects;
use crate::core::program::program::{Eqn, Program};
use crate::stablehlo::{TensorType, Value, Writer};
use std::collections::HashMap;
use std::ops::{Deref, DerefMut};

/// A StableHLO writer that can also write whole programs. Dereferences to the [`Writer`].
#[derive(Debug)]
pub struct LowerCtx<'a> {
    writer: Writer,
    platform: &'a str,
    functions: HashMap<(Program, Option<Manual>), String>,
    routines: HashMap<String, String>,
    n_functions: usize,
    n_channels: usize,
    token: Option<Value>,
    refused_at: Loc,
    pub(super) manual: Option<Manual>,
}

impl<'a> LowerCtx<'a> {
    /// A context for an empty module that will run on `platform`: `cpu`, `cuda`, `tpu`.
    pub fn new(platform: &'a str) -> LowerCtx<'a> {
        LowerCtx {
            writer: Writer::new(),
            platform,
            functions: HashMap::new(),
            routines: HashMap::new(),
            n_functions: 0,
            n_channels: 0,
            token: None,
            refused_at: None,
            manual: None,
        }
    }

    /// The platform that the module is for.
    pub fn platform(&self) -> &str {
        self.platform
    }

    /// Where the user called the operation that was refused, once one was.
    pub fn refused_at(&self) -> Loc {
        self.refused_at
    }

    /// The token that the next ordered side effect takes. A holder of programs passes it into its regions
    /// and out of them if their effects are ordered.
    pub fn token(&mut self) -> Value {
        if self.token.is_none() {
            let types = [TensorType::token()];
            let made = self.writer.op_full("stablehlo.create_token", &[], "", Vec::new(), &types);
            self.token = made.into_iter().next();
        }
        self.token.clone().expect("it was just made")
    }

    /// Sets the token for the next ordered side effect: what the last one gave.
    pub fn set_token(&mut self, token: Value) {
        self.token = Some(token);
    }

    /// A number that no channel of the module has yet.
    pub fn channel(&mut self) -> usize {
        self.n_channels += 1;
        self.n_channels
    }

    /// Writes the program's equations in place and gives the values of its outputs.
    ///
    /// # Errors
    /// Those of the `lower` rules.
    pub fn inline(&mut self, program: &Program, inputs: &[Value]) -> RuleResult<Vec<Value>> {
        let outer = self.writer.location();
        let mut values: Vec<Option<Value>> = vec![None; program.avals().len()];
        for (&var, value) in program.inputs().iter().zip(inputs) {
            values[var as usize] = Some(value.clone());
        }
        let read = |values: &[Option<Value>], var: u32| {
            values[var as usize].clone().expect("operands are defined before they are used")
        };
        for eqn in program.eqns() {
            let operands: Vec<Value> = eqn.operands.iter().map(|&var| read(&values, var)).collect();
            let avals = program.avals_of(&eqn.results);
            let place = eqn.location.map(|at| (at.file(), at.line(), at.column()));
            self.writer.set_location(place);
            // Rules that are themselves traced name the user's line too.
            let results = at_location(eqn.location, || {
                refuse_two_bits(eqn, program, self.platform)?;
                eqn.primitive.lower(self, &operands, &avals)
            });
            let results = results.inspect_err(|_| {
                self.refused_at = self.refused_at.or(eqn.location);
            })?;
            for (&var, value) in eqn.results.iter().zip(results) {
                values[var as usize] = Some(value);
            }
        }
        self.writer.restore_location(outer);
        Ok(program.outputs().iter().map(|&var| read(&values, var)).collect())
    }

    /// Writes a call of the program as a function; equal programs share one. A program with ordered side
    /// effects is written in place, where its token is.
    ///
    /// # Errors
    /// Those of the `lower` rules.
    pub fn call(
        &mut self,
        program: &Program,
        name: &str,
        inputs: &[Value],
    ) -> RuleResult<Vec<Value>> {
        if program.effects() == Effects::Ordered {
            return self.inline(program, inputs);
        }
        // What collectives, and what speaks of a mesh, become depends on the devices around them.
        let speaks = |_: &Manual| !program.axis_names().is_empty() || program.mesh().is_some();
        let manual = self.manual.clone().filter(speaks);
        let key = (program.clone(), manual);
        let name = match self.functions.get(&key) {
            Some(name) => name.clone(),
            None => {
                let name = self.function_name(name);
                self.function(program, &name)?;
                self.functions.insert(key, name.clone());
                name
            }
        };
        let results: Vec<TensorType> =
            program.outputs().iter().map(|&var| program.aval(var).stablehlo()).collect();
        let callee = format!("callee = @{name}");
        Ok(self.writer.op_full("func.call", inputs, &callee, Vec::new(), &results))
    }

    /// A name that no function of the module has yet. It is taken before the body is written, so
    /// that functions inside the body get other names.
    fn function_name(&mut self, stem: &str) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let stem: String = stem.chars().map(plain).collect();
        self.n_functions += 1;
        format!("{stem}_{}", self.n_functions - 1)
    }

    /// Writes a call of a function that a primitive writes itself, operation by operation; calls
    /// with the same `stem` and operand types share one, so `body` must depend on nothing else.
    ///
    /// # Errors
    /// Those of `body`.
    pub fn routine(
        &mut self,
        stem: &str,
        inputs: &[Value],
        results: &[TensorType],
        body: impl FnOnce(&mut Writer, &[Value]) -> RuleResult<Vec<Value>>,
    ) -> RuleResult<Vec<Value>> {
        let types: Vec<TensorType> = inputs.iter().map(|value| value.ty().clone()).collect();
        let key = types.iter().fold(stem.to_string(), |key, ty| format!("{key} {ty}"));
        let name = match self.routines.get(&key) {
            Some(name) => name.clone(),
            None => {
                let name = self.function_name(stem);
                let (outside, arguments) = self.writer.open_function(&types);
                let outputs = body(&mut self.writer, &arguments)?;
                self.writer.close_function(outside, &name, &arguments, &outputs);
                self.routines.insert(key, name.clone());
                name
            }
        };
        let callee = format!("callee = @{name}");
        Ok(self.writer.op_full("func.call", inputs, &callee, Vec::new(), results))
    }

    /// Writes the program as the function `@name`.
    ///
    /// # Errors
    /// Those of the `lower` rules.
    pub fn function(&mut self, program: &Program, name: &str) -> RuleResult<()> {
        self.function_with(program, name, |_| String::new(), |_| String::new())
    }

    /// The same with these attributes of its arguments and results; empty for none.
    ///
    /// # Errors
    /// Those of the `lower` rules.
    pub fn function_with(
        &mut self,
        program: &Program,
        name: &str,
        arguments: impl Fn(usize) -> String,
        results: impl Fn(usize) -> String,
    ) -> RuleResult<()> {
        let types: Vec<TensorType> =
            program.inputs().iter().map(|&var| program.aval(var).stablehlo()).collect();
        let (outside, inputs) = self.writer.open_function(&types);
        let outputs = self.inline(program, &inputs)?;
        self.writer.close_function_with(outside, name, &inputs, &outputs, arguments, results);
        Ok(())
    }

    /// The finished module.
    pub fn finish(self, name: &str) -> String {
        self.writer.finish(name)
    }
}

/// libtpu (0.0.51) aborts the process on some operations with elements of two bits.
fn refuse_two_bits(eqn: &Eqn, program: &Program, platform: &str) -> RuleResult<()> {
    if platform != "tpu" {
        return Ok(());
    }
    let mut avals = eqn.operands.iter().chain(&eqn.results).map(|&var| program.aval(var));
    match avals.find(|aval| aval.dtype.bits() == 2) {
        Some(aval) => {
            let message =
                format!("{} of {aval}: no two-bit integers on a TPU", eqn.primitive.name());
            Err(RuleError::unsupported(message).help("pass it as i4 or u4"))
        }
        None => Ok(()),
    }
}

impl Deref for LowerCtx<'_> {
    type Target = Writer;
    fn deref(&self) -> &Writer {
        &self.writer
    }
}

impl DerefMut for LowerCtx<'_> {
    fn deref_mut(&mut self) -> &mut Writer {
        &mut self.writer
    }
}
