//! [`LowerCtx`]: the context of `lower` rules.

use crate::core::error::{Loc, RuleResult};
use crate::core::lowering::loop_kernel::{LoopForm, LoopReport};
use crate::core::lowering::manual::Manual;
use crate::core::lowering::repeated_part::RepeatedPart;
use crate::core::lowering::target::LoweringTarget;
use crate::core::mesh::mesh::Mesh;
use crate::core::program::primitive::Effects;
use crate::core::program::program::{Eqn, Program, Var};
use crate::core::types::aval::Aval;
use crate::stablehlo::{TensorType, Value, Writer};
use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::ops::{Deref, DerefMut};

/// The attribute of a call whose function XLA compiles apart.
pub(super) const NOT_INLINED: &str = "mhlo.frontend_attributes = {inlineable = \"false\"}";

/// A [`Writer`] of StableHLO that also writes programs, and records facts about the module.
#[derive(Debug)]
pub struct LowerCtx<'a> {
    pub(super) writer: Writer,
    pub(super) target: LoweringTarget<'a>,
    pub(super) facts: ModuleFacts,
    functions: HashMap<FunctionKey, String>,
    routines: HashMap<String, String>,
    n_functions: usize,
    n_channels: usize,
    token: Option<Value>,
    refused_at: Loc,
    /// Rewrites each program before it is written.
    rewrite: Option<Rewrite>,
    /// Rewrites each program in a loop's kernel, after `rewrite`.
    kernel_rewrite: Option<Rewrite>,
    /// Finds repeated parts, which become functions.
    pub(super) outliner: Option<Outliner>,
    /// The mesh over which the compiler partitions the module.
    partition: Option<Mesh>,
    pub(super) manual: Option<Manual>,
    /// The writer is inside a loop's kernel.
    pub(super) in_kernel: bool,
    /// The attributes for XLA of the operations that are written.
    pub(super) metadata: Vec<(String, String)>,
    /// The program that the module computes.
    pub(super) program: Option<&'a Program>,
    /// True if it holds products that gain from the library for products.
    pub(super) uses_library: OnceCell<bool>,
}

/// The key of a function that equal programs share.
#[derive(Debug, PartialEq, Eq, Hash)]
struct FunctionKey {
    program: Program,
    manual: Option<Manual>,
    in_kernel: bool,
}

/// Facts about a module, recorded while it is lowered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ModuleFacts {
    /// The ids of the host functions that the module calls.
    pub(crate) host_functions: Vec<u64>,
    /// The calls that are transfers between device and host.
    pub(crate) host_transfers: Vec<TransferredCall>,
    /// A call of the program waits for the devices, so that it can return a callback's error.
    pub(crate) waits: bool,
    /// The module exchanges data between devices.
    pub(crate) communicates: bool,
    /// Operations of the module must not move data between devices.
    pub(crate) refuses_collectives: bool,
    /// The repeated parts that are functions.
    pub(crate) repeated_parts: Vec<RepeatedPart>,
    /// The loops, in program order.
    pub(crate) loops: Vec<LoopReport>,
    /// Kernels hold products of matrices, which must not run in a library.
    pub(crate) kernel_products: bool,
}

impl ModuleFacts {
    /// Returns true if a loop is one kernel.
    pub(crate) fn has_kernels(&self) -> bool {
        self.loops.iter().any(|of| of.form == LoopForm::Kernel)
    }
}

/// A call of a host function through transfers between device and host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TransferredCall {
    /// The id of the function.
    pub(crate) function: u64,
    /// The operands, each with its channel. Empty arrays have none.
    pub(crate) operands: Vec<(Option<usize>, Aval)>,
    /// The channel of a number that is sent if there is no other operand.
    pub(crate) start: Option<usize>,
    /// The results, each with its channel. Empty arrays have none.
    pub(crate) results: Vec<(Option<usize>, Aval)>,
    /// The channel of a number that is received if there is no other result: the program ends after
    /// the function.
    pub(crate) end: Option<usize>,
}

