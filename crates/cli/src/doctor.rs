//! `oxidax doctor`: builds and runs a program in the user's crate that examines a training step.
//!
//! A training step is Rust code, so its own crate must compile it. The program calls
//! `oxidax::doctor::main`.

use std::error::Error;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::Args;

/// The program to run, and its arguments.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// The example that calls `oxidax::doctor::main`
    #[arg(long, default_value = "doctor", conflicts_with = "bin")]
    example: String,
    /// A binary that calls it, instead of an example
    #[arg(long)]
    bin: Option<String>,
    /// The package that contains it
    #[arg(long, short)]
    package: Option<String>,
    /// Build without optimizations
    #[arg(long)]
    dev: bool,
    /// Write the report as a page that any browser opens, to this file
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "doctor.html")]
    html: Option<PathBuf>,
    /// Its arguments: --topology v5e:4x4 --mesh data=4,model=4 --batch 32 … (--help lists all)
    #[arg(last = true, value_name = "WORDS")]
    words: Vec<String>,
}

impl Doctor {
    /// Returns the arguments of `cargo`.
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
        if let Some(file) = &self.html {
            arguments.extend(["--html".to_string(), file.display().to_string()]);
        }
        arguments
    }
}

/// Runs the program and returns its exit code: 0 if the step fits, 1 if it does not.
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
    fn cargo_gets_the_arguments() {
        assert_eq!(arguments(&[]), "run --quiet --release --example doctor --");
        assert_eq!(
            arguments(&["--dev", "-p", "mine", "--", "--topology", "v5e:2x2"]),
            "run --quiet --package mine --example doctor -- --topology v5e:2x2"
        );
        let page = "run --quiet --release --example doctor -- --batch 8 --html";
        assert_eq!(arguments(&["--html", "--", "--batch", "8"]), format!("{page} doctor.html"));
        assert_eq!(
            arguments(&["--html", "a.html", "--", "--batch", "8"]),
            format!("{page} a.html")
        );
        assert_eq!(arguments(&["--bin", "plan"]), "run --quiet --release --bin plan --");
    }
}
