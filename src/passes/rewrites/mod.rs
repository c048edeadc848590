//! Rewrites of programs that pay with XLA's CPU compiler.

mod accumulations;
mod permutations;

use super::dce::dce;
use crate::core::Program;
use accumulations::accumulate_in_place;
use permutations::fold_permutations;
use std::borrow::Cow;

/// Rewrites a program for one CPU device.
pub(super) fn rewrite_for_cpu(program: &Program) -> Cow<'_, Program> {
    rewritten(program, &[fold_permutations, accumulate_in_place])
}

/// Rewrites a program for several CPU devices.
///
/// There, gradients are sums of the devices' parts. An update in place would make the compiler add
/// up the parts before it, and those of the updates separately: two collectives instead of one.
pub(super) fn rewrite_for_cpus(program: &Program) -> Cow<'_, Program> {
    rewritten(program, &[fold_permutations])
}

/// Applies rewrites, which return `None` if they change nothing, and removes what became unused.
fn rewritten<'a>(
    program: &'a Program,
    rewrites: &[fn(&Program) -> Option<Program>],
) -> Cow<'a, Program> {
    let apply = |result: Cow<'a, Program>, rewrite: &fn(&Program) -> Option<Program>| {
        rewrite(&result).map_or(result, Cow::Owned)
    };
    match rewrites.iter().fold(Cow::Borrowed(program), apply) {
        Cow::Owned(changed) => Cow::Owned(dce(&changed)),
        unchanged => unchanged,
    }
}
