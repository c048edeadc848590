//! Reports of the values that reverse mode stores.

use super::linearize::linearize_program;
use super::staging::{trace_call, trace_rules};
use crate::core::{Aval, Loc, Marks, Program, SaveHint, Var};
use crate::passes;
use crate::tree::{Function, PrimalArgs, Primals, leaves_of, paths, rooted};
use std::fmt;

/// The origin of a value that reverse mode stores.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResidualSource {
    /// An argument, by its path.
    Argument(String),
    /// An array that the function captures.
    Capture,
    /// The result of an operation.
    Operation {
        /// The name of the operation.
        name: &'static str,
        /// The name that [`checkpoint_name`](crate::primitives::checkpoint_name) gave the value.
        label: Option<String>,
        /// The user's line.
        loc: Loc,
    },
}

/// A value that reverse mode stores for the backward pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedResidual {
    /// The type of the value.
    pub aval: Aval,
    /// The origin of the value.
    pub source: ResidualSource,
}

impl SavedResidual {
    /// Returns the size of the value in bytes.
    pub fn bytes(&self) -> usize {
        self.aval.size() * self.aval.dtype.bits().div_ceil(8)
    }
}

impl fmt::Display for SavedResidual {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.aval)?;
        match &self.source {
            ResidualSource::Argument(path) => write!(f, "from the argument {path}"),
            ResidualSource::Capture => write!(f, "captured by the function"),
            ResidualSource::Operation { name, label, loc } => {
                match label {
                    Some(label) => write!(f, "named `{label}`")?,
                    None => write!(f, "output of {name}")?,
                }
                match loc.get() {
                    Some(at) => write!(f, " from {}:{}:{}", at.file(), at.line(), at.column()),
                    None => Ok(()),
                }
            }
        }
    }
}

/// The values that reverse mode stores, one per line when printed. Created by [`saved_residuals`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedResiduals(Vec<SavedResidual>);

impl std::ops::Deref for SavedResiduals {
    type Target = [SavedResidual];
    fn deref(&self) -> &[SavedResidual] {
        &self.0
    }
}

impl fmt::Display for SavedResiduals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, residual) in self.0.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{residual}")?;
        }
        Ok(())
    }
}

/// Returns the values that reverse mode stores for the backward pass of `f`: what
/// [`vjp`](super::vjp()) holds, with the policies of [`remat`](crate::control_flow::remat()).
///
/// Nothing is computed; the values of `primals` are not used. The compiler may store less: it
/// recomputes cheap values.
///
/// ```
/// use oxidax::prelude::*;
/// let f = |x: &Array| sin(&tanh(x)).sum();
/// let stored = saved_residuals(f, &ones([3]));
/// assert_eq!(stored.len(), 2);
/// assert!(stored.to_string().contains("f32[3] output of cos from "), "{stored}");
/// // With `remat`, only the argument.
/// let stored = saved_residuals(remat(f), &ones([3]));
/// assert_eq!(stored.to_string(), "f32[3] from the argument $");
/// ```
#[doc(alias = "print_saved_residuals")]
#[track_caller]
pub fn saved_residuals<A: PrimalArgs, M, F: Function<A, M>>(
    f: F,
    primals: impl Primals<A>,
) -> SavedResiduals {
    let loc = Loc::caller();
    let scope = format!("vjp({})", f.name());
    let primals = &loc.scope(|| primals.tree());
    let call = trace_call(scope, |primals| f.apply(A::from_primals(primals)), primals);
    let avals = call.program.avals_in();
    let inexact = Marks::of(&avals[..call.n_arguments], |aval| aval.dtype.is_inexact());
    let varying = inexact.padded(call.n_captures());
    let n_outputs = leaves_of(&call.template).len();
    let forward = trace_rules(avals, |inputs| {
        linearize_program(&call.program, inputs, &varying, n_outputs).1.residuals
    });
    let forward = trace_rules(forward.avals_in(), |inputs| passes::eval_flat(&forward, inputs));
    let paths = paths(primals);
    let mut residuals: Vec<(Var, SavedResidual)> = Vec::new();
    for &var in forward.outputs() {
        if !residuals.iter().any(|(other, _)| *other == var) {
            let source = source_of(&forward, var, &paths);
            residuals.push((var, SavedResidual { aval: forward.aval(var).clone(), source }));
        }
    }
    SavedResiduals(residuals.into_iter().map(|(_, residual)| residual).collect())
}

fn source_of(program: &Program, var: Var, paths: &[String]) -> ResidualSource {
    if let Some(input) = program.inputs().iter().position(|&input| input == var) {
        return match paths.get(input) {
            Some(path) => ResidualSource::Argument(rooted(path)),
            None => ResidualSource::Capture,
        };
    }
    let mut eqns = program.eqns().iter();
    let eqn = eqns.find(|eqn| eqn.results.contains(&var)).expect("a variable is defined");
    let hint = eqn.primitive.analysis().map_or(SaveHint::None, |analysis| analysis.save_hint());
    let label = match hint {
        SaveHint::Named(label) => Some(label.to_string()),
        _ => None,
    };
    ResidualSource::Operation { name: eqn.primitive.name(), label, loc: eqn.loc }
}