/// Returns a program that computes the same and that the target compiles better.
pub(crate) type Rewrite = fn(&Program) -> Cow<'_, Program>;

/// Finds the repeated parts of a program. Returns `None` if there are none worth a function.
pub(crate) type Outliner = fn(&Program) -> Option<Outline>;

/// A program as a sequence of equations and calls of functions, in the order of lowering.
#[derive(Debug)]
pub(crate) struct Outline {
    pub(crate) parts: Vec<PartFunction>,
    pub(crate) steps: Vec<Step>,
}

/// One step of an outlined program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The equation at this index.
    Eqn(usize),
    /// A repetition of a part, both by index.
    Call { part: usize, copy: usize },
}

/// A part that a program repeats with different operands, as a function.
#[derive(Debug)]
pub(crate) struct PartFunction {
    /// The function that all repetitions call.
    pub(crate) body: Program,
    /// The repetitions, in program order.
    pub(crate) calls: Vec<PartCall>,
    /// The location of the part's first equation.
    pub(crate) loc: Loc,
}

/// The variables of one repetition.
#[derive(Debug)]
pub(crate) struct PartCall {
    /// The variables for the inputs of the body.
    pub(crate) operands: Vec<Var>,
    /// The variables that the outputs of the body define.
    pub(crate) results: Vec<Var>,
    /// The location of the first equation, in the scope that all share.
    pub(crate) loc: Loc,
}

/// Returns the file, line and column of a location.
fn position(loc: Loc) -> Option<(&'static str, u32, u32)> {
    loc.get().map(|at| (at.file(), at.line(), at.column()))
}

impl<'a> LowerCtx<'a> {
    /// Creates a context for an empty module for `target`, for example `"cpu"`, `"cuda"` or
    /// `"tpu"`.
    pub fn new(target: impl Into<LoweringTarget<'a>>) -> LowerCtx<'a> {
        LowerCtx {
            writer: Writer::new(),
            target: target.into(),
            facts: ModuleFacts::default(),
            functions: HashMap::new(),
            routines: HashMap::new(),
            n_functions: 0,
            n_channels: 0,
            token: None,
            refused_at: Loc::UNKNOWN,
            rewrite: None,
            kernel_rewrite: None,
            outliner: None,
            partition: None,
            manual: None,
            in_kernel: false,
            metadata: Vec::new(),
            program: None,
            uses_library: OnceCell::new(),
        }
    }

    /// Returns the target of the module.
    pub fn target(&self) -> LoweringTarget<'a> {
        self.target
    }

    /// Returns the platform of the target: `cpu`, `cuda` or `tpu`.
    pub fn platform(&self) -> &str {
        self.target.platform()
    }

    /// Returns true inside a loop that is one kernel.
    pub(crate) fn is_in_kernel(&self) -> bool {
        self.in_kernel
    }

    /// Returns the facts recorded so far.
    pub(crate) fn facts(&self) -> ModuleFacts {
        self.facts.clone()
    }

    /// Records that the module calls a host function. `waits` is true if a call of the program must
    /// wait for the function.
    pub(crate) fn record_host_call(&mut self, function: u64, waits: bool) {
        self.facts.host_functions.push(function);
        self.facts.waits |= waits;
    }

    /// Records a call of a host function through transfers between device and host.
    pub(crate) fn record_host_transfer(&mut self, call: TransferredCall) {
        self.facts.host_transfers.push(call);
    }

    /// Returns true if the module runs on several devices.
    pub(crate) fn is_partitioned(&self) -> bool {
        self.partition.is_some()
    }

    /// Returns the mesh of a module that runs on several devices.
    pub(crate) fn partition(&self) -> Option<&Mesh> {
        self.partition.as_ref()
    }

    /// Sets the mesh of the module. A mesh of one device counts as none.
    pub(crate) fn set_partition(&mut self, mesh: Option<&Mesh>) {
        self.partition = mesh.filter(|mesh| mesh.devices().len() > 1).cloned();
    }

