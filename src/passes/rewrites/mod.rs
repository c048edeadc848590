//! Rewrites of programs that pay with XLA's CPU compiler.

mod accumulations;
mod permutations;

use crate::core::Program;
use accumulations::accumulate_in_place;
use permutations::fold_permutations;
use std::borrow::Cow;

/// Rewrites a program for a CPU. Programs that equations hold are not changed.
pub(super) fn rewrite_for_cpu(program: &Program) -> Cow<'_, Program> {
    match fold_permutations(program) {
        Cow::Borrowed(program) => accumulate_in_place(program),
        Cow::Owned(program) => Cow::Owned(accumulate_in_place(&program).into_owned()),
    }
}
