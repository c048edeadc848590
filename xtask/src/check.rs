//! `cargo xtask check`: the quick checks, to run every few minutes.

use std::env;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::root;
use crate::step::{Action, AfterFailure, Report, Step};

pub(crate) const FORMAT: Step =
    Step { name: "format", action: Action::Run(&["cargo", "fmt", "--all", "--check"], &[]) };

pub(crate) const LINTS: Step = Step {
    name: "lints",
    action: Action::Run(
        &[
            "cargo",
            "clippy",
            "--workspace",
            "--all-targets",
            "--features",
            "xtask/bindings",
            "--",
            "-D",
            "warnings",
        ],
        &[],
    ),
};

pub(crate) const DOCS: Step = Step {
    name: "docs",
    action: Action::Run(
        &["cargo", "doc", "--workspace", "--no-deps", "--features", "oxidax/full"],
        &[("RUSTDOCFLAGS", "-D warnings")],
    ),
};

/// Cheapest first.
const STEPS: &[Step] = &[
    FORMAT,
    Step {
        name: "house rules",
        action: Action::Run(&["cargo", "test", "-q", "--test", "pure"], &[]),
    },
    LINTS,
    Step { name: "pure tests", action: Action::Call(pure_tests) },
    DOCS,
];

/// Part of the path of tests that need the CPU plugin: modules of this name hold them.
const NEEDS_PLUGIN: &str = "on_cpu::";

pub(crate) fn run() -> Result<()> {
    let mut report = Report::new();
    report.run_all(STEPS, AfterFailure::Stop);
    report.finish()
}

/// Runs the tests that do not need a plugin, and prints the number of the others. CI runs all.
fn pure_tests() -> Result<()> {
    let mut test = Command::new("cargo");
    test.args(["test", "--workspace", "--quiet"]).current_dir(root());
    if env::var_os("CI").is_some_and(|value| value == "true") {
        eprintln!("CI is true: no test is left out");
    } else {
        let left_out = listed_tests()?.iter().filter(|name| name.contains(NEEDS_PLUGIN)).count();
        test.args(["--", "--skip", NEEDS_PLUGIN]);
        eprintln!(
            "leaving out {left_out} tests in modules named `on_cpu`: they need the CPU plugin; \
             `cargo test --workspace` runs them"
        );
    }
    let status = test.status().context("starting cargo test")?;
    ensure!(status.success(), "tests failed ({status})");
    Ok(())
}

/// Returns the names of all tests except doc tests.
fn listed_tests() -> Result<Vec<String>> {
    let output = Command::new("cargo")
        .args(["test", "--workspace", "--quiet", "--all-targets", "--", "--list"])
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()
        .context("starting cargo test")?;
    ensure!(output.status.success(), "listing the tests failed ({})", output.status);
    let names = String::from_utf8_lossy(&output.stdout);
    Ok(names.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}
