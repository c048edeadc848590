//! [`RepeatedPart`]: a part of a program that lowering writes as one function.

use crate::core::error::Loc;
use std::fmt;

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