    /// Sets the program that the module computes.
    pub(crate) fn set_program(&mut self, program: &'a Program) {
        self.program = Some(program);
    }

    /// Sets the pass that rewrites programs for the target.
    pub(crate) fn set_rewrite(&mut self, rewrite: Rewrite) {
        self.rewrite = Some(rewrite);
    }

    /// Sets the pass that rewrites programs in kernels of loops.
    pub(crate) fn set_kernel_rewrite(&mut self, rewrite: Rewrite) {
        self.kernel_rewrite = Some(rewrite);
    }

    /// Returns the location of the operation whose `lower` rule failed.
    pub fn refused_at(&self) -> Loc {
        self.refused_at
    }

    /// Sets the location of an operation that a `lower` rule refuses in a program that it holds.
    pub(crate) fn set_refused_at(&mut self, loc: Loc) {
        self.refused_at = self.refused_at.or(loc);
    }

    /// Returns the token for the next ordered side effect. Primitives that hold programs with
    /// ordered effects pass it through their regions.
    ///
    /// In a module that runs on several devices it is a number on CPU and GPU. The effects are in
    /// manual computations there, which take and return arrays only.
    pub fn token(&mut self) -> Value {
        if let Some(token) = &self.token {
            return token.clone();
        }
        let token = if self.is_partitioned() && self.platform() != "tpu" {
            self.writer.constant("0", &TensorType::new("ui32", &[]))
        } else {
            self.writer.op_as("create_token", &[], "", &TensorType::token())
        };
        self.token = Some(token.clone());
        token
    }

    /// Sets the token that the last ordered side effect returned.
    pub fn set_token(&mut self, token: Value) {
        self.token = Some(token);
    }

    /// Returns an unused channel id.
    pub fn channel(&mut self) -> usize {
        self.n_channels += 1;
        self.n_channels
    }

    /// Writes the program's equations in place. Returns the values of its outputs.
    ///
    /// # Errors
    /// Errors of the `lower` rules.
    pub fn inline(&mut self, program: &Program, inputs: &[Value]) -> RuleResult<Vec<Value>> {
        let outer = self.writer.location();
        let program = match self.rewrite {
            Some(rewrite) => rewrite(program),
            None => Cow::Borrowed(program),
        };
        let kernel_rewrite = self.kernel_rewrite.filter(|_| self.in_kernel);
        let rewritten = kernel_rewrite.map(|rewrite| rewrite(&program).into_owned());
        let program = rewritten.map_or(program, Cow::Owned);
        // A kernel is one function.
        let outliner = self.outliner.filter(|_| !self.in_kernel && self.metadata.is_empty());
        let outline = outliner.and_then(|outline| outline(&program));
        let outputs = match outline {
            Some(outline) => self.inline_outlined(&program, &outline, inputs)?,
            None => program.try_interpret(inputs.iter().cloned(), |eqn, operands| {
                let operands: Vec<Value> =
                    operands.iter().map(|&operand| operand.clone()).collect();
                self.write_eqn(&program, eqn, &operands)
            })?,
        };
        self.writer.restore_location(outer);
        Ok(outputs)
    }

    /// Sets the location of the operations written from now on, with a name in its scope.
    pub(super) fn set_named_location(&mut self, loc: Loc, name: &str) {
        let name = match loc.scope_path() {
            "" => name.to_owned(),
            scope => format!("{scope}/{name}"),
        };
        self.writer.set_named_location(name, position(loc));
    }

