//! `no_collectives` for operations outside of `jit`.

use super::collectives::CompiledCollective;
use super::executable::Executable;
use crate::core::transform_path;
use crate::core::{Error, Loc, OpError, OpErrorKind, Program, SourceLine};

/// Returns an error if an operation inside [`no_collectives`](crate::core::no_collectives)
/// exchanges data between devices. `loc` is its line.
///
/// # Errors
/// `Op` (collective); `Runtime` if the plugin does not provide the optimized program.
pub(super) fn check_operation(executable: &Executable, loc: Loc) -> Result<(), Error> {
    check(executable, |_| true, |_| loc)
}

/// Returns an error if a program exchanges data between devices for one of its operations inside
/// `no_collectives`.
///
/// # Errors
/// As [`check_operation`].
pub(super) fn check_program(executable: &Executable, program: &Program) -> Result<(), Error> {
    let is_inside =
        |one: &CompiledCollective| one.operation.as_deref().is_some_and(Loc::is_refusing_path);
    let loc = |one: &CompiledCollective| {
        let inside = program.eqns().iter().map(|eqn| eqn.loc);
        let inside: Vec<Loc> = inside.filter(|loc| loc.refuses_collectives()).collect();
        let is_place = |loc: &&Loc| SourceLine::of(**loc) == one.place;
        inside.iter().find(is_place).or(inside.first()).copied().unwrap_or(Loc::UNKNOWN)
    };
    check(executable, is_inside, loc)
}

fn check(
    executable: &Executable,
    is_inside: impl Fn(&CompiledCollective) -> bool,
    loc: impl Fn(&CompiledCollective) -> Loc,
) -> Result<(), Error> {
    let Some(mesh) = executable.outputs.target.mesh() else { return Ok(()) };
    let found = executable.report().collectives()?;
    let is_inside = |one: &&CompiledCollective| is_inside(one);
    let refused: Vec<&CompiledCollective> = found.each().iter().filter(is_inside).collect();
    let Some(largest) = refused.iter().max_by_key(|one| one.bytes) else { return Ok(()) };
    let more = refused.len() - 1;
    let plural = if more == 1 { "" } else { "s" };
    Err(Error::Op(Box::new(OpError {
        kind: OpErrorKind::Collective,
        primitive: executable.name().to_string(),
        message: format!("{} inside `no_collectives`", largest.summary(mesh)),
        operands: Vec::new(),
        note: (more > 0).then(|| format!("{more} more collective{plural} inside")),
        loc: loc(largest),
        path: transform_path(),
        help: Some(
            "reshard the operands before `no_collectives`, or choose shardings with which each \
             device has what it needs"
                .to_owned(),
        ),
    })))
}
