//! A watchdog that ends a process whose step hangs.

use oxidax::train::{STALLED, Watchdog, WatchdogOptions};
use std::process::Command;
use std::time::Duration;

/// The file that the child writes before it ends.
const CHILD: &str = "OXIDAX_TEST_WATCHDOG";

#[test]
fn process_that_hangs_ends_after_the_last_work() {
    if let Ok(path) = std::env::var(CHILD) {
        let mut options = WatchdogOptions::new(Duration::from_millis(50));
        options.exit_after = Some(Duration::from_millis(50));
        options.on_exit = Some(Box::new(move || std::fs::write(path, "saved").unwrap()));
        let watchdog = Watchdog::start_with(options);
        watchdog.step(3);
        loop {
            std::thread::park();
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("last");
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "watchdog::process_that_hangs_ends_after_the_last_work", "--nocapture"])
        .env(CHILD, &path)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(STALLED), "{text}");
    // The report at the limit, and the one at the end.
    assert_eq!(text.matches("step 3 has not ended for ").count(), 2, "{text}");
    assert_eq!(std::fs::read_to_string(path).unwrap(), "saved");
}
