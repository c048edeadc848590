//! Policies of `remat`: which values are stored, and how the others are recomputed.

use super::custom_policy::CustomPolicy;
use super::partial_eval::PartialEval;
use crate::core::{
    Array, Aval, Effects, Eqn, Marks, MemoryKind, Primitive, Program, SaveHint, SplitOperand, Used,
    Var,
};
use crate::passes;
use crate::primitives::in_memory;
use crate::transforms::staging::trace_rules;
use serde::{Deserialize, Serialize};

/// The values that [`remat`](super::remat) stores for the backward pass besides the arguments.
///
/// Memory for temporaries of a gradient, as reported by the CPU plugin (C API 0.115), for 8
/// residual blocks `x + gelu(x w₁) w₂` of width 64 with 256 hidden units, a batch of 512 in `f32`,
/// and the policy applied to each block:
///
/// | policy | unrolled | in a `scan` |
/// |---|---|---|
/// | no `remat` | 13.6 MiB | 23.4 MiB |
/// | `Everything` | 21.0 MiB | 25.4 MiB |
/// | `Dots`, `names(["hidden"])` | 6.4 MiB | 8.3 MiB |
/// | `Nothing` | 3.0 MiB | 4.3 MiB |
///
/// Printed by `cargo test --test cpu transforms::memory -- --nocapture`. `Everything` takes more
/// memory than no `remat`, because XLA can recompute residuals on its own, but not across the
/// barrier that `remat` inserts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Policy {
    /// Stores nothing: least memory, everything is recomputed.
    #[doc(alias = "nothing_saveable")]
    #[default]
    Nothing,
    /// Stores everything that would be stored without `remat`.
    #[doc(alias = "everything_saveable")]
    Everything,
    /// Stores results of matrix products and convolutions.
    #[doc(alias = "dots_saveable")]
    Dots,
    /// Stores results of matrix products without batch axes, such as products with weights but not
    /// those of attention.
    #[doc(alias = "dots_with_no_batch_dims_saveable")]
    DotsWithNoBatchDims,
    /// Stores values that [`checkpoint_name`](crate::primitives::checkpoint_name) gave one of these
    /// names.
    #[doc(alias = "save_only_these_names")]
    Names(Vec<String>),
    /// Stores all values but those with one of these names.
    #[doc(alias = "save_anything_except_these_names")]
    AllButNames(Vec<String>),
    /// Stores values that have a name, but for those with one of these names.
    #[doc(alias = "save_any_names_but_these")]
    AnyNamesBut(Vec<String>),
    /// Stores values with one of the names `saved` where they are, and those with one of the names
    /// `offloaded` in another memory, from which the backward pass takes them back. Names are given
    /// by [`checkpoint_name`](crate::primitives::checkpoint_name).
    #[doc(alias = "save_and_offload_only_these_names")]
    SaveAndOffloadNames {
        /// The names of values that stay in their memory.
        saved: Vec<String>,
        /// The names of values that are moved.
        offloaded: Vec<String>,
        /// The memory that they are moved to.
        memory: MemoryKind,
    },
    /// Stores results of matrix products without batch axes in another memory, from which the
    /// backward pass takes them back.
    #[doc(alias = "offload_dot_with_no_batch_dims")]
    OffloadDotsWithNoBatchDims(MemoryKind),
    /// Stores a value if one of the policies stores it. The first that does not recompute the value
    /// decides.
    #[doc(alias = "save_from_both_policies")]
    Either(Box<[Policy; 2]>),
    /// Decides by a user-defined function; see [`Policy::custom`].
    Custom(CustomPolicy),
}

/// The treatment of an operation's results by a [`Policy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residual {
    /// Computes them again in the backward pass.
    Recompute,
    /// Stores them where they are.
    #[doc(alias = "Saveable")]
    Save,
    /// Stores them in another memory, from which the backward pass takes them back.
    #[doc(alias = "Offloadable")]
    Offload(MemoryKind),
}

impl Policy {
    /// Stores the values with these names.
    pub fn names<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Policy {
        Policy::Names(names.into_iter().map(Into::into).collect())
    }

    /// Stores all values but those with these names.
    pub fn all_but_names<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Policy {
        Policy::AllButNames(names.into_iter().map(Into::into).collect())
    }

    /// Stores the values with names of `saved`, and those with names of `offloaded` in pinned host
    /// memory.
    pub fn save_and_offload<S: Into<String>>(
        saved: impl IntoIterator<Item = S>,
        offloaded: impl IntoIterator<Item = S>,
    ) -> Policy {
        Policy::SaveAndOffloadNames {
            saved: saved.into_iter().map(Into::into).collect(),
            offloaded: offloaded.into_iter().map(Into::into).collect(),
            memory: MemoryKind::PinnedHost,
        }
    }

