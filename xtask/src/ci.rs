//! `cargo xtask ci`: runs every check that a change must pass before it is merged.

use anyhow::Result;

use crate::check::{DOCS, FORMAT, LINTS};
use crate::step::{Action, AfterFailure, Step, run_all};
use crate::{advisories, features, gpu, licences, package, sizes, tpu};

/// Names the Python with JAX that `python-compat/ci.sh` installs.
const WITH_JAX: &[(&str, &str)] = &[("OXIDAX_BENCH_PYTHON", "python-compat/.venv/bin/python")];

/// The checks in order.
///
/// Dependencies are built once, in the dev profile with all features of the workspace: commands
/// that select other packages would enable other features. `cargo test --workspace` is the command
/// of the README and enables all features of the library. Benchmarks are smoke tests here: they run
/// briefly and without optimization, and no figure passes or fails.
const STEPS: &[Step] = &[
    FORMAT,
    Step { name: "licences", action: Action::Call(licences::check) },
    LINTS,
    Step { name: "tests", action: Action::Run(&["cargo", "test", "--workspace"], &[]) },
    Step { name: "tpu topology, compile only", action: Action::Call(tpu::compile_only) },
    Step { name: "h100 and h200, compile only", action: Action::Call(gpu::compile_only) },
    DOCS,
    Step { name: "features", action: Action::Call(features::check) },
    Step {
        name: "python-compat sample",
        action: Action::Run(&["bash", "python-compat/ci.sh"], &[]),
    },
    // The first command of the README.
    Step {
        name: "mlp example",
        action: Action::Run(
            &["cargo", "run", "-p", "mlp", "--", "--checkpoint", "target/mlp.safetensors"],
            &[],
        ),
    },
    // The scripts below run these binaries.
    Step {
        name: "examples",
        action: Action::Run(&["cargo", "build", "--workspace", "--bins"], &[]),
    },
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
    // After python-compat, which installs the Python that they compare with.
    Step {
        name: "smoke test: benchmarks",
        action: Action::Run(
            &[
                "cargo",
                "bench",
                "--workspace",
                "--profile",
                "dev",
                "--bench",
                "dispatch",
                "--bench",
                "spread",
                "--bench",
                "compile",
                "--bench",
                "data",
                "--",
                "--quick",
            ],
            WITH_JAX,
        ),
    },
    Step {
        name: "smoke test: models benchmark",
        action: Action::Run(
            &[
                "cargo",
                "bench",
                "--workspace",
                "--profile",
                "dev",
                "--bench",
                "models",
                "--",
                "--quick",
                "mlp",
                "gpt2",
                "gpt2-bf16",
            ],
            WITH_JAX,
        ),
    },
    Step { name: "packages", action: Action::Call(package::check) },
    Step { name: "minimal versions", action: Action::Call(package::minimal_versions) },
    Step { name: "public API", action: Action::Run(&["cargo", "xtask", "api"], &[]) },
    Step { name: "advisories", action: Action::Call(|| advisories::check(None)) },
    Step { name: "sizes", action: Action::Call(sizes::print) },
];

pub(crate) fn run() -> Result<()> {
    run_all(STEPS, AfterFailure::GoOn)
}