    /// Writes an equation. Returns the values of its results.
    pub(super) fn write_eqn(
        &mut self,
        program: &Program,
        eqn: &Eqn,
        operands: &[Value],
    ) -> RuleResult<Vec<Value>> {
        let results = program.avals_of(&eqn.results);
        match eqn.loc.scope_path() {
            // The pass that propagates shardings keeps the lines of named operations only.
            "" if !self.is_partitioned() => self.writer.set_location(position(eqn.loc)),
            _ => self.set_named_location(eqn.loc, eqn.primitive.name()),
        }
        let outer_attributes = self.annotate();
        self.facts.refuses_collectives |= eqn.loc.refuses_collectives();
        self.facts.communicates |= eqn.primitive.communication().is_some();
        // Rules that trace also attribute their operations to the user's line.
        let values = eqn.loc.scope(|| {
            if let Some(check) = self.target.check() {
                let vars = eqn.operands.iter().chain(&eqn.results);
                let avals: Vec<&Aval> = vars.map(|&var| program.aval(var)).collect();
                check(eqn.primitive.name(), &avals)?;
            }
            let values = self.lower_eqn(program, eqn, operands, &results)?;
            Ok(self.constrain(program, eqn, values))
        });
        if let Some(outer) = outer_attributes {
            self.writer.restore_frontend_attributes(outer);
        }
        values.inspect_err(|_| self.refused_at = self.refused_at.or(eqn.loc))
    }

    /// Writes a call of the program as a function, which equal programs share. A program with
    /// ordered side effects is inlined, because it uses the token. On a TPU, so is a program that
    /// calls host functions, because each call needs separate channels.
    ///
    /// # Errors
    /// Errors of the `lower` rules.
    pub fn call(
        &mut self,
        program: &Program,
        name: &str,
        inputs: &[Value],
    ) -> RuleResult<Vec<Value>> {
        if !self.metadata.is_empty() {
            // Each operation has the attributes, which other calls do not.
            return self.inline(program, inputs);
        }
        self.call_annotated(program, name, inputs, "")
    }

    /// Writes a call as [`call`](LowerCtx::call) does, with attributes of another dialect.
    pub(super) fn call_annotated(
        &mut self,
        program: &Program,
        name: &str,
        inputs: &[Value],
        annotations: &str,
    ) -> RuleResult<Vec<Value>> {
        let Some(name) = self.shared_function(program, name)? else {
            return self.inline(program, inputs);
        };
        let results: Vec<TensorType> =
            program.outputs().iter().map(|&var| program.aval(var).stablehlo()).collect();
        let callee = format!("callee = @{name}");
        let regions = Vec::new();
        Ok(self.writer.op_annotated("func.call", inputs, &callee, regions, annotations, &results))
    }

    /// Writes the program as a function, which equal programs share, and returns its name. Returns
    /// `None` for a program that must be inlined; see [`LowerCtx::call`].
    ///
    /// # Errors
    /// Errors of the `lower` rules.
    pub fn shared_function(&mut self, program: &Program, name: &str) -> RuleResult<Option<String>> {
        let transfers = self.platform() == "tpu" && program.is_opaque();
        if program.effects() == Effects::Ordered || transfers {
            return Ok(None);
        }
        // Collectives and operations with a mesh are lowered by the manual axes around them.
        let uses_mesh = !program.axis_names().is_empty() || program.mesh().is_some();
        let manual = self.manual.clone().filter(|_| uses_mesh);
        let key = FunctionKey { program: program.clone(), manual, in_kernel: self.in_kernel };
        let name = match self.functions.get(&key) {
            Some(name) => name.clone(),
            None => {
                let name = self.function_name(name);
                self.function(program, &name)?;
                self.functions.insert(key, name.clone());
                name
            }
        };
        Ok(Some(name))
    }

    /// Returns an unused function name. Reserved before the body is written, so that functions
    /// inside the body get other names.
    pub(super) fn function_name(&mut self, stem: &str) -> String {
        let identifier = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let stem: String = stem.chars().map(identifier).collect();
        self.n_functions += 1;
        format!("{stem}_{}", self.n_functions - 1)
    }

