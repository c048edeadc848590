//! `oxidax profile report`: a profile as a page.

use std::error::Error;
use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::Subcommand;
use oxidax::profile::report_html;

/// Actions on a profile.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Write the newest profile of a folder as a page that any browser opens
    Report {
        /// The folder given to `profile::trace` or `Profile::save`, or that of one profile in it
        dir: PathBuf,
        /// The file to write instead of DIR/report.html
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
}

/// Writes the page and prints its path.
pub(crate) fn run(action: &Action) -> Result<(), Box<dyn Error>> {
    let Action::Report { dir, out } = action;
    let page = report_html(dir)?;
    let file = out.clone().unwrap_or_else(|| dir.join("report.html"));
    fs::write(&file, page).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    writeln!(io::stdout(), "{}", file.display())?;
    Ok(())
}
