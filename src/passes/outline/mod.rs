//! [`outline`]: finds parts that a program repeats, such as layers written in a Rust loop.
//!
//! A traced loop leaves one copy of its body per iteration, and XLA's compile time grows with the
//! number of copies. Lowering writes each repeated part as one function that the compiler does not
//! inline, so that it is compiled once. The program itself is not changed: costs, rooflines and NaN
//! checks see every equation.
//!
//! 1. [`Units`] hashes each equation: its primitive with parameters, types and source line.
//! 2. [`repeats`] finds runs in which these hashes are periodic, and divides each into copies where
//!    the fewest values pass from one to the next: layers, forward and backward.
//! 3. [`components`] finds equal elementwise parts among the remaining equations, such as an
//!    optimizer's update of each parameter, whose equations are spread over the program.
//! 4. [`recompute`] moves cheap values that one part computes for another into the other.
//! 5. [`parts`] builds the functions, and [`order`] the order of their calls.
//!
//! All steps take time nearly proportional to the size of the program.

mod components;
mod group;
mod order;
mod parts;
mod recompute;
mod repeats;
mod units;

use crate::core::Program;
use crate::core::lowering::Outline;
use group::Groups;
use units::Units;

/// The least number of repetitions of a part.
const MIN_COPIES: usize = 3;

/// The least number of equations of a part, those of inner programs included.
const MIN_EQUATIONS: usize = 12;

/// The least arithmetic of a layer. The call of a function takes less than a microsecond, and below
/// this number fusion across layers may save more than that.
const MIN_FLOPS: u64 = 1 << 20;

/// Finds the repeated parts of a program. Returns `None` if there are none worth a function.
pub(crate) fn outline(program: &Program) -> Option<Outline> {
    // Most programs are too small to repeat anything, and pay for no more than this.
    if program.eqns().len() < MIN_COPIES {
        return None;
    }
    let units = Units::of(program);
    if units.weight(0..program.eqns().len()) < MIN_COPIES * MIN_EQUATIONS {
        return None;
    }
    let mut groups = Groups::new(program);
    for repeat in repeats::find(program, &units) {
        groups.add_layers(&units, repeat);
    }
    if groups.is_empty() {
        return None;
    }
    components::add(&mut groups, &units);
    recompute::recompute(&mut groups);
    let steps = order::steps(&groups)?;
    Some(Outline { parts: parts::build(&groups), steps })
}
