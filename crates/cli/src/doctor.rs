//! `oxidax doctor`: runs the program of the user's crate that examines a step.
//!
//! A step is Rust, so its own crate has to compile it: the program calls `oxidax::doctor::main`, and this command finds, builds
//! and runs it.

use std::error::Error;
use std::process::{Command, ExitCode};

use clap::Args;

/// Which program to run, and what to tell it.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// The example that calls `oxidax::doctor::main`
    #[arg(long, default_value = "doctor", conflicts_with = "bin")]
    example: String,
    /// A binary that calls it, instead of an example
    #[arg(long)]
    bin: Option<String>,
    /// The package that it is in
    #[arg(long, short)]
    package: Option<String>,
    /// Build it without optimizations
    #[arg(long)]
    dev: bool,
    /// What it is told: --topology v5e:4x4 --mesh data=4,model=4 --batch 32 … (--help lists all)
    #[arg(last = true, value_name = "WORDS")]
    words: Vec<String>,
}

impl Doctor {
    /// What `cargo` is told.
    fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["run".to_string(), "--quiet".to_string()];
        if !self.dev {
            arguments.push("--release".to_string());
        }
        if let Some(package) = &self.package {
            arguments.extend(["--package".to_string(), package.clone()]);
        }
        match &self.bin {
            Some(bin) => arguments.extend(["--bin".to_string(), bin.clone()]),
            None => arguments.extend(["--example".to_string(), self.example.clone()]),
        }
        arguments.push("--".to_string());
        arguments.extend(self.words.iter().cloned());
        arguments
    }
}

/// Runs it, and gives its exit code: 0 if the step fits, 1 if it does not.
pub(crate) fn run(doctor: &Doctor) -> Result<ExitCode, Box<dyn Error>> {
    let status = Command::new("cargo").args(doctor.arguments()).status();
    let status =
        status.map_err(|error| format!("cargo, which builds the step's crate: {error}"))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        doctor: Doctor,
    }

    fn arguments(words: &[&str]) -> String {
        let all = ["doctor"].into_iter().chain(words.iter().copied());
        Words::parse_from(all).doctor.arguments().join(" ")
    }

    #[test]
    fn cargo_is_told_what_to_run() {
        assert_eq!(arguments(&[]), "run --quiet --release --example doctor --");
        assert_eq!(
            arguments(&["--dev", "-p", "mine", "--", "--topology", "v5e:2x2"]),
            "run --quiet --package mine --example doctor -- --topology v5e:2x2"
        );
        assert_eq!(arguments(&["--bin", "plan"]), "run --quiet --release --bin plan --");
    }
}
