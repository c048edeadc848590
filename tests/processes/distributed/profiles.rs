//! Profiles that several processes record at the same time.

use crate::distributed::parts::config;
use crate::distributed::scene::{Actor, address, say};
use oxidax::Error;
use oxidax::distributed::{self, process_index};
use oxidax::profile::{self, TraceAnnotation, start_trace, stop_trace};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs};

/// The folder of the profiles, for all processes.
const DIR: &str = "OXIDAX_TEST_PROFILES";

/// All record together, and then process 1 alone.
pub(crate) fn record() -> Result<(), Error> {
    distributed::initialize(config())?;
    let dir = PathBuf::from(env::var_os(DIR).expect("the test sets it"));
    start_trace(&dir)?;
    distributed::barrier("all record")?;
    TraceAnnotation::new("together").scope(|| ());
    distributed::barrier("all recorded")?;
    say(&stop_trace()?.display().to_string());
    distributed::barrier("all written")?;
    if process_index() == 1 {
        // A new second, so that the folder has another name.
        std::thread::sleep(Duration::from_millis(1100));
        start_trace(&dir)?;
        TraceAnnotation::new("alone").scope(|| ());
        say(&stop_trace()?.display().to_string());
    }
    distributed::barrier("end")?;
    distributed::shutdown()
}

fn files(run: &Path) -> Vec<String> {
    let entries = fs::read_dir(run).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn profiles_of_one_time_are_in_one_folder() {
    let dir = tempfile::tempdir().unwrap();
    let address = address();
    let start = |index: &str| {
        let variables = [
            ("OXIDAX_COORDINATOR", address.as_str()),
            ("OXIDAX_PROCESSES", "3"),
            ("OXIDAX_PROCESS_ID", index),
            (DIR, dir.path().to_str().unwrap()),
        ];
        Actor::start_in("record profiles", &variables)
    };
    let mut actors = ["0", "1", "2"].map(start);
    let runs: Vec<PathBuf> = actors.iter_mut().map(|actor| actor.line().into()).collect();
    assert!(runs.iter().all(|run| *run == runs[0]), "{runs:?}");
    let alone = PathBuf::from(actors[1].line());
    for actor in actors {
        assert_eq!(actor.rest(), "done");
    }
    assert_ne!(alone, runs[0]);
    // The folders of the other processes are gone.
    assert_eq!(fs::read_dir(dir.path().join("plugins/profile")).unwrap().count(), 2);
    let (spaces, traces): (Vec<String>, Vec<String>) =
        files(&runs[0]).into_iter().partition(|name| name.ends_with(".xplane.pb"));
    assert_eq!((spaces.len(), traces.len()), (3, 3), "{spaces:?}, {traces:?}");
    for process in 0..3 {
        let space = format!("_{process}.xplane.pb");
        assert_eq!(spaces.iter().filter(|name| name.ends_with(&space)).count(), 1, "{spaces:?}");
    }
    assert_eq!(files(&alone).len(), 2);
    // The page has the events of all of them.
    let page = profile::report_html(&runs[0]).unwrap();
    for process in 0..3 {
        assert!(page.contains(&format!("_{process}: ")), "no process {process}");
    }
}