    /// Writes a call of a function whose operations `body` writes. Calls with the same `stem`,
    /// operand types and result types share one function, so `body` must not depend on anything
    /// else.
    ///
    /// # Errors
    /// Errors of `body`.
    pub fn routine(
        &mut self,
        stem: &str,
        inputs: &[Value],
        results: &[TensorType],
        body: impl FnOnce(&mut Writer, &[Value]) -> RuleResult<Vec<Value>>,
    ) -> RuleResult<Vec<Value>> {
        let callee = self.routine_function(stem, inputs, results, body)?;
        Ok(self.writer.op_full("func.call", inputs, &callee, Vec::new(), results))
    }

    /// Writes a call as [`routine`](LowerCtx::routine) does, of a function that XLA compiles apart:
    /// no pass moves its operations into those of the caller.
    ///
    /// # Errors
    /// Errors of `body`.
    pub(crate) fn separate_routine(
        &mut self,
        stem: &str,
        inputs: &[Value],
        results: &[TensorType],
        body: impl FnOnce(&mut Writer, &[Value]) -> RuleResult<Vec<Value>>,
    ) -> RuleResult<Vec<Value>> {
        let callee = self.routine_function(stem, inputs, results, body)?;
        let (regions, kept) = (Vec::new(), NOT_INLINED);
        Ok(self.writer.op_annotated("func.call", inputs, &callee, regions, kept, results))
    }

    /// Returns the name of a function as [`routine`](LowerCtx::routine) writes it, for operations
    /// that call it. `inputs` have the types of its parameters.
    ///
    /// # Errors
    /// Errors of `body`.
    pub(crate) fn routine_name(
        &mut self,
        stem: &str,
        inputs: &[Value],
        results: &[TensorType],
        body: impl FnOnce(&mut Writer, &[Value]) -> RuleResult<Vec<Value>>,
    ) -> RuleResult<String> {
        let callee = self.routine_function(stem, inputs, results, body)?;
        Ok(callee.trim_start_matches("callee = @").to_string())
    }

    /// Returns the attribute that names the function of a routine, which is written if no call with
    /// the same `stem` and types came before.
    fn routine_function(
        &mut self,
        stem: &str,
        inputs: &[Value],
        results: &[TensorType],
        body: impl FnOnce(&mut Writer, &[Value]) -> RuleResult<Vec<Value>>,
    ) -> RuleResult<String> {
        let types: Vec<TensorType> = inputs.iter().map(|value| value.ty().clone()).collect();
        let with = |key: String, types: &[TensorType]| {
            types.iter().fold(key, |key, ty| format!("{key} {ty}"))
        };
        let key = with(with(stem.to_string(), &types) + " ->", results);
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
        Ok(format!("callee = @{name}"))
    }

    /// Writes the program as the function `@name`.
    ///
    /// # Errors
    /// Errors of the `lower` rules.
    pub fn function(&mut self, program: &Program, name: &str) -> RuleResult<()> {
        let (outside, inputs) = self.open_function_of(program);
        let outputs = self.inline(program, &inputs)?;
        self.writer.close_function(outside, name, &inputs, &outputs);
        Ok(())
    }

    /// Writes the module's whole program as the function `@name` with attributes: `arguments` and
    /// `results` return the text for each index, empty for none. A small program is one kernel.
    ///
    /// # Errors
    /// Errors of the `lower` rules.
    pub fn function_with(
        &mut self,
        program: &Program,
        name: &str,
        arguments: impl Fn(usize) -> String,
        results: impl Fn(usize) -> String,
    ) -> RuleResult<()> {
        let (outside, inputs) = self.open_function_of(program);
        let outputs = self.inline_whole(program, &inputs)?;
        self.writer.close_function_with(outside, name, &inputs, &outputs, arguments, results);
        Ok(())
    }

    /// Starts a function of the program's inputs. Returns the text outside of it, and the inputs.
    fn open_function_of(&mut self, program: &Program) -> (String, Vec<Value>) {
        let types: Vec<TensorType> =
            program.inputs().iter().map(|&var| program.aval(var).stablehlo()).collect();
        self.writer.open_function(&types)
    }

    /// Returns the text of the module.
    pub fn finish(self, name: &str) -> String {
        self.writer.finish(name)
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
