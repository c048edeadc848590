//! Who has a device open, from the links in `/proc/PID/fd`; and who holds libtpu's lock, from
//! `/proc/locks`.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Where libtpu (0.0.51) puts its lock, whatever `TMPDIR` says.
pub(super) const LOCK_FILE: &str = "/tmp/libtpu_lockfile";

/// A process that holds something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its number, as `kill` takes it.
    pub pid: u32,
    /// Its command line, cut after 120 characters; empty if it cannot be read.
    pub command: String,
    /// The device file or lock.
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

/// What was found, and how much could not be looked at.
#[derive(Debug, Default)]
pub(super) struct Scan {
    pub(super) holders: Vec<Holder>,
    /// Processes of other users, whose files this one may not see.
    pub(super) hidden: usize,
}

/// Looks for processes other than `own` that have one of the files open for writing. Readers, such
/// as monitors, do not keep anybody from a device.
pub(super) fn of_files(root: &Path, files: &[PathBuf], own: u32) -> Scan {
    let mut scan = Scan::default();
    for pid in super::pci::numbered(&root.join("proc"), "") {
        let process = root.join("proc").join(&pid);
        let Ok(pid) = pid.parse::<u32>() else { continue };
        if pid == own {
            continue;
        }
        let Ok(links) = fs::read_dir(process.join("fd")) else {
            // Gone meanwhile, or another user's.
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

/// Whether `/proc/PID/fdinfo/N` says so; taken for granted if it says nothing.
fn opened_for_writing(info: &Path) -> bool {
    const ACCESS_MODE: u32 = 0o3;
    let text = fs::read_to_string(info).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_none_or(|flags| flags & ACCESS_MODE != 0)
}

/// The process that holds libtpu's lock, of whichever user: everybody may read the list of locks.
#[cfg(unix)]
pub(super) fn of_lock(root: &Path, own: u32) -> Option<Holder> {
    use std::os::unix::fs::MetadataExt as _;
    let lock = fs::metadata(root.join(LOCK_FILE.trim_start_matches('/'))).ok()?;
    let dev = lock.dev();
    // As the C library takes a device number apart.
    let (major, minor) =
        ((dev >> 32) & !0xfff | (dev >> 8) & 0xfff, (dev >> 12) & !0xff | dev & 0xff);
    let file = format!("{major:02x}:{minor:02x}:{}", lock.ino());
    let locks = fs::read_to_string(root.join("proc/locks")).ok()?;
    locks.lines().find_map(|line| {
        // `1: POSIX  ADVISORY  WRITE 4711 08:02:393228 0 EOF`; waiting ones have `->` behind the
        // number.
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "POSIX" | "OFDLCK" | "FLOCK", _, _, pid, at, ..] = words[..] else { return None };
        // A process of another container has no number here.
        let pid = pid.parse::<u32>().ok().filter(|&pid| at == file && pid != 0 && pid != own)?;
        let command = command(&root.join("proc").join(pid.to_string()));
        Some(Holder { pid, command, held: PathBuf::from(LOCK_FILE) })
    })
}

/// Other systems have no libtpu.
#[cfg(not(unix))]
pub(super) fn of_lock(_: &Path, _: u32) -> Option<Holder> {
    None
}

/// The command line of a process, in one line of bounded length without control characters.
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
