//! [`Outline`]: the repeated parts of a program, each lowered as one function with several calls.

use crate::core::error::Loc;
use crate::core::program::program::{Program, Var};
use std::fmt;

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
}

/// A part of a program that is compiled once and called for each of its repetitions.
///
/// Prints as `part_0: 107 equations, 12 times, src/model.rs:41:9`. Returned by
/// [`Lowered::repeated_parts`](crate::jit::Lowered::repeated_parts).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepeatedPart {
    /// The name of the function in the lowered text. The location of a call adds the index of the
    /// repetition: `part_0[3]`.
    pub name: String,
    /// The number of equations of one repetition.
    pub equations: usize,
    /// The number of repetitions.
    pub times: usize,
    /// The location of the first equation.
    pub loc: Loc,
}

impl fmt::Display for RepeatedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RepeatedPart { name, equations, times, loc } = self;
        write!(f, "{name}: {equations} equations, {times} times, {loc}")
    }
}
