//! Rewrites of programs that pay with XLA's CPU compiler.

mod accumulations;
mod permutations;

use crate::core::Program;
use accumulations::accumulate_in_place;
pub(super) use permutations::fold_permutations;
use std::borrow::Cow;

/// Rewrites a program for one CPU device. Programs that equations hold are not changed.
///
/// Over several devices, gradients are sums of the devices' parts. An update in place would make
/// the compiler add up the parts before it, and those of the updates separately: two collectives
/// instead of one. Only [`fold_permutations`] is for such programs.
pub(super) fn rewrite_for_cpu(program: &Program) -> Cow<'_, Program> {
    match fold_permutations(program) {
        Cow::Borrowed(program) => accumulate_in_place(program),
        Cow::Owned(program) => Cow::Owned(accumulate_in_place(&program).into_owned()),
    }
}
