//! Planted stalls of a training loop. The report of the watchdog names the work that does not end,
//! and its line.

use oxidax::data::{Source, Synthetic};
use oxidax::prelude::*;
use oxidax::profile::TraceAnnotation;
use oxidax::train::{Watchdog, WatchdogOptions};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The longest that a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// Blocks until the stall has been reported, the first time that it is called.
type Block = Arc<dyn Fn() + Send + Sync>;

/// Returns the report of a step that blocks in `planted`.
fn report(planted: impl FnOnce(Block)) -> String {
    let (reports, reported) = channel();
    let (open, opened) = channel::<()>();
    let (open, opened) = (Mutex::new(Some(open)), Mutex::new(opened));
    let mut options = WatchdogOptions::new(Duration::from_millis(20));
    options.on_stall = Some(Box::new(move |stall| {
        reports.send(stall.to_string()).unwrap();
        open.lock().unwrap().take();
    }));
    let watchdog = Watchdog::start_with(options);
    planted(Arc::new(move || {
        // The step begins here, so that nothing before it can be late.
        watchdog.step(7);
        let waited = opened.lock().unwrap().recv_timeout(PATIENCE);
        assert_eq!(waited, Err(RecvTimeoutError::Disconnected), "the stall was not reported");
        watchdog.pause();
    }));
    reported.recv_timeout(PATIENCE).unwrap()
}

/// Checks that the report names work at a line of this file.
#[track_caller]
fn assert_names(report: &str, work: &str, line: u32) {
    let place = format!(" at {}:{line}", file!());
    let is_named = |text: &str| {
        let mut parts = text.split(", in it ");
        parts.any(|part| part.contains(work) && part.ends_with(&place))
    };
    assert!(report.starts_with("step 7 has not ended for "), "{report}");
    assert!(report.lines().any(is_named), "no {work} at line {line}: {report}");
}

#[test]
fn a_map_of_the_pipeline_does_not_end() {
    let mut line = 0;
    let report = report(|block| {
        let numbers = Synthetic::new(4, Ok).stream();
        line = line!() + 1;
        let slow = numbers.map(move |number| {
            block();
            Ok(number)
        });
        assert_eq!(slow.prefetch(1).count(), 4);
    });
    assert_names(&report, "data map", line);
    assert!(report.contains("data_wait for "), "{report}");
}

#[test]
fn a_parallel_map_of_the_pipeline_does_not_end() {
    let mut line = 0;
    let report = report(|block| {
        let numbers = Synthetic::new(2, Ok).stream();
        line = line!() + 1;
        let slow = numbers.parallel_map(2, move |number| {
            if number == 0 {
                block();
            }
            Ok(number)
        });
        assert_eq!(slow.count(), 2);
    });
    assert_names(&report, "data map", line);
}

#[test]
fn a_record_does_not_arrive() {
    let mut line = 0;
    let report = report(|block| {
        let source = Synthetic::new(2, move |number| {
            block();
            Ok(number)
        });
        line = line!() + 1;
        let records = source.stream();
        assert_eq!(records.count(), 2);
    });
    assert_names(&report, "data ", line);
}

#[test]
fn the_program_waits_elsewhere() {
    let report = report(|block| block());
    let own = "the_program_waits_elsewhere: ";
    assert!(report.starts_with("step 7 has not ended for ") && !report.contains(own), "{report}");
}

#[test]
fn marked_work_does_not_end() {
    let mut line = 0;
    let report = report(|block| {
        line = line!() + 1;
        let _upload = TraceAnnotation::new("upload weights");
        block();
    });
    assert_names(&report, "upload weights for ", line);
}

#[test]
fn a_function_is_traced_without_end() {
    let mut line = 0;
    let report = report(|block| {
        let slow = jit(move |x: Array| {
            block();
            x * 2.0
        });
        let slow = slow.name("traced_without_end");
        line = line!() + 1;
        slow.lower(Aval::new(DType::F32, [2])).unwrap();
    });
    assert_names(&report, "trace jit(traced_without_end)", line);
}

mod on_cpu {
    use super::*;

    /// A program that waits for the host.
    fn waiting(block: Block) -> Jit<'static, (Array,), Array> {
        let step = jit(move |x: Array| {
            let block = block.clone();
            debug::callback(move |_| block(), [&x]);
            x * 2.0
        });
        step.name("waiting_step")
    }

    #[test]
    fn a_result_is_read_before_it_is_computed() {
        let (mut call, mut read) = (0, 0);
        let report = report(|block| {
            let step = waiting(block);
            call = line!() + 1;
            let y = step.call(ones([2])).unwrap();
            read = line!() + 1;
            y.to_vec::<f32>().unwrap();
        });
        // A program that is cheap to run runs within its call.
        let is_read = report.contains("to_host");
        let (work, line) = if is_read { ("to_host", read) } else { ("call waiting_step", call) };
        assert_names(&report, work, line);
        assert!(report.contains("callback"), "{report}");
    }

    #[test]
    fn effects_do_not_end() {
        let (mut call, mut wait) = (0, 0);
        let report = report(|block| {
            let step = waiting(block);
            call = line!() + 1;
            let y = step.call(ones([2])).unwrap();
            wait = line!() + 1;
            y.block_until_ready().unwrap();
        });
        let is_wait = report.contains(": wait for ");
        let (work, line) = if is_wait { ("wait", wait) } else { ("call waiting_step", call) };
        assert_names(&report, work, line);
    }

    #[test]
    fn a_callback_does_not_end() {
        let mut line = 0;
        let report = report(|block| {
            line = line!() + 3;
            let step = jit(move |x: Array| {
                let block = block.clone();
                debug::callback(move |_| block(), [&x]);
                x * 2.0
            });
            step.call(ones([2])).unwrap().block_until_ready().unwrap();
        });
        assert_names(&report, "callback", line);
    }
}
