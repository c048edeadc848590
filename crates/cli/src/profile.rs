//! `oxidax profile`: captures profiles of programs that run, and shows profiles as pages.

use std::error::Error;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Subcommand;
use oxidax::profile::report_html;

/// Actions on profiles.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Ask running programs for a profile: `oxidax profile capture localhost:9012`
    ///
    /// The programs have called `profile::start_server`. The profiles are written to one folder,
    /// for XProf, TensorBoard and Perfetto.
    #[cfg(feature = "capture")]
    Capture {
        /// The address of each process, `HOST:PORT`
        #[arg(required = true)]
        addresses: Vec<String>,
        /// Seconds to record
        #[arg(long, default_value_t = 2.0)]
        seconds: f64,
        /// The folder of the runs
        #[arg(long, default_value = "profiles")]
        dir: PathBuf,
    },
    /// Write the newest profile of a folder as a page that any browser opens
    Report {
        /// The folder given to `profile::trace` or `Profile::save`, or that of one profile in it
        dir: PathBuf,
        /// The file to write instead of DIR/report.html
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
}

pub(crate) fn run(action: &Action) -> Result<(), Box<dyn Error>> {
    match action {
        #[cfg(feature = "capture")]
        Action::Capture { addresses, seconds, dir } => capture(addresses, *seconds, dir),
        Action::Report { dir, out } => report(dir, out.as_deref()),
    }
}

/// Writes the profiles and prints their folder.
#[cfg(feature = "capture")]
fn capture(addresses: &[String], seconds: f64, dir: &Path) -> Result<(), Box<dyn Error>> {
    let duration = std::time::Duration::try_from_secs_f64(seconds)
        .map_err(|error| format!("--seconds {seconds}: {error}"))?;
    let folder = oxidax::profile::capture_all(addresses, duration, dir)?;
    writeln!(io::stdout(), "wrote {}", folder.display())?;
    writeln!(io::stdout(), "open it with: xprof --logdir {}", dir.display())?;
    writeln!(io::stdout(), "or as a page: oxidax profile report {}", dir.display())?;
    Ok(())
}

/// Writes the page and prints its path.
fn report(dir: &Path, out: Option<&Path>) -> Result<(), Box<dyn Error>> {
    let page = report_html(dir)?;
    let file = out.map_or_else(|| dir.join("report.html"), Path::to_path_buf);
    fs::write(&file, page).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    writeln!(io::stdout(), "{}", file.display())?;
    Ok(())
}
