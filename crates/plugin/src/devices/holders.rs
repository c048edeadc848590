//! Finds the processes that have a device open, from the links in `/proc/PID/fd`, and the holder of
//! libtpu's lock, from `/proc/locks`.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// The path of libtpu's lock file (0.0.51), independent of `TMPDIR`.
pub(super) const LOCK_FILE: &str = "/tmp/libtpu_lockfile";

/// A process that holds a device or lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The process id.
    pub pid: u32,
    /// Its command line, truncated to 120 characters. Empty if it cannot be read.
    pub command: String,
    /// The device file or lock file.
    pub held: PathBuf,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.pid)?;
        if !self.command.is_empty() {
            write!(f, " (`{}`)", self.command)?;
        }
        write!(f, " holds {}", self.held.display())
    }
}

/// The holders that were found, and the number of processes that could not be inspected.
#[derive(Debug, Default)]
pub(super) struct Scan {
    pub(super) holders: Vec<Holder>,
    /// Number of processes of other users, whose files this process may not see.
    pub(super) hidden: usize,
}

/// Finds processes other than `own` that have one of the files open for writing. Readers, such as
/// monitors, do not block a device.
pub(super) fn of_files(root: &Path, files: &[PathBuf], own: u32) -> Scan {
    let mut scan = Scan::default();
    for pid in super::pci::numbered(&root.join("proc"), "") {
        let process = root.join("proc").join(&pid);
        let Ok(pid) = pid.parse::<u32>() else { continue };
        if pid == own {
            continue;
        }
        let Ok(links) = fs::read_dir(process.join("fd")) else {
            // The process has ended or belongs to another user.
            scan.hidden += usize::from(process.exists());
            continue;
        };
        let mut held = links.flatten().filter_map(|link| {
            let target = fs::read_link(link.path()).ok()?;
            let writes = opened_for_writing(&process.join("fdinfo").join(link.file_name()));
            (files.contains(&target) && writes).then_some(target)
        });
        if let Some(held) = held.next() {
            scan.holders.push(Holder { pid, command: command(&process), held });
        }
    }
    scan
}

/// Returns true if `/proc/PID/fdinfo/N` lists write access, or does not list the access mode.
fn opened_for_writing(info: &Path) -> bool {
    const ACCESS_MODE: u32 = 0o3;
    let text = fs::read_to_string(info).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_none_or(|flags| flags & ACCESS_MODE != 0)
}

/// Returns the process that holds libtpu's lock. Every user may read the list of locks, so the
/// holder's user does not matter.
#[cfg(unix)]
pub(super) fn of_lock(root: &Path, own: u32) -> Option<Holder> {
    use std::os::unix::fs::MetadataExt as _;
    let lock = fs::metadata(root.join(LOCK_FILE.trim_start_matches('/'))).ok()?;
    let dev = lock.dev();
    // Splits a device number as the C library does.
    let (major, minor) =
        ((dev >> 32) & !0xfff | (dev >> 8) & 0xfff, (dev >> 12) & !0xff | dev & 0xff);
    let file = format!("{major:02x}:{minor:02x}:{}", lock.ino());
    let locks = fs::read_to_string(root.join("proc/locks")).ok()?;
    locks.lines().find_map(|line| {
        // `1: POSIX  ADVISORY  WRITE 4711 08:02:393228 0 EOF`. Waiting processes have `->` after
        // the number.
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "POSIX" | "OFDLCK" | "FLOCK", _, _, pid, at, ..] = words[..] else { return None };
        // A process of another container has no process id here.
        let pid = pid.parse::<u32>().ok().filter(|&pid| at == file && pid != 0 && pid != own)?;
        let command = command(&root.join("proc").join(pid.to_string()));
        Some(Holder { pid, command, held: PathBuf::from(LOCK_FILE) })
    })
}

/// Other systems do not have libtpu.
#[cfg(not(unix))]
pub(super) fn of_lock(_: &Path, _: u32) -> Option<Holder> {
    None
}

/// Returns the command line of a process as one line of limited length without control characters.
fn command(process: &Path) -> String {
    const LONGEST: usize = 120;
    let words = fs::read(process.join("cmdline")).unwrap_or_default();
    let text = String::from_utf8_lossy(&words).trim_end_matches('\0').replace('\0', " ");
    let mut text: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST + 1).collect();
    if text.chars().count() > LONGEST {
        text.pop();
        text.push('…');
    }
    text
}
