//! The table of source lines of a program's equations, in the order of its text.

use crate::core::{Eqn, Program};

/// Returns the number of equations of a program, with those of the programs that they hold.
pub(super) fn count(program: &Program) -> usize {
    program.eqns().iter().map(|eqn| 1 + held_count(eqn)).sum()
}

/// Returns the number of equations in the programs that an equation holds.
pub(super) fn held_count(eqn: &Eqn) -> usize {
    let Some(holder) = eqn.primitive.as_higher_order() else { return 0 };
    holder.programs().iter().map(|(_, program)| count(program)).sum()
}

/// Returns the line of each equation, an equation before those of the programs that it holds.
/// Empty for an unknown one.
pub(super) fn lines_of(program: &Program) -> Vec<String> {
    let mut lines = Vec::new();
    add_lines(program, &mut lines);
    lines
}

fn add_lines(program: &Program, lines: &mut Vec<String>) {
    for eqn in program.eqns() {
        lines.push(eqn.loc.get().map(ToString::to_string).unwrap_or_default());
        if let Some(holder) = eqn.primitive.as_higher_order() {
            for (_, held) in holder.programs() {
                add_lines(held, lines);
            }
        }
    }
}
