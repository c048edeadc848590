//! What `remat` keeps, and how the rest is done again.

use super::partial::PartialEval;
use crate::core::{Array, Effects, Primitive, Program, SaveHint, SplitOperand, Var};
use crate::passes;
use crate::transforms::staging::trace_rules;
use serde::{Deserialize, Serialize};

/// What [`remat`](super::remat) keeps for the way back besides the arguments.
///
/// The temporaries of a gradient as the CPU plugin (C API 0.115) reports them: 8 residual blocks
/// `x + gelu(x w₁) w₂` of width 64, 256 inside, on a batch of 512 in `f32`, a policy around each.
///
/// | policy | spelt out | in a `scan` |
/// |---|---|---|
/// | no `remat` | 13.6 MiB | 23.4 MiB |
/// | `Everything` | 21.0 MiB | 25.4 MiB |
/// | `Dots`, `names(["hidden"])` | 6.4 MiB | 8.3 MiB |
/// | `Nothing` | 3.0 MiB | 4.3 MiB |
///
/// Printed by `cargo test --test cpu transforms::memory -- --nocapture`. `Everything` takes more than no `remat` because XLA
/// may drop residuals and compute them again on its own, but not across the barrier that `remat` is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Policy {
    /// Nothing: least memory, all work done again.
    Nothing,
    /// Everything that would be kept without `remat`.
    Everything,
    /// Results of matrix products and convolutions.
    Dots,
    /// Results of matrix products without batch axes: those with weights, as opposed to attention's.
    DotsWithNoBatchDims,
    /// Values that [`checkpoint_name`](crate::primitives::checkpoint_name) gave one of these names.
    Names(Vec<String>),
    /// All but those with one of these names.
    AllButNames(Vec<String>),
}

impl Policy {
    /// Keeps the values with these names.
    pub fn names<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Policy {
        Policy::Names(names.into_iter().map(Into::into).collect())
    }

    /// Keeps all values but those with these names.
    pub fn all_but_names<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Policy {
        Policy::AllButNames(names.into_iter().map(Into::into).collect())
    }

    /// Whether the results of this operation are kept.
    fn keeps(&self, primitive: &dyn Primitive) -> bool {
        let hint = primitive.save_hint();
        match self {
            Policy::Nothing => false,
            Policy::Everything => true,
            Policy::Dots => matches!(hint, SaveHint::Contraction { .. }),
            Policy::DotsWithNoBatchDims => matches!(hint, SaveHint::Contraction { batched: false }),
            Policy::Names(names) => matches!(hint, SaveHint::Named(name) if has(names, name)),
            Policy::AllButNames(names) => {
                !matches!(hint, SaveHint::Named(name) if has(names, name))
            }
        }
    }
}

fn has(names: &[String], name: &str) -> bool {
    names.iter().any(|known| known == name)
}

/// The two halves of a program after a policy has had its say.
pub(super) struct Hidden {
    /// From the known inputs to the known outputs, then what is kept.
    pub(super) ahead: Program,
    /// From the unknown half's own inputs, the known inputs and what was kept, to the unknown outputs.
    pub(super) unknown: Program,
    /// How many known outputs there are.
    pub(super) n_results: usize,
    /// How many values are kept.
    pub(super) n_saved: usize,
}

/// Takes from the known half those residuals that `policy` does not keep, and lets the unknown half
/// compute them again.
pub(super) fn hide_unsaved(halves: &PartialEval, policy: &Policy) -> Hidden {
    let (ahead, unknown) = (flattened(&halves.known), &halves.unknown);
    let n_results = halves.outputs.iter().filter(|output| output.is_known()).count();
    let results = &ahead.outputs()[..n_results];
    let residual = |source: &SplitOperand| match *source {
        SplitOperand::Operand(_) => None,
        SplitOperand::Known(at) => Some(ahead.outputs()[at]),
    };
    let residuals: Vec<Var> = halves.sources.iter().filter_map(residual).collect();
    let saved = saved(&ahead, &residuals, policy);
    let outputs: Vec<Var> = results.iter().chain(&saved).copied().collect();

    let n_own = unknown.inputs().len() - residuals.len();
    let own = unknown.avals_in().into_iter().take(n_own);
    let avals = own.chain(ahead.avals_in()).chain(saved.iter().map(|&var| ahead.aval(var).clone()));
    let n_inputs = ahead.inputs().len();
    let program = trace_rules(avals, |inputs| {
        let (own, rest) = inputs.split_at(n_own);
        let (known, kept) = rest.split_at(n_inputs);
        let mut arguments = own.to_vec();
        arguments.extend(recompute(&ahead, &residuals, known, &saved, kept));
        passes::eval(unknown, &arguments)
    });
    Hidden {
        ahead: passes::dce(&ahead.with_outputs(&outputs)),
        unknown: passes::dce(&program),
        n_results,
        n_saved: saved.len(),
    }
}

/// The values that the way back starts from: going up from the residuals, the first ones on each path that
/// the policy keeps.
fn saved(ahead: &Program, residuals: &[Var], policy: &Policy) -> Vec<Var> {
    let mut needed = vec![false; ahead.avals().len()];
    for &var in residuals {
        needed[var as usize] = true;
    }
    let mut saved = Vec::new();
    for eqn in ahead.eqns().iter().rev() {
        if !eqn.results.iter().any(|&var| needed[var as usize]) {
            continue;
        }
        // What has an effect must not be done twice.
        if policy.keeps(&*eqn.primitive) || eqn.primitive.effects() != Effects::None {
            saved.extend(eqn.results.iter().filter(|&&var| needed[var as usize]));
        } else {
            for &var in &eqn.operands {
                needed[var as usize] = true;
            }
        }
    }
    saved.reverse();
    saved
}

/// The values of `wanted`, from the inputs and the values that were kept.
fn recompute(
    ahead: &Program,
    wanted: &[Var],
    known: &[Array],
    saved: &[Var],
    kept: &[Array],
) -> Vec<Array> {
    let mut env: Vec<Option<Array>> = vec![None; ahead.avals().len()];
    let given = ahead.inputs().iter().zip(known).chain(saved.iter().zip(kept));
    for (&var, array) in given {
        env[var as usize] = Some(array.clone());
    }
    for eqn in ahead.eqns() {
        let effects = eqn.primitive.effects() != Effects::None;
        if effects || eqn.results.iter().any(|&var| env[var as usize].is_some()) {
            continue;
        }
        let operands: Option<Vec<&Array>> =
            eqn.operands.iter().map(|&var| env[var as usize].as_ref()).collect();
        // Operands are missing where an effect was left out, and then nobody wants the results.
        let Some(operands) = operands else { continue };
        let results = passes::bind(eqn, &operands);
        for (&var, result) in eqn.results.iter().zip(results) {
            env[var as usize] = Some(result);
        }
    }
    let read = |&var: &Var| env[var as usize].clone().expect("computed or kept");
    wanted.iter().map(read).collect()
}

/// The program with the programs of its calls in place, so that a policy sees what is in them.
fn flattened(program: &Program) -> Program {
    if !program.eqns().iter().any(|eqn| passes::inlined(eqn).is_some()) {
        return program.clone();
    }
    trace_rules(program.avals_in(), |inputs| passes::eval_flat(program, inputs))
}
