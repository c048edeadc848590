//! [`Run`]: the files of one profile.

use super::trace_file::HostTrace;
use crate::profile::{LineProfile, line_profile_file, perfetto};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The contents of the folder of one profile. `None` if a file does not exist, and the reason if it
/// cannot be read.
pub(super) struct Run {
    /// The name of the folder, which is the time in UTC.
    pub(super) name: String,
    pub(super) trace: Option<Result<HostTrace, String>>,
    pub(super) lines: Option<Result<LineProfile, String>>,
}

impl Run {
    /// Opens the newest profile of a folder, or the profile whose folder it is. Returns the problem
    /// if there is none, or if it cannot be read.
    pub(super) fn open(dir: &Path) -> Result<Run, String> {
        let path = if has_profile(dir) { dir.to_owned() } else { newest(dir)? };
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let run = Run {
            name: name.unwrap_or_default(),
            trace: read_traces(&path),
            lines: read(&path.join(line_profile_file::NAME), line_profile_file::read),
        };
        let errors: Vec<&str> = [
            run.trace.as_ref().and_then(|trace| trace.as_ref().err()),
            run.lines.as_ref().and_then(|lines| lines.as_ref().err()),
        ]
        .into_iter()
        .flatten()
        .map(String::as_str)
        .collect();
        let is_readable = matches!(run.trace, Some(Ok(_))) || matches!(run.lines, Some(Ok(_)));
        if is_readable { Ok(run) } else { Err(errors.join("; ")) }
    }
}

fn read<T>(path: &Path, parse: fn(&[u8]) -> Result<T, String>) -> Option<Result<T, String>> {
    let problem = |reason: String| format!("cannot read {}: {reason}", path.display());
    match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => Some(Err(problem(error.to_string()))),
        Ok(bytes) => Some(parse(&bytes).map_err(problem)),
    }
}

/// Reads the events of all processes: those of one from `perfetto_trace.pb`, those of several from
/// `HOST_PORT.perfetto_trace.pb`, as `capture_all` writes them.
fn read_traces(dir: &Path) -> Option<Result<HostTrace, String>> {
    let mut all: Option<HostTrace> = None;
    for file in traces(dir) {
        let read = match read(&dir.join(&file), HostTrace::read)? {
            Ok(read) => read,
            Err(problem) => return Some(Err(problem)),
        };
        let process = file.strip_suffix(perfetto::FILE).unwrap_or("").trim_end_matches('.');
        let all = all.get_or_insert_default();
        all.append(process, read);
    }
    all.map(Ok)
}

/// Returns the names of the files with events, sorted.
fn traces(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let is_trace = |name: &String| {
        let process = name.strip_suffix(perfetto::FILE);
        process.is_some_and(|process| process.is_empty() || process.ends_with('.'))
    };
    let mut names: Vec<String> = names.filter(is_trace).collect();
    names.sort();
    names
}

fn has_profile(dir: &Path) -> bool {
    dir.join(line_profile_file::NAME).is_file() || !traces(dir).is_empty()
}

/// The order of folders that are named after a time, with a number if several start in one second.
fn order(name: &str) -> (&str, u32, &str) {
    const TIME: usize = "2026_01_31_23_59_58".len();
    let (time, rest) = name.split_at_checked(TIME).unwrap_or((name, ""));
    let number = rest.strip_prefix('_').and_then(|number| number.parse().ok());
    (time, number.unwrap_or(0), rest)
}

/// Returns the newest profile below `dir`.
fn newest(dir: &Path) -> Result<PathBuf, String> {
    let runs = dir.join("plugins").join("profile");
    let none = |reason: &str| format!("there is no profile in {}: {reason}", dir.display());
    let entries = match fs::read_dir(&runs) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(none("the folder plugins/profile does not exist"));
        }
        Err(error) => return Err(none(&format!("{}: {error}", runs.display()))),
    };
    let mut names: Vec<String> = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| none(&error.to_string()))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if has_profile(&entry.path()) {
            names.push(name);
        }
    }
    let newest = names.iter().max_by_key(|name| order(name));
    newest.map(|name| runs.join(name)).ok_or_else(|| none("no folder has its files"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_several_processes_are_one_timeline() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut trace = Vec::new();
        perfetto::write(&crate::profile::recorded::example(), &mut trace).expect("a trace");
        for process in ["host-a_9012", "host-b_9012"] {
            let name = format!("{process}.{}", perfetto::FILE);
            fs::write(dir.path().join(name), &trace).expect("a file");
        }
        let run = Run::open(dir.path()).expect("a profile");
        let all = run.trace.expect("events").expect("they can be read");
        let one = HostTrace::read(&trace).expect("a trace");
        assert_eq!((all.events, all.end), (2 * one.events, one.end));
        let titles: Vec<&str> = all.tracks.iter().map(|track| track.title.as_str()).collect();
        assert!(titles.contains(&"host-a_9012: main") && titles.contains(&"host-b_9012: main"));
        let name = |trace: &HostTrace, track: usize| {
            trace.names.text(trace.tracks[track].slices[0].name).to_owned()
        };
        assert_eq!(name(&all, one.tracks.len()), name(&one, 0));
    }

    #[test]
    fn newest_profile_is_opened() {
        let dir = tempfile::tempdir().expect("a folder");
        assert!(Run::open(dir.path()).err().is_some_and(|error| error.contains("no profile")));
        let runs = dir.path().join("plugins/profile");
        for name in ["2026_01_31_23_59_58_10", "2026_01_31_23_59_58", "2026_01_31_23_59_58_9"] {
            fs::create_dir_all(runs.join(name)).expect("a folder");
        }
        assert!(Run::open(dir.path()).err().is_some_and(|error| error.contains("no folder")));
        for name in ["2026_01_31_23_59_58_10", "2026_01_31_23_59_58_9"] {
            fs::write(runs.join(name).join(perfetto::FILE), []).expect("a file");
        }
        fs::create_dir_all(runs.join("2027_empty")).expect("a folder");
        assert_eq!(Run::open(dir.path()).expect("a profile").name, "2026_01_31_23_59_58_10");
        let one = runs.join("2026_01_31_23_59_58_9");
        assert_eq!(Run::open(&one).expect("a profile").name, "2026_01_31_23_59_58_9");
        fs::write(one.join(perfetto::FILE), b"not a trace").expect("a file");
        let error = Run::open(&one).err().expect("nothing can be read");
        assert!(error.contains("perfetto_trace.pb"), "{error}");
        // One readable file is enough.
        fs::write(one.join(line_profile_file::NAME), b"{}").expect("a file");
        assert!(Run::open(&one).is_err());
        let text = r#"{"format":"oxidax line profile","version":1,"profile":{}}"#;
        fs::write(one.join(line_profile_file::NAME), text).expect("a file");
        assert!(matches!(Run::open(&one).expect("a profile").trace, Some(Err(_))));
    }
}
