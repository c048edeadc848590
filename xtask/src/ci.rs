//! `cargo xtask ci`: runs every check that a change must pass before it is merged.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::check::{DOCS, FORMAT, LINTS};
use crate::step::{Action, AfterFailure, Report, Step};
use crate::{advisories, features, gpu, licences, package, profile_page, root, sizes, stores, tpu};

/// Names the Python with JAX that `python-compat/ci.sh` installs.
const WITH_JAX: &[(&str, &str)] = &[("OXIDAX_BENCH_PYTHON", "python-compat/.venv/bin/python")];

/// A short run of a benchmark, with these arguments.
macro_rules! smoke_test {
    ($name:literal $(, $argument:literal)*) => {
        Step {
            name: concat!("smoke test: ", $name, " benchmark"),
            action: Action::Run(
                &[
                    "cargo", "bench", "--workspace", "--profile", "dev", "--bench", $name, "--",
                    "--quick", $($argument),*
                ],
                WITH_JAX,
            ),
        }
    };
}

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
    Step {
        name: "passes on random programs",
        action: Action::Run(
            &[
                "cargo",
                "test",
                "--workspace",
                "--test",
                "cpu",
                "--",
                "passes_do_not_change_results",
            ],
            &[("OXIDAX_FUZZ_PASSES", "10000..11000")],
        ),
    },
    Step { name: "tpu topology, compile only", action: Action::Call(tpu::compile_only) },
    Step { name: "object stores", action: Action::Call(stores::check) },
    Step { name: "h100 and h200, compile only", action: Action::Call(gpu::compile_only) },
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
    Step {
        name: "research programs",
        action: Action::Run(&["bash", "examples/research/ci.sh"], &[]),
    },
    Step { name: "exercises", action: Action::Run(&["bash", "examples/exercises/ci.sh"], &[]) },
    Step { name: "kernels", action: Action::Run(&["bash", "examples/kernels/ci.sh"], &[]) },
    Step {
        name: "types of the xla-rs example",
        action: Action::Run(&["bash", "python-compat/xla-rs/ci.sh"], &[]),
    },
    // The profile that the exercises wrote.
    Step { name: "profile page", action: Action::Call(profile_page::check) },
    Step { name: "advisories", action: Action::Call(|| advisories::check(None)) },
    Step { name: "sizes", action: Action::Call(sizes::print) },
];

/// Checks that keep about one core busy, because most of their time goes to one crate or one Python
/// process. A second process runs them beside [`STEPS`].
///
/// The first two do not wait for the first builds of [`STEPS`].
const BESIDE: &[Step] = &[
    Step { name: "minimal versions", action: Action::Call(package::minimal_versions) },
    Step {
        name: "python-compat sample",
        action: Action::Run(&["bash", "python-compat/ci.sh"], &[]),
    },
    Step { name: "features", action: Action::Call(features::check) },
    DOCS,
    Step { name: "public API", action: Action::Run(&["cargo", "xtask", "api"], &[]) },
    Step { name: "packages", action: Action::Call(package::check) },
];

