//! `oxidax cache stats|clear`.

use std::error::Error;
use std::io::{self, Write as _};
use std::time::{Duration, SystemTime};

use clap::Subcommand;
use oxidax_cache::{CacheSummary, Settings, Share, Store};
use serde_json::json;

const DAY: f64 = 86_400.0;

/// Actions on compiled programs.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Show the folder, the number of compiled programs, and the limits
    Stats {
        /// As one JSON object; sizes in bytes, times in seconds
        #[arg(long)]
        json: bool,
    },
    /// Delete compiled programs; running processes keep what they have loaded
    Clear {
        /// Delete only those unused for this many days
        #[arg(long, value_name = "DAYS", value_parser = days)]
        older_than: Option<Duration>,
    },
}

/// Runs an action.
pub(crate) fn run(action: Action) -> Result<(), Box<dyn Error>> {
    let settings = Settings::from_env()?;
    // A disabled cache can still be inspected and cleared.
    let looked = Settings { max_bytes: settings.max_bytes.max(1), ..settings.clone() };
    let Some(store) = Store::open(&looked)? else {
        return Err(
            "there is no folder for compiled programs: OXIDAX_CACHE is off, or neither it nor HOME \
             is set\n  \
             help: unset OXIDAX_CACHE, or set it to a folder"
                .into(),
        );
    };
    match action {
        Action::Stats { json: true } => print(&in_json(&settings, &store, &store.summary()?)),
        Action::Stats { json: false } => print(&in_words(&settings, &store, &store.summary()?)),
        Action::Clear { older_than } => {
            let cleared = store.clear(older_than)?;
            let (entries, folder) = (count(cleared.entries), store.folder().display());
            print(&format!("deleted {entries}, {}, in {folder}\n", size(cleared.bytes)))
        }
    }
}

fn days(text: &str) -> Result<Duration, String> {
    let days = text.parse::<f64>().ok().map(|days| Duration::try_from_secs_f64(days * DAY));
    match days {
        Some(Ok(days)) => Ok(days),
        _ => Err("it must be a number of days, such as 30 or 0.5".to_owned()),
    }
}

fn in_words(settings: &Settings, store: &Store, summary: &CacheSummary) -> String {
    let state = if settings.is_on() { "" } else { " (off: OXIDAX_CACHE_MAX_BYTES is 0)" };
    let mut lines = vec![
        ("folder", format!("{}{state}", store.folder().display())),
        ("entries", format!("{}, {}", count(summary.entries), size(summary.bytes))),
    ];
    for (platform, share) in &summary.platforms {
        let Share { entries, bytes, compile_time } = *share;
        let compiling = compile_time.as_secs_f64();
        let text = format!("{}, {}, {compiling:.1} s of compiling", count(entries), size(bytes));
        lines.push((platform, text));
    }
    if let (Some(oldest), Some(newest)) = (summary.oldest, summary.newest) {
        let text = format!("the last {}, the first {}", ago(newest), ago(oldest));
        lines.push(("last used", text));
    }
    if summary.damaged > 0 {
        let text = format!("{}, replaced when they are looked for", count(summary.damaged));
        lines.push(("damaged", text));
    }
    if summary.unfinished > 0 {
        let text = format!("{}, being written or left behind", count(summary.unfinished));
        lines.push(("unfinished", text));
    }
    let limits = format!(
        "at most {}, unused for at most {:.1} days; kept if compiling takes {:.2} s and it has {}",
        size(settings.max_bytes),
        settings.max_age.as_secs_f64() / DAY,
        settings.min_compile.as_secs_f64(),
        size(settings.min_bytes)
    );
    lines.push(("limits", limits));
    lines.into_iter().map(|(name, text)| format!("{name:<11} {text}\n")).collect()
}

fn in_json(settings: &Settings, store: &Store, summary: &CacheSummary) -> String {
    let since_1970 = |time: Option<SystemTime>| {
        time.and_then(|time| Some(time.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs_f64()))
    };
    let platforms = summary.platforms.iter().map(|(platform, share)| {
        let Share { entries, bytes, compile_time } = *share;
        let compiling = compile_time.as_secs_f64();
        (
            platform.clone(),
            json!({ "entries": entries, "bytes": bytes, "compile_seconds": compiling }),
        )
    });
    let object = json!({
        "folder": store.folder().display().to_string(),
        "on": settings.is_on(),
        "entries": summary.entries,
        "bytes": summary.bytes,
        "platforms": platforms.collect::<serde_json::Map<_, _>>(),
        "damaged": summary.damaged,
        "unfinished": summary.unfinished,
        "oldest_use": since_1970(summary.oldest),
        "newest_use": since_1970(summary.newest),
        "limits": {
            "max_bytes": settings.max_bytes,
            "max_age_seconds": settings.max_age.as_secs_f64(),
            "min_compile_seconds": settings.min_compile.as_secs_f64(),
            "min_bytes": settings.min_bytes,
        },
    });
    format!("{object}\n")
}

fn count(entries: usize) -> String {
    format!("{entries} {}", if entries == 1 { "entry" } else { "entries" })
}

/// Formats a size with a unit.
fn size(bytes: u64) -> String {
    let (mut number, mut unit) = (bytes as f64, "B");
    for larger in ["KiB", "MiB", "GiB", "TiB"] {
        if number < 1024.0 {
            break;
        }
        (number, unit) = (number / 1024.0, larger);
    }
    if unit == "B" { format!("{bytes} B") } else { format!("{number:.1} {unit}") }
}

fn ago(time: SystemTime) -> String {
    let seconds = time.elapsed().unwrap_or_default().as_secs_f64();
    match seconds {
        s if s < 120.0 => format!("{s:.0} seconds ago"),
        s if s < 7200.0 => format!("{:.0} minutes ago", s / 60.0),
        s if s < 2.0 * DAY => format!("{:.0} hours ago", s / 3600.0),
        s => format!("{:.0} days ago", s / DAY),
    }
}

/// Ignores the error of a reader that stops early, such as `head`.
fn print(text: &str) -> Result<(), Box<dyn Error>> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
