//! [`Replay`]: the outcome of running a recorded call operation by operation.

use super::range::Range;
use super::recording::Cause;
use crate::core::{HostArray, Program};
use std::fmt;

/// The outcome of [`Recording::replay`](super::Recording::replay). Prints as a report.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Replay {
    /// The name of the function.
    pub function: String,
    /// The reason for which the call was recorded.
    pub cause: Cause,
    /// The first operation that went wrong.
    pub found: Option<BadOperation>,
    /// The first operation that made an infinity of finite operands. Often a NaN comes from it.
    pub first_infinity: Option<Site>,
    /// The inputs that hold a NaN, with their paths.
    pub bad_inputs: Vec<(String, Range)>,
    /// The number of operations that ran, without those inside compiled loops and branches.
    pub operations: usize,
}

/// The problem of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// Its results hold a NaN, and its operands do not.
    Nan,
    /// Its results hold an infinity, and its operands do not.
    Infinity,
    /// A check failed, with this message.
    Check(String),
    /// The device failed, with this error.
    Device(String),
}

/// An operation of a program.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Site {
    /// The name of the operation.
    pub operation: String,
    /// Its source line, as `file:line:column`; empty if it is unknown.
    pub line: String,
    /// The loops, branches and calls around it, outermost first.
    pub frames: Vec<Frame>,
}

/// A run of a program that an operation holds.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Frame {
    /// The name of the operation: `scan`, `cond`.
    pub operation: String,
    /// The source line of the operation; empty if it is unknown.
    pub line: String,
    /// The program: `body`, `branch 1`.
    pub program: String,
    /// The index of the run: the iteration of a loop, from 0. `None` for a program that runs once.
    pub iteration: Option<usize>,
    /// The number of iterations, if it is fixed.
    pub iterations: Option<usize>,
}

/// The first operation that went wrong.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BadOperation {
    /// The problem.
    pub problem: Problem,
    /// The name of the operation.
    pub operation: String,
    /// The operation with its parameters, as in the text of the program.
    pub text: String,
    /// Its source line, as `file:line:column`; empty if it is unknown.
    pub line: String,
    /// The loops, branches and calls around it, outermost first.
    pub frames: Vec<Frame>,
    /// The numbers of its operands.
    pub operands: Vec<Range>,
    /// The numbers of its results; empty if it failed.
    pub results: Vec<Range>,
    /// The operation as a program, and its operands.
    pub(super) alone: Option<(Program, Vec<HostArray>)>,
}

impl BadOperation {
    /// Returns the operation and its place.
    pub fn site(&self) -> Site {
        let BadOperation { operation, line, frames, .. } = self;
        Site { operation: operation.clone(), line: line.clone(), frames: frames.clone() }
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "in {}: {}", self.operation, self.program)?;
        match (self.iteration, self.iterations) {
            (Some(iteration), Some(n)) => write!(f, ", iteration {iteration} of {n}")?,
            (Some(iteration), None) => write!(f, ", iteration {iteration}")?,
            (None, _) => {}
        }
        if !self.line.is_empty() {
            write!(f, "  at {}", self.line)?;
        }
        Ok(())
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.operation)?;
        if !self.line.is_empty() {
            write!(f, "\n   --> {}", self.line)?;
        }
        self.frames.iter().rev().try_for_each(|frame| write!(f, "\n  {frame}"))
    }
}

impl fmt::Display for BadOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.operation;
        match &self.problem {
            Problem::Nan if self.operands.is_empty() => write!(f, "{name} is a NaN")?,
            Problem::Nan => write!(f, "{name} makes a NaN of operands without one")?,
            Problem::Infinity => write!(f, "{name} makes an infinity of finite operands")?,
            Problem::Check(message) => write!(f, "a check fails: {message}")?,
            Problem::Device(message) => write!(f, "{name} fails: {message}")?,
        }
        if !self.line.is_empty() {
            write!(f, "\n   --> {}", self.line)?;
        }
        for frame in self.frames.iter().rev() {
            write!(f, "\n  {frame}")?;
        }
        for (index, range) in self.operands.iter().enumerate() {
            write!(f, "\n  operand {index}: {range}")?;
        }
        for (index, range) in self.results.iter().enumerate() {
            write!(f, "\n  result {index}:  {range}")?;
        }
        write!(f, "\n  operation: {}", self.text)
    }
}

impl fmt::Display for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Replay { function, cause, operations, .. } = self;
        let s = if *operations == 1 { "" } else { "s" };
        writeln!(f, "`{function}` was recorded because {cause}; {operations} operation{s} ran")?;
        for (path, range) in &self.bad_inputs {
            writeln!(f, "input {path} holds a NaN: {range}")?;
        }
        match &self.found {
            Some(found) => write!(f, "{found}")?,
            None if self.bad_inputs.is_empty() => {
                f.write_str(
                    "no operation went wrong: the problem appears only when the program \
                             is compiled as a whole",
                )?;
            }
            None => f.write_str("no operation made a NaN of operands without one")?,
        }
        match &self.first_infinity {
            Some(site) => write!(f, "\nbefore it, an infinity appeared: {site}"),
            None => Ok(()),
        }
    }
}
