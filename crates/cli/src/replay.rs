//! `oxidax replay`: runs a recorded failure, or the module of a reproducer.

use std::error::Error;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use oxidax::config::{self, ProcessConfig};
use oxidax::replay::{Range, Recording, run_reproducer};

/// The file, and what to do with it.
#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// A recorded failure, or the folder of a reproducer
    file: PathBuf,
    /// Stop at infinities too, not only at NaN
    #[arg(long)]
    finite: bool,
    /// Write a reproducer to this folder: StableHLO, inputs, and a README
    #[arg(long, value_name = "FOLDER")]
    reproducer: Option<PathBuf>,
    /// Print the program, with the source line of each equation, and do not run it
    #[arg(long, conflicts_with_all = ["finite", "reproducer"])]
    program: bool,
}

/// Prints the report. The exit code is 1 if an operation went wrong, 0 if none did.
pub(crate) fn run(replay: &Replay) -> Result<ExitCode, Box<dyn Error>> {
    if replay.file.is_dir() {
        return run_folder(&replay.file);
    }
    let recording = Recording::open(&replay.file)?;
    if replay.program {
        print_program(&recording)?;
        return Ok(ExitCode::SUCCESS);
    }
    use_cpus(recording.devices())?;
    if let Some(error) = recording.error() {
        let first = error.lines().next().unwrap_or_default();
        writeln!(io::stdout(), "recorded by oxidax {}: {first}", recording.version())?;
    }
    let outcome = if replay.finite { recording.replay_finite()? } else { recording.replay()? };
    writeln!(io::stdout(), "{outcome}")?;
    if let Some(folder) = &replay.reproducer {
        let files = recording.write_reproducer(folder, Some(&outcome))?;
        writeln!(
            io::stdout(),
            "wrote a reproducer of {} files to {}",
            files.len(),
            folder.display()
        )?;
    }
    Ok(if outcome.found.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Sets the platform and the number of devices, before the first array.
fn use_cpus(count: usize) -> Result<(), oxidax::Error> {
    config::update(ProcessConfig::new().platform("cpu").cpu_devices(count))
}

fn print_program(recording: &Recording) -> io::Result<()> {
    writeln!(io::stdout(), "{}", recording.program())?;
    writeln!(io::stdout(), "\nsource lines, in the order of the equations:")?;
    for (number, line) in recording.lines().iter().enumerate() {
        writeln!(io::stdout(), "{number:5}  {}", if line.is_empty() { "unknown" } else { line })?;
    }
    Ok(())
}

fn run_folder(folder: &Path) -> Result<ExitCode, Box<dyn Error>> {
    use_cpus(oxidax::replay::reproducer_devices(folder)?)?;
    let mut is_bad = false;
    for (index, result) in run_reproducer(folder)?.iter().enumerate() {
        let range = Range::of(result)?;
        is_bad |= range.nan > 0;
        writeln!(io::stdout(), "result {index}: {range}")?;
    }
    Ok(if is_bad { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
