//! [`Outline`]: the repeated parts of a program, each lowered as one function with several calls.

use crate::core::error::Loc;
use crate::core::program::program::{Program, Var};

/// Finds the repeated parts of a program. Returns `None` if there are none worth a function.
pub(crate) type Outliner = fn(&Program) -> Option<Outline>;

/// A program as a sequence of equations and calls of functions, in the order of lowering.
#[derive(Debug)]
pub(crate) struct Outline {
    pub(crate) parts: Vec<RepeatedPart>,
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

/// A part that a program repeats with different operands.
#[derive(Debug)]
pub(crate) struct RepeatedPart {
    /// The function that all repetitions call.
    pub(crate) body: Program,
    /// The repetitions, in program order.
    pub(crate) copies: Vec<PartCall>,
    /// The location of the first equation.
    pub(crate) loc: Loc,
}

/// The variables of one repetition.
#[derive(Debug)]
pub(crate) struct PartCall {
    /// The variables for the inputs of the body.
    pub(crate) operands: Vec<Var>,
    /// The variables that the outputs of the body define.
    pub(crate) results: Vec<Var>,
}
