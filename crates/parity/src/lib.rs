//! Compares oxidax with results recorded from JAX (`python-compat/`), within each case's tolerance.
//!
//! [`Suite`] reads a fixture, and [`Suite::verify`] computes its cases. Each module has oxidax's
//! calls for the operations of one suite, and the tests that compare them with the fixtures of the
//! repository.

#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    reason = "a case with other parameters than its operation needs fails, and `verify` reports it"
)]

/// Declares one test for each family of a suite's operations, which `family` and `apply` of the
/// module group and compute.
#[cfg(test)]
macro_rules! families {
    ($suite:expr; $($name:ident),*) => {
        $(#[test]
        fn $name() {
            $suite.check_ops(|op| family(op) == stringify!($name), apply);
        })*
    };
}

/// Defines a test for each family of cases of a suite, which their parameter `family` names.
#[cfg(test)]
macro_rules! recorded_families {
    ($suite:literal: $($name:ident),*) => {$(
        #[test]
        fn $name() {
            let suite = Suite::load($suite).with_narrow_defaults();
            let suite = suite.without(|_, params, _| params["family"] != stringify!($name));
            suite.check_ops(|_| true, apply);
        }
    )*};
}

mod api;
mod autodiff;
mod autodiff_programs;
mod autodiff_rules;
mod case;
#[cfg(test)]
mod checks;
mod collective_functions;
mod collectives;
mod control_flow;
mod control_flow_functions;
mod difference;
mod fixtures;
mod implicit_functions;
mod joined;
mod known;
mod lax;
mod lax_options;
mod lax_products;
mod layers;
mod linalg;
#[cfg(test)]
mod mlp;
mod nn;
mod numpy;
mod numpy_arrays;
mod ops;
mod ops_moving;
mod optim;
mod options;
#[cfg(test)]
mod promotion;
mod random;
mod refs;
mod remaining;
mod remaining_lax;
mod samplers;
mod transforms;
#[cfg(test)]
mod trees;
mod verify;
#[cfg(test)]
mod verify_tests;

pub use fixtures::{FixtureError, Suite};
pub use verify::{CaseOutcome, CaseReport, ResultDifference, SUITES};
