//! Programs on eight devices against the values that JAX has for them
//! (`python-compat/fixtures/parallel.json`).
//!
//! Operands are not recorded: both sides compute them. A case's function stands in the table of its
//! family under the case's name.

mod beyond;
mod collectives;
mod composed;
#[path = "../../cpu/parity/difference.rs"]
mod difference;
mod gradients;
mod models;
mod pmapped;
mod recorded;
mod running;
mod sharded;
mod sharded_steps;

use recorded::Suite;

/// A function of operands, with meshes inside.
type Function = fn(&[oxidax::prelude::Array]) -> Vec<oxidax::prelude::Array>;

/// Names with functions.
type Table = &'static [(&'static str, Function)];

/// The functions of a family, under their own names.
macro_rules! listed {
    ($($name:ident),* $(,)?) => {
        pub(super) const FUNCTIONS: super::Table = &[$((stringify!($name), $name)),*];
    };
}
use listed;

macro_rules! families {
    ($($name:ident),*) => {
        mod on_cpu {
            $(#[test]
            fn $name() {
                super::running::check(stringify!($name), super::$name::FUNCTIONS);
            })*

            /// No case is left out because its family has no test.
            #[test]
            fn every_family_is_run() {
                assert_eq!(super::Suite::load().families, [$(stringify!($name)),*]);
            }
        }
    };
}

families!(collectives, gradients, composed, models, pmapped, sharded, sharded_steps);
