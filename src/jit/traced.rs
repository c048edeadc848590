//! [`Traced`]: a function traced for one signature, with the plan of its execution.

use super::call_refs::{CallRefs, ref_operands};
use super::explained::{CallNames, check_collectives};
use super::inspection::inspect_shardings;
use super::specialization::Specialization;
use super::tree_description::{FunctionDescription, TreeDescription};
use crate::core::trace::{self, RefUses};
use crate::core::{Array, Aval, Error, Loc, OpErrorKind, Program};
use crate::passes::{LowerOptions, Plan, StableHloModule};
use crate::replay::RecordedCall;
use crate::runtime::{CompilerOptions, CompilerReport, Executable};
use crate::tree::{Signature, Tree, TreeDef, rebuild};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::time::Duration;

/// A function traced and lowered, before it is compiled.
pub(super) struct Staged<O> {
    pub(super) traced: Traced<O>,
    pub(super) module: StableHloModule,
    /// Time spent tracing and lowering.
    pub(super) duration: Duration,
}

/// A function traced for one signature.
pub(super) struct Traced<O> {
    pub(super) name: String,
    /// The program, without unused equations.
    pub(super) program: Program,
    /// Arrays that the function captured; the last inputs of the program.
    pub(super) captures: Vec<Array>,
    /// References from outside that the function uses. The values of those that it captured are the
    /// inputs before the captures.
    pub(super) refs: RefUses,
    /// The structure of the result, with traced leaves.
    pub(super) template: O,
    /// The types of each argument's leaves.
    pub(super) arguments: Vec<Vec<Arc<Aval>>>,
    /// The path of each leaf of the arguments.
    pub(super) paths: Vec<String>,
    /// The devices and shardings of the program.
    pub(super) plan: Plan,
    /// The compiler options of the function.
    pub(super) compiler_options: CompilerOptions,
    /// No collective is allowed in the whole function.
    pub(super) refuses_collectives: bool,
}

impl<O: Tree> Traced<O> {
    /// Lowers the program for the platform of this process.
    pub(super) fn lower(&self) -> Result<StableHloModule, Error> {
        Executable::lower(&self.program, &self.name, &self.plan, LowerOptions { donatable: true })
    }

    /// Compiles the lowered program for the devices of this process.
    pub(super) fn load(
        &self,
        module: &StableHloModule,
        options: &CompilerOptions,
    ) -> Result<Specialization<O>, Error> {
        // Results share their types with equal arguments. The signature check of the next call then
        // compares pointers.
        let mut argument_avals: FxHashMap<&Aval, &Arc<Aval>> = FxHashMap::default();
        argument_avals.extend(self.arguments.iter().flatten().map(|aval| (&**aval, aval)));
        let shared = |aval: Aval| match argument_avals.get(&aval) {
            Some(&shared) => shared.clone(),
            None => Arc::new(aval),
        };
        let results: Vec<_> = self.program.avals_out().into_iter().map(shared).collect();
        let n_results = results.len() - self.refs.n_written();
        let leaves = results[..n_results].iter();
        let leaves = leaves.map(|aval| Array::of_shared_type(aval.clone())).collect();
        let template = rebuild(&self.template, leaves);
        let executable =
            Executable::load(&self.program, &self.name, module, results, &self.plan, options)?;
        self.check_collectives(|| executable.report())?;
        inspect_shardings(&self.program, &self.name, &self.plan, options)?;
        let refs = CallRefs::new(&self.refs);
        Specialization::new(executable, template, &self.captures, &self.arguments, refs)
    }

    /// Returns the operands of the program for a call with these leaves of arguments.
    pub(super) fn operands(&self, mut leaves: Vec<Array>) -> Vec<Array> {
        leaves.extend(ref_operands(&self.refs));
        leaves.extend(self.captures.iter().cloned());
        leaves
    }

    /// Refuses a function that uses references from outside.
    ///
    /// # Errors
    /// `Op` (unsupported).
    pub(super) fn expect_no_refs(&self, loc: Loc) -> Result<(), Error> {
        let Some(used) = self.refs.iter().next() else { return Ok(()) };
        let message = format!(
            "`{}` uses the reference to {} from outside, whose value belongs to a call",
            self.name,
            used.target.aval()
        );
        let error = trace::op_error(OpErrorKind::Unsupported, "lower", message, loc);
        Err(error.with_help("call the function, or pass the value and return the new one"))
    }

    /// Checks that a compiled program has no collective that `no_collectives` refuses.
    ///
    /// # Errors
    /// `Op` (collective); `Runtime` if the plugin does not provide the optimized program.
    pub(super) fn check_collectives(
        &self,
        report: impl FnOnce() -> CompilerReport,
    ) -> Result<(), Error> {
        let is_partitioned = self.plan.mesh().is_some_and(|mesh| mesh.devices().len() > 1);
        if !is_partitioned || !(self.refuses_collectives || self.program.refuses_collectives()) {
            return Ok(());
        }
        let (program, names) = (&self.program, self.names());
        check_collectives(&report(), program, &names, self.refuses_collectives)
    }

    /// Returns the shardings of the function, with the names of its arguments and results.
    /// Returns the paths of the arguments.
    pub(super) fn paths(&self) -> &[String] {
        &self.paths
    }

    pub(super) fn names(&self) -> CallNames {
        let results = TreeDef::of(&self.template).rooted_paths();
        CallNames { plan: self.plan.clone(), arguments: self.paths.clone(), results }
    }

    /// Describes a call of the function with these inputs, for recordings.
    pub(super) fn call<'a>(&'a self, inputs: &'a [Array]) -> RecordedCall<'a> {
        RecordedCall { name: &self.name, program: &self.program, inputs, paths: &self.paths }
    }

    /// Describes the arguments and results, for serialization.
    pub(super) fn description(&self, signature: &Signature) -> FunctionDescription {
        FunctionDescription {
            name: self.name.clone(),
            arguments: TreeDescription::of_signature(signature),
            results: TreeDescription::with_avals(&self.template, &self.program.avals_out()),
        }
    }
}
