//! Arrays that a user's rule captures, as operands of the equation that holds the rule.

use crate::core::rebinding::{rebound_pairs, with_rebound};
use crate::core::scoped::scoped;
use crate::core::trace::same_value;
use crate::core::{Array, RuleError};
use std::any::TypeId;
use std::sync::Arc;

/// The arrays that a user's rules capture.
pub(super) struct Captures {
    /// The captured arrays.
    pub(super) operands: Vec<Array>,
    rebinding: Rebinding,
}

/// The present value of an array that a closure refers to.
#[derive(Clone)]
enum Present {
    /// The operand at this position.
    Operand(usize),
    /// A concrete array.
    Value(Array),
}

/// The arrays that a rule refers to, which may belong to traces that have ended, and their present
/// values.
#[derive(Clone)]
pub(super) struct Rebinding(Arc<[(Array, Present)]>);

impl Captures {
    /// Collects the arrays that rules capture, each once.
    pub(super) fn of(captures: impl IntoIterator<Item = Array>) -> Captures {
        let mut operands: Vec<Array> = Vec::new();
        for capture in captures {
            if !operands.iter().any(|operand| same_value(operand, &capture)) {
                operands.push(capture);
            }
        }
        let mut pairs: Vec<(Array, Present)> = Vec::new();
        for (index, operand) in operands.iter().enumerate() {
            pairs.push((operand.clone(), Present::Operand(index)));
        }
        // A closure created inside a running rule may refer to arrays of a trace that has ended.
        for (original, present) in rebound_pairs() {
            if !present.is_traced() {
                pairs.push((original, Present::Value(present)));
                continue;
            }
            let index = operands.iter().position(|operand| same_value(operand, &present));
            pairs.extend(index.map(|index| (original, Present::Operand(index))));
        }
        Captures { operands, rebinding: Rebinding(pairs.into()) }
    }

    pub(super) fn rebinding(&self) -> Rebinding {
        self.rebinding.clone()
    }
}

impl Rebinding {
    /// Runs `f` with the captured arrays bound to `operands`.
    pub(super) fn with<R>(&self, operands: &[Array], f: impl FnOnce() -> R) -> R {
        let pairs = self.0.iter().map(|(original, present)| {
            let present = match present {
                Present::Operand(index) => operands[*index].clone(),
                Present::Value(value) => value.clone(),
            };
            (original.clone(), present)
        });
        with_rebound(pairs, f)
    }
}

scoped! {
    /// The types of the rules that are being traced to find their captures.
    static TRACED_RULES: Vec<TypeId> = Vec::new()
}

/// Returns true while a rule of type `R` is traced to find its captures.
///
/// A rule may call the function it belongs to. During this trace that call is the plain function,
/// so that the recursion ends.
pub(super) fn is_tracing_rule<R: 'static>() -> bool {
    TRACED_RULES.with(|rules| rules.contains(&TypeId::of::<R>()))
}

/// Runs `f`, which traces a rule of type `R` to find its captures.
pub(super) fn tracing_rule<R: 'static, T>(f: impl FnOnce() -> T) -> T {
    TRACED_RULES.update(|rules| rules.push(TypeId::of::<R>()), f)
}

/// Returns the error of differentiating a function with custom rules with respect to an array that
/// it captures.
pub(super) fn captured_tangent_error(function: &str, name: &str) -> RuleError {
    RuleError::unsupported(format!(
        "`{name}` captures an array that is being differentiated, but the rules of `{function}` do \
         not cover captured arrays"
    ))
    .help("make the array one of the function's arguments, or `stop_gradient` it")
}
