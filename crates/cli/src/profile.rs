//! `oxidax profile`: profiles of programs that run.

use std::error::Error;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use oxidax::profile::capture_all;

/// Work with profiles.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Ask running programs for a profile: `oxidax profile capture localhost:9012`
    ///
    /// The programs have called `profile::start_server`. The profiles are written to one folder,
    /// for XProf, TensorBoard and Perfetto.
    Capture(Capture),
}

/// Which programs to ask, and for how long.
#[derive(Debug, Args)]
pub(crate) struct Capture {
    /// The address of each process, `HOST:PORT`
    #[arg(required = true)]
    addresses: Vec<String>,
    /// Seconds to record
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// The folder of the runs
    #[arg(long, default_value = "profiles")]
    dir: PathBuf,
}

pub(crate) fn run(action: &Action) -> Result<(), Box<dyn Error>> {
    let Action::Capture(capture) = action;
    let duration = Duration::try_from_secs_f64(capture.seconds)
        .map_err(|error| format!("--seconds {}: {error}", capture.seconds))?;
    let folder = capture_all(&capture.addresses, duration, &capture.dir)?;
    writeln!(io::stdout(), "wrote {}", folder.display())?;
    writeln!(io::stdout(), "open it with: xprof --logdir {}", capture.dir.display())?;
    Ok(())
}
