//! Stalls of training loops, and the work of threads in their reports.

use oxidax::prelude::*;
use oxidax::profile::{ActivityTracker, EventKind, TraceAnnotation};
use oxidax::train::{Stall, Watchdog, WatchdogOptions};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// The longest that a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(60);

fn watched(limit: Duration) -> (Watchdog, Receiver<Stall>) {
    let (reports, received) = channel();
    let mut options = WatchdogOptions::new(limit);
    options.on_stall = Some(Box::new(move |stall: &Stall| reports.send(stall.clone()).unwrap()));
    (Watchdog::start_with(options), received)
}

#[test]
fn late_step_is_reported_once_with_the_work_of_each_thread() {
    let (watchdog, reports) = watched(Duration::from_millis(20));
    let (begun, go_on) = (channel(), channel::<()>());
    let loader = std::thread::Builder::new().name("loader".into()).spawn(move || {
        let _work = TraceAnnotation::new("decode images");
        begun.0.send(()).unwrap();
        go_on.1.recv().unwrap_err();
    });
    begun.1.recv_timeout(PATIENCE).unwrap();
    watchdog.step(6);
    watchdog.step(7);
    let work = TraceAnnotation::new("evaluate");
    let inner = TraceAnnotation::of_kind(EventKind::ToHost, oxidax::core::Loc::caller(), "");
    let line = line!() - 1;
    let stall = reports.iter().find(|stall| stall.step == 7).unwrap();
    assert!(stall.usual.is_some() && stall.elapsed >= Duration::from_millis(20), "{stall}");
    let text = stall.to_string();
    assert!(text.starts_with("step 7 has not ended for "), "{text}");
    assert!(text.contains("\n  loader: decode images for "), "{text}");
    let expected = format!(" at {}:{line}", file!());
    assert!(text.contains(": evaluate for ") && text.contains(", in it to_host for "), "{text}");
    assert!(text.contains(&expected), "{text}");
    drop((inner, work));
    // The same step is not reported again, the next one is.
    watchdog.step(8);
    let next = reports.recv_timeout(PATIENCE).unwrap();
    assert_eq!(next.step, 8);
    drop(watchdog);
    assert!(reports.recv().is_err(), "a stall is reported once");
    drop(go_on.0);
    loader.unwrap().join().unwrap();
}

#[test]
fn steps_in_time_and_pauses_are_not_reported() {
    let (watchdog, reports) = watched(Duration::from_secs(3600));
    (0..100).for_each(|number| watchdog.step(number));
    watchdog.pause();
    drop(watchdog);
    assert!(reports.recv().is_err());
}

#[test]
fn work_is_listed_only_while_it_is_under_way() {
    let tracker = ActivityTracker::start();
    let names = || -> Vec<String> {
        let threads = tracker.threads();
        let work = threads.iter().flat_map(|thread| &thread.work);
        work.map(|work| work.name.to_string()).filter(|name| name.contains("tracked")).collect()
    };
    let outer = TraceAnnotation::new("tracked outer");
    TraceAnnotation::new("tracked inner").scope(|| {
        assert_eq!(names(), ["tracked outer", "tracked inner"]);
    });
    assert_eq!(names(), ["tracked outer"]);
    drop(outer);
    assert!(names().is_empty());
    // Tracing a function is work, too.
    let f =
        jit(|x: Array| {
            assert!(tracker.threads().iter().any(|thread| {
                thread.work.iter().any(|work| work.name.as_str() == "jit(tracked)")
            }));
            x * 2.0
        });
    f.name("tracked").lower(Aval::new(DType::F32, [2])).unwrap();
}
