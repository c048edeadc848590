//! `cargo xtask tpu`: compiles programs for TPUs on a machine without one.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::root;

/// Tests that need libtpu; `cargo test` ignores them. The whole workspace is selected, because the
/// dependencies of fewer packages have other features and would be built again.
const TESTS: [&str; 13] = [
    "test",
    "--workspace",
    "--bin",
    "plans",
    "--test",
    "suite",
    "--test",
    "cpu",
    "--test",
    "platforms",
    "tpu::",
    "--",
    "--ignored",
];

/// Installs the pinned libtpu if it is missing, and runs the tests that need it.
pub(crate) fn compile_only() -> Result<()> {
    let library = install("tpu")?;
    run_tests(&TESTS, &[("OXIDAX_TEST_LIBTPU", &library)])
}

/// Runs tests that need a plugin or a server.
pub(crate) fn run_tests(arguments: &[&str], variables: &[(&str, &str)]) -> Result<()> {
    let set: String = variables.iter().map(|(name, value)| format!("{name}={value} ")).collect();
    eprintln!("$ {set}cargo {}", arguments.join(" "));
    let status = Command::new("cargo")
        .args(arguments)
        .envs(variables.iter().copied())
        .current_dir(root())
        .status()
        .context("starting cargo test")?;
    ensure!(status.success(), "the tests that need a plugin or server ended with {status}");
    Ok(())
}

/// Installs a pinned plugin if it is missing, and returns its path.
pub(crate) fn install(name: &str) -> Result<String> {
    let command = ["run", "--quiet", "--package", "oxidax-cli", "--", "plugin", "install", name];
    eprintln!("$ cargo {}", command.join(" "));
    let installed = Command::new("cargo")
        .args(command)
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()
        .context("starting the oxidax command")?;
    ensure!(installed.status.success(), "installing {name} failed ({})", installed.status);
    // The last line of the output is the path of the library.
    let printed = String::from_utf8(installed.stdout).context("the plugin's path")?;
    let last = printed.lines().next_back().context("the command printed no path of the plugin")?;
    Ok(last.to_owned())
}