    /// Stores the values that have a name, but for these names.
    pub fn any_names_but<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Policy {
        Policy::AnyNamesBut(names.into_iter().map(Into::into).collect())
    }

    /// Stores what this policy or `other` stores. Where both store a value, this one decides the
    /// memory.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let policy = Policy::Dots.or(Policy::names(["normalized"]));
    /// let block = |x: &Array| tanh(&checkpoint_name(&tanh(x), "normalized"));
    /// let block = remat_with(block, RematOptions { policy, ..RematOptions::default() });
    /// // The argument and the named value.
    /// assert_eq!(saved_residuals(|x: &Array| block(x).sum(), &ones([3])).len(), 2);
    /// ```
    #[must_use]
    #[doc(alias = "save_from_both_policies")]
    pub fn or(self, other: Policy) -> Policy {
        Policy::Either(Box::new([self, other]))
    }

    /// Decides by a function of the operation and the types of its operands.
    ///
    /// Policies of functions without captures are equal if the functions are. Other policies are
    /// equal only to their clones.
    ///
    /// ```
    /// use oxidax::control_flow::Residual;
    /// use oxidax::prelude::*;
    /// let policy = Policy::custom(|operation, _| match operation.name() {
    ///     "sin" | "cos" => Residual::Save,
    ///     _ => Residual::Recompute,
    /// });
    /// let options = RematOptions { policy, ..Default::default() };
    /// let f = remat_with(|x: &Array| sin(&tanh(x)), options);
    /// assert_eq!(grad(|x: &Array| f(x))(&zeros([])).item::<f32>()?, 1.0);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn custom<F>(choose: F) -> Policy
    where
        F: Fn(&dyn Primitive, &[Aval]) -> Residual + Send + Sync + 'static,
    {
        Policy::Custom(CustomPolicy::new(choose))
    }

    /// Returns the treatment of an operation's results.
    pub fn residual(&self, primitive: &dyn Primitive, operands: &[Aval]) -> Residual {
        let hint = primitive.save_hint();
        let is_named = |names: &[String]| match hint {
            SaveHint::Named(name) => names.iter().any(|other| other == name),
            _ => false,
        };
        let is_stored = match self {
            Policy::Nothing => false,
            Policy::Everything => true,
            Policy::Dots => matches!(hint, SaveHint::Contraction { .. }),
            Policy::DotsWithNoBatchDims => matches!(hint, SaveHint::Contraction { batched: false }),
            Policy::Names(names) => is_named(names),
            Policy::AllButNames(names) => !is_named(names),
            Policy::AnyNamesBut(names) => matches!(hint, SaveHint::Named(_)) && !is_named(names),
            Policy::SaveAndOffloadNames { offloaded, memory, .. } if is_named(offloaded) => {
                return Residual::Offload(*memory);
            }
            Policy::SaveAndOffloadNames { saved, .. } => is_named(saved),
            Policy::OffloadDotsWithNoBatchDims(memory) => match hint {
                SaveHint::Contraction { batched: false } => return Residual::Offload(*memory),
                _ => false,
            },
            Policy::Either(policies) => {
                let mut choices =
                    policies.iter().map(|policy| policy.residual(primitive, operands));
                let stored = choices.find(|choice| *choice != Residual::Recompute);
                return stored.unwrap_or(Residual::Recompute);
            }
            Policy::Custom(custom) => return custom.residual(primitive, operands),
        };
        if is_stored { Residual::Save } else { Residual::Recompute }
    }
}

/// The two halves of a program that stores only the values that a policy selects.
pub(super) struct Recomputed {
    /// Maps the known inputs to the known outputs, then the stored values.
    pub(super) known: Program,
    /// Maps the unknown half's own inputs, the known inputs and the stored values to the unknown
    /// outputs.
    pub(super) unknown: Program,
    /// The number of known outputs.
    pub(super) n_results: usize,
    /// The number of stored values.
    pub(super) n_stored: usize,
}