/// The checks after [`BESIDE`], in which python-compat installs the Python that they use.
const WITH_PYTHON: &[Step] = &[
    // The run that the gpt2 example interrupted and continued.
    Step {
        name: "event files",
        action: Action::Run(
            &["python-compat/.venv/bin/python", "python-compat/event_files.py", "target/gpt2/run"],
            &[],
        ),
    },
    // Functions that oxidax exports, called in JAX, with their gradients.
    Step {
        name: "exported functions",
        action: Action::Run(
            &["sh", "python-compat/exports.sh", "target/exported", "target/debug"],
            &[],
        ),
    },
    // GPT-2s of Hugging Face and Flax, fine-tuned here and evaluated in JAX.
    Step {
        name: "fine-tuned models in JAX",
        action: Action::Run(
            &["sh", "python-compat/finetune.sh", "target/finetuned", "target/debug"],
            &[],
        ),
    },
    // The profile that the exercises wrote, a traced gpt2 example, and a capture while it trains.
    Step {
        name: "profiles",
        action: Action::Run(
            &["bash", "python-compat/profiles.sh", "target/exercises-profile", "target/debug"],
            &[],
        ),
    },
    // The installed JAX and the command `oxidax`.
    Step {
        name: "comparison with JAX",
        action: Action::Run(&["bash", "python-compat/verify.sh", "target/debug"], &[]),
    },
    // All benchmarks with budgets. Fails if a budget does not find its figures.
    Step {
        name: "smoke test: budgets",
        action: Action::Run(&["cargo", "xtask", "budgets", "--quick"], WITH_JAX),
    },
    // Without other libraries. Fails if a benchmark or the page fails.
    Step {
        name: "smoke test: page of benchmarks",
        action: Action::Run(&["cargo", "xtask", "benchmarks", "--quick"], &[]),
    },
    smoke_test!("data"),
    smoke_test!("profile"),
    smoke_test!("lines"),
    smoke_test!("models", "mlp", "gpt2", "gpt2-bf16"),
];

/// Runs all checks.
pub(crate) fn run() -> Result<()> {
    let beside = Beside::start()?;
    let mut report = Report::new();
    report.run_all(STEPS, AfterFailure::GoOn);
    report.run("the second process", || beside.finish());
    report.run_all(WITH_PYTHON, AfterFailure::GoOn);
    report.finish()
}

/// Runs [`BESIDE`].
pub(crate) fn run_beside() -> Result<()> {
    let mut report = Report::new();
    report.run_all(BESIDE, AfterFailure::GoOn);
    report.finish()
}

/// A process that runs [`BESIDE`] and writes its output to a file.
struct Beside {
    process: Child,
    log: PathBuf,
}

impl Beside {
    fn start() -> Result<Beside> {
        let log = package::target().join("ci-beside.log");
        let output = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        let program = std::env::current_exe().context("finding the path of xtask")?;
        let process = Command::new(program)
            .args(["ci", "--beside"])
            .current_dir(root())
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .context("starting `xtask ci --beside`")?;
        Ok(Beside { process, log })
    }

    /// Waits for the process and prints its output.
    fn finish(mut self) -> Result<()> {
        let status = self.process.wait().context("waiting for `xtask ci --beside`")?;
        let log = fs::read(&self.log).with_context(|| self.log.display().to_string())?;
        let log = String::from_utf8_lossy(&log);
        eprintln!("{log}");
        let ends = ends_of_failed_steps(&log);
        ensure!(status.success(), "`xtask ci --beside` ended with {status}\n{ends}");
        Ok(())
    }
}

/// Returns the last lines that each failed step of a [`Report`] printed.
fn ends_of_failed_steps(log: &str) -> String {
    const LINES: usize = 40;
    let sections = log.split("\n=== ").filter_map(|section| {
        let name = section.lines().next()?;
        let lines: Vec<&str> = section.trim_end().lines().collect();
        let failed = lines.last()?.starts_with(&format!("{name}: "));
        failed.then(|| lines[lines.len().saturating_sub(LINES)..].join("\n"))
    });
    sections.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::ends_of_failed_steps;

    #[test]
    fn failed_steps_of_a_log_are_shown_by_their_last_lines() {
        let long: String = (0..100).map(|line| format!("line {line}\n")).collect();
        let log = format!(
            "\n=== docs\nfine\n\n=== public API\n{long}public API: it ended with 1\n\n\
             === packages\npackages are fine\n\n=== summary\n  1.0 s FAILED public API\n\
             public API: it ended with 1\n"
        );
        let shown = ends_of_failed_steps(&log);
        assert!(shown.starts_with("line 61\n"), "{shown}");
        assert!(shown.ends_with("line 99\npublic API: it ended with 1"), "{shown}");
    }
}
