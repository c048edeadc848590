//! `cargo xtask ci`: everything that must hold before a change is merged.

use anyhow::Result;

use crate::check::{DOCS, FORMAT, LINTS};
use crate::step::{Action, AfterFailure, Step, run_all};
use crate::{licences, sizes};

/// The table of checks. `cargo test --workspace` is the very command of the README; it compiles
/// the examples too, and `lints` has checked the benchmarks.
const STEPS: &[Step] = &[
    FORMAT,
    Step { name: "licences", action: Action::Call(licences::check) },
    LINTS,
    Step { name: "tests", action: Action::Run(&["cargo", "test", "--workspace"], &[]) },
    DOCS,
    Step {
        name: "tpu topology, compile only",
        action: Action::RunIf(
            "crates/pjrt/tests/tpu",
            &["cargo", "test", "-p", "oxidax-pjrt", "--test", "tpu", "--", "--include-ignored"],
        ),
    },
    Step {
        name: "python-compat sample",
        action: Action::RunIf("python-compat/ci.sh", &["bash", "python-compat/ci.sh"]),
    },
    Step {
        name: "mlp example",
        action: Action::RunIf("examples/mlp", &["cargo", "run", "--release", "--example", "mlp"]),
    },
    Step {
        name: "mlp on Fashion-MNIST",
        action: Action::RunIf("examples/mlp/ci.sh", &["bash", "examples/mlp/ci.sh"]),
    },
    Step { name: "sizes", action: Action::Call(sizes::print) },
];

pub(crate) fn run() -> Result<()> {
    run_all(STEPS, AfterFailure::GoOn)
}
