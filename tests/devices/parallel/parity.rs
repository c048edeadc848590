//! Programs on eight devices compared with JAX (`python-compat/fixtures/parallel.json`).
//!
//! Operands are not recorded: both sides compute them. The function of a case is in the table of
//! its family under the name of the case.

mod beyond;
mod collectives;
mod composed;
#[path = "../../../crates/parity/src/difference.rs"]
mod difference;
mod gradients;
mod models;
mod pmapped;
mod recorded;
mod running;
mod sharded;
mod sharded_steps;

use recorded::Suite;

/// A function of operands that creates its meshes itself.
type Function = fn(&[oxidax::prelude::Array]) -> Vec<oxidax::prelude::Array>;

/// A table of functions by name.
type Table = &'static [(&'static str, Function)];

/// Lists the functions of a family under their own names.
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

            /// Every family has a test, so no case is left out.
            #[test]
            fn every_family_is_run() {
                assert_eq!(super::Suite::load().families, [$(stringify!($name)),*]);
            }
        }
    };
}

families!(collectives, gradients, composed, models, pmapped, sharded, sharded_steps);