/// Removes the residuals that `policy` does not select from the known half. The unknown half
/// computes them again.
pub(super) fn recompute_unsaved(halves: &PartialEval, policy: &Policy) -> Recomputed {
    let (known, unknown) = (with_calls_inlined(&halves.known), &halves.unknown);
    let n_results = halves.known_outputs().count();
    let results = &known.outputs()[..n_results];
    let mut residuals: Vec<Var> = Vec::new();
    for source in &halves.sources {
        if let SplitOperand::Known(output) = *source {
            residuals.push(known.outputs()[output]);
        }
    }
    let stored = values_to_store(&known, &residuals, policy);
    let (stored, memories): (Vec<Var>, Vec<MemoryKind>) = stored.into_iter().unzip();
    let outputs: Vec<Var> = results.iter().chain(&stored).copied().collect();

    let n_own = unknown.inputs().len() - residuals.len();
    let mut avals = unknown.avals_in();
    avals.truncate(n_own);
    avals.extend(known.avals_in());
    let stored_avals = known.avals_of(&stored).into_iter().zip(&memories);
    avals.extend(stored_avals.map(|(aval, &memory)| aval.with_memory(memory)));
    let n_inputs = known.inputs().len();
    let program = trace_rules(avals, |inputs| {
        let (own, rest) = inputs.split_at(n_own);
        let (known_inputs, stored_values) = rest.split_at(n_inputs);
        let back = |(value, &var): (&Array, &Var)| in_memory(value, known.aval(var).memory);
        let stored_values: Vec<Array> = stored_values.iter().zip(&stored).map(back).collect();
        let defined = known.inputs().iter().zip(known_inputs);
        let defined = defined.chain(stored.iter().zip(&stored_values));
        let mut arguments = own.to_vec();
        arguments.extend(recompute(&known, &residuals, defined));
        passes::eval(unknown, &arguments)
    });
    Recomputed {
        known: with_last_outputs_in(passes::dce(&known.with_outputs(&outputs)), &memories),
        unknown: passes::dce(&program),
        n_results,
        n_stored: stored.len(),
    }
}

/// Moves the last outputs of a program to these memories.
fn with_last_outputs_in(program: Program, memories: &[MemoryKind]) -> Program {
    let n_others = program.outputs().len() - memories.len();
    let outputs = program.avals_out();
    if outputs[n_others..].iter().zip(memories).all(|(aval, &memory)| aval.memory == memory) {
        return program;
    }
    trace_rules(program.avals_in(), |inputs| {
        let mut outputs = passes::eval(&program, inputs);
        for (output, &memory) in outputs[n_others..].iter_mut().zip(memories) {
            *output = in_memory(output, memory);
        }
        outputs
    })
}

/// Returns the values from which the residuals are recomputed, and the memory that each is stored
/// in: on each path up from a residual, the first value that the policy selects.
fn values_to_store(known: &Program, residuals: &[Var], policy: &Policy) -> Vec<(Var, MemoryKind)> {
    let mut needed: Marks<Used> = Marks::none(known.avals().len());
    for &var in residuals {
        needed.set(var as usize);
    }
    let mut stored = Vec::new();
    for eqn in known.eqns().iter().rev() {
        if !eqn.results.iter().any(|&var| needed[var as usize]) {
            continue;
        }
        let choice = choice_of(policy, known, eqn);
        if choice == Residual::Recompute {
            eqn.operands.iter().for_each(|&var| needed.set(var as usize));
            continue;
        }
        for &var in eqn.results.iter().filter(|&&var| needed[var as usize]) {
            stored.push((
                var,
                match choice {
                    Residual::Offload(memory) => memory,
                    _ => known.aval(var).memory,
                },
            ));
        }
    }
    stored.reverse();
    stored
}

fn choice_of(policy: &Policy, program: &Program, eqn: &Eqn) -> Residual {
    match policy.residual(&*eqn.primitive, &program.avals_of(&eqn.operands)) {
        // An operation with effects must run once.
        Residual::Recompute if eqn.primitive.effects() != Effects::None => Residual::Save,
        choice => choice,
    }
}

/// Computes the variables `residuals` from variables with defined values.
fn recompute<'a>(
    known: &Program,
    residuals: &[Var],
    defined: impl Iterator<Item = (&'a Var, &'a Array)>,
) -> Vec<Array> {
    let mut env: Vec<Option<Array>> = vec![None; known.avals().len()];
    for (&var, array) in defined {
        env[var as usize] = Some(array.clone());
    }
    for eqn in known.eqns() {
        let has_effects = eqn.primitive.effects() != Effects::None;
        if has_effects || eqn.results.iter().any(|&var| env[var as usize].is_some()) {
            continue;
        }
        let operands: Option<Vec<&Array>> =
            eqn.operands.iter().map(|&var| env[var as usize].as_ref()).collect();
        // Operands are missing after a skipped effect. No residual depends on such an equation.
        let Some(operands) = operands else { continue };
        let results = passes::bind(eqn, &operands);
        for (&var, result) in eqn.results.iter().zip(results) {
            env[var as usize] = Some(result);
        }
    }
    let read = |&var: &Var| env[var as usize].clone().expect("computed or stored");
    residuals.iter().map(read).collect()
}

/// Inlines the calls in a program, so that a policy applies to the operations in them.
fn with_calls_inlined(program: &Program) -> Program {
    if !program.eqns().iter().any(|eqn| passes::inlined(eqn).is_some()) {
        return program.clone();
    }
    trace_rules(program.avals_in(), |inputs| passes::eval_flat(program, inputs))
}
