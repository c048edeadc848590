//! Rewrites of the programs of loops that are one kernel of XLA's CPU compiler.

mod joined_parts;

use super::dce::dce;
use crate::core::Program;
use joined_parts::join_parts;
use std::borrow::Cow;

/// Rewrites a program that a kernel holds.
pub(super) fn rewrite_for_kernel(program: &Program) -> Cow<'_, Program> {
    join_parts(program).map_or(Cow::Borrowed(program), |joined| Cow::Owned(dce(&joined)))
}
