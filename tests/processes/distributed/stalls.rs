//! A step that waits for another process.

use crate::distributed::parts::config;
use crate::distributed::scene::{Actor, address, say, wait_for_go};
use oxidax::Error;
use oxidax::distributed::{self, process_index};
use oxidax::profile::TraceAnnotation;
use oxidax::train::{Watchdog, WatchdogOptions};
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

/// Long enough that a watchdog's thread reports on a busy machine, in a quarter of it.
const LIMIT: Duration = Duration::from_secs(4);

/// Process 1 stays in step 3, and the others wait for it in step 4.
pub(crate) fn wait_for_one() -> Result<(), Error> {
    let (stalled, stall) = channel();
    let mut options = WatchdogOptions::new(LIMIT);
    let stalled = Mutex::new(stalled);
    options.on_stall = Some(Box::new(move |stall| {
        let stalled = stalled.lock().expect("no panic");
        // The test may have ended.
        drop(stalled.send(stall.to_string()));
    }));
    // Before the process joins: it finds the others later.
    let watchdog = Watchdog::start_with(options);
    distributed::initialize(config())?;
    distributed::barrier("all watch")?;
    watchdog.step(3);
    if process_index() == 1 {
        TraceAnnotation::new("read a slow disk").scope(wait_for_go);
    } else {
        watchdog.step(4);
        let report =
            TraceAnnotation::new("sum gradients").scope(|| stall.recv().expect("a report"));
        say(&report);
        say("end of the report");
    }
    watchdog.pause();
    distributed::barrier("stall seen")?;
    distributed::shutdown()
}

#[test]
fn a_stall_names_the_process_that_is_behind() {
    let mut actors = Actor::all("stall", &address(), 3);
    let pid = actors[1].pid();
    for waiting in [0, 2] {
        let mut report = Vec::new();
        loop {
            match actors[waiting].line() {
                line if line == "end of the report" => break,
                line => report.push(line),
            }
        }
        let report = report.join("\n");
        assert!(report.starts_with("step 4 has not ended for "), "{report}");
        assert!(report.contains("sum gradients for "), "{report}");
        let behind: Vec<&str> = report.lines().filter(|l| l.contains("behind: ")).collect();
        assert_eq!(behind.len(), 1, "{report}");
        assert!(behind[0].contains("behind: process 1 ("), "{report}");
        assert!(behind[0].contains(&format!(":{pid}) has been in step 3 for ")), "{report}");
        assert!(report.contains("read a slow disk for "), "{report}");
        let others = "the other processes (1) are in this step too, or later";
        assert!(report.contains(others), "{report}");
    }
    actors[1].go();
    for actor in actors {
        assert_eq!(actor.rest(), "done");
    }
}
