//! `oxidax plugin install|list|remove`.
//!
//! Results go to standard output, one per line; progress goes to standard error.

use std::error::Error;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Subcommand;
use oxidax_plugin::{
    Check, Condition, Config, InventoryEntry, Platform, Stderr, install, install_file, list, pins,
    reinstall, reinstall_file, remove,
};

/// Actions on plugins.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Install a pinned plugin by name, or any plugin from a file, and print its path
    Install {
        /// cpu, tpu, cuda, or the path of a plugin library or of a pinned wheel
        target: String,
        /// The platform of a library, if its name does not contain it
        #[arg(long, value_name = "PLATFORM")]
        platform: Option<Platform>,
        /// Install again, replacing an existing installation
        #[arg(long)]
        force: bool,
    },
    /// Show installed and available plugins
    List {
        /// Verify every byte instead of trusting recorded hashes
        #[arg(long)]
        verify: bool,
    },
    /// Delete an installed plugin
    Remove {
        /// The name shown by `list`
        name: String,
    },
}

/// Runs an action.
pub(crate) fn run(action: Action) -> Result<(), Box<dyn Error>> {
    let config = Config::from_env()?;
    match action {
        Action::Install { target, platform, force } => {
            let path = install_target(&target, platform, force, &config)?;
            print_line(&path.display().to_string())
        }
        Action::List { verify } => {
            let check = if verify { Check::EveryByte } else { Check::Records };
            let entries = list(&config, check)?;
            let damaged = entries.iter().filter(|e| matches!(e.condition, Condition::Damaged(_)));
            let damaged: Vec<&str> = damaged.map(|entry| entry.name.as_str()).collect();
            print_table(&entries)?;
            if damaged.is_empty() {
                return Ok(());
            }
            Err(format!(
                "damaged, and not used: {}\n  \
                 help: install them again with --force, or remove them",
                damaged.join(", ")
            )
            .into())
        }
        Action::Remove { name } => {
            let path = remove(&name, &config, &mut Stderr::new())?;
            print_line(&format!("removed {}", path.display()))
        }
    }
}

fn install_target(
    target: &str,
    platform: Option<Platform>,
    force: bool,
    config: &Config,
) -> Result<PathBuf, Box<dyn Error>> {
    let progress = &mut Stderr::new();
    if let Some(pin) = pins::ALL.iter().find(|pin| pin.name == target) {
        if let Some(platform) = platform.filter(|&platform| platform != pin.platform) {
            let message = format!("`{target}` is a plugin for {}, not {platform}", pin.platform);
            return Err(message.into());
        }
        let installed = if force { reinstall } else { install };
        return Ok(installed(pin, config, progress)?);
    }
    let file = Path::new(target);
    if !file.exists() {
        let names: Vec<&str> = pins::ALL.iter().map(|pin| pin.name).collect();
        let message = format!(
            "`{target}` is neither a plugin's name ({}) nor a file that exists",
            names.join(", ")
        );
        return Err(message.into());
    }
    let installed = if force { reinstall_file } else { install_file };
    Ok(installed(file, platform, config, progress)?)
}

fn print_table(entries: &[InventoryEntry]) -> Result<(), Box<dyn Error>> {
    let heading = ["NAME", "PLATFORM", "PACKAGE", "API", "STATE", "PATH"].map(str::to_owned);
    let rows: Vec<[String; 6]> = std::iter::once(heading).chain(entries.iter().map(row)).collect();
    let widths: Vec<usize> = (0..6)
        .map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or_default())
        .collect();
    for row in rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}")).collect();
        print_line(cells.join("  ").trim_end())?;
    }
    Ok(())
}

fn row(entry: &InventoryEntry) -> [String; 6] {
    let none = || "-".to_owned();
    let (state, path) = match &entry.condition {
        Condition::NotInstalled => ("not installed".to_owned(), none()),
        Condition::Intact => ("installed".to_owned(), entry.path.display().to_string()),
        Condition::Damaged(reason) => {
            ("damaged".to_owned(), format!("{} ({reason})", entry.path.display()))
        }
        _ => ("unused".to_owned(), entry.path.display().to_string()),
    };
    [
        entry.name.clone(),
        entry.platform.map_or_else(none, |platform| platform.to_string()),
        entry.pin.map_or_else(none, |pin| format!("{} {}", pin.package, pin.version)),
        entry
            .pin
            .filter(|pin| pin.beside.is_none())
            .map_or_else(none, |pin| format!("{}.{}", pin.api.0, pin.api.1)),
        state,
        path,
    ]
}

/// Ignores the error of a reader that stops early, such as `head`.
fn print_line(text: &str) -> Result<(), Box<dyn Error>> {
    match writeln!(io::stdout(), "{text}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
