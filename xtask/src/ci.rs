//! `cargo xtask ci`: everything that must hold before a change is merged.

use anyhow::Result;

use crate::check::{DOCS, FORMAT, LINTS};
use crate::step::{Action, AfterFailure, Step, run_all};
use crate::{gpu, licences, sizes, tpu};

/// The Python with JAX that `python-compat/ci.sh` makes.
const WITH_JAX: &[(&str, &str)] = &[("OXIDAX_BENCH_PYTHON", "python-compat/.venv/bin/python")];

/// The table of checks. `cargo test --workspace` is the very command of the README; it compiles
/// the examples too, and `lints` has checked the benchmarks.
const STEPS: &[Step] = &[
    FORMAT,
    Step { name: "licences", action: Action::Call(licences::check) },
    LINTS,
    Step { name: "tests", action: Action::Run(&["cargo", "test", "--workspace"], &[]) },
    Step {
        name: "object stores and several processes",
        action: Action::Run(
            // Of the whole workspace, so that dependencies are those of `tests`.
            &[
                "cargo",
                "test",
                "--workspace",
                "--features",
                "oxidax/remote,oxidax/distributed",
                "--lib",
                "--test",
                "cpu",
                "--test",
                "processes",
                "--",
                "remote",
                "distributed",
            ],
            &[],
        ),
    },
    Step {
        name: "several processes, examples",
        action: Action::Run(
            &[
                "cargo",
                "test",
                "--workspace",
                "--features",
                "oxidax/remote,oxidax/distributed",
                "--doc",
                "--",
                "distributed",
                "SeveralHosts",
            ],
            &[],
        ),
    },
    DOCS,
    Step { name: "tpu topology, compile only", action: Action::Call(tpu::compile_only) },
    Step { name: "h100 and h200, compile only", action: Action::Call(gpu::compile_only) },
    Step {
        name: "python-compat sample",
        action: Action::Run(&["bash", "python-compat/ci.sh"], &[]),
    },
    Step { name: "mlp example", action: Action::Run(&["cargo", "run", "-p", "mlp"], &[]) },
    Step {
        name: "mlp on Fashion-MNIST",
        action: Action::Run(&["bash", "examples/mlp/ci.sh"], &[]),
    },
    Step {
        name: "resnet on Fashion-MNIST",
        action: Action::Run(&["bash", "examples/resnet/ci.sh"], &[]),
    },
    Step { name: "gpt2 example", action: Action::Run(&["bash", "examples/gpt2/ci.sh"], &[]) },
    Step { name: "bert example", action: Action::Run(&["bash", "examples/bert/ci.sh"], &[]) },
    Step {
        name: "diffusion example",
        action: Action::Run(&["bash", "examples/diffusion/ci.sh"], &[]),
    },
    Step {
        name: "parallel example",
        action: Action::Run(&["bash", "examples/parallel/ci.sh"], &[]),
    },
    Step { name: "exercises", action: Action::Run(&["bash", "examples/exercises/ci.sh"], &[]) },
    // After python-compat, which makes the Python that they compare with. They only have to run:
    // no figure passes or fails.
    Step {
        name: "dispatch benchmark",
        action: Action::Run(&["cargo", "bench", "--bench", "dispatch", "--", "--quick"], WITH_JAX),
    },
    Step {
        name: "benchmark of eight devices",
        action: Action::Run(&["cargo", "bench", "--bench", "spread", "--", "--quick"], WITH_JAX),
    },
    Step {
        name: "compile benchmark",
        action: Action::Run(&["cargo", "bench", "--bench", "compile", "--", "--quick"], WITH_JAX),
    },
    Step {
        name: "data benchmark",
        action: Action::Run(&["cargo", "bench", "--bench", "data", "--", "--quick"], WITH_JAX),
    },
    Step {
        name: "models benchmark",
        action: Action::Run(
            &["cargo", "bench", "--bench", "models", "--", "--quick", "mlp", "gpt2", "gpt2-bf16"],
            WITH_JAX,
        ),
    },
    Step { name: "sizes", action: Action::Call(sizes::print) },
];

pub(crate) fn run() -> Result<()> {
    run_all(STEPS, AfterFailure::GoOn)
}
