//! Profiles of the host: complete events, their nesting, lines and arguments, and errors.
//!
//! A profile has the events of all threads of the process, those of other tests too, so each test
//! looks at the thread on which it marked something.

mod lines;
mod server;

use oxidax::core::Loc;
use oxidax::prelude::*;
use oxidax::profile::{
    EventKind, Profile, ProfileEvent, ProfileSession, StepTraceAnnotation, ThreadEvents,
    TraceAnnotation, start_trace, stop_trace,
};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One profile is recorded at a time.
fn exclusive() -> MutexGuard<'static, ()> {
    static EXCLUSIVE: Mutex<()> = Mutex::new(());
    EXCLUSIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the events of the thread that marked `name`.
fn thread_of<'p>(profile: &'p Profile, name: &str) -> &'p ThreadEvents {
    let marked = |thread: &&ThreadEvents| thread.events.iter().any(|e| e.name.as_str() == name);
    profile.threads().iter().find(marked).unwrap()
}

fn of_kind(events: &[ProfileEvent], kind: EventKind) -> Vec<&ProfileEvent> {
    events.iter().filter(|event| event.kind == kind).collect()
}

/// Returns the events inside `outer`.
fn inside<'p>(events: &'p [ProfileEvent], outer: &ProfileEvent) -> Vec<&'p ProfileEvent> {
    let is_inside = |event: &&ProfileEvent| {
        event.start_nanos >= outer.start_nanos
            && event.end_nanos() <= outer.end_nanos()
            && *event != outer
    };
    events.iter().filter(is_inside).collect()
}

fn line_of(event: &ProfileEvent) -> Option<u32> {
    event.loc.get().filter(|at| at.file() == file!()).map(|at| at.line())
}

/// Checks that events are in order of their starts, and that each is within the one around it.
fn assert_nested(events: &[ProfileEvent]) {
    let mut open: Vec<&ProfileEvent> = Vec::new();
    let mut last = 0;
    for event in events {
        assert!(event.start_nanos >= last, "{event:?} begins before the event ahead of it");
        last = event.start_nanos;
        while open.last().is_some_and(|outer| outer.end_nanos() <= event.start_nanos) {
            open.pop();
        }
        if let Some(outer) = open.last() {
            assert!(event.end_nanos() <= outer.end_nanos(), "{event:?} outlasts {outer:?}");
        }
        open.push(event);
    }
}

#[test]
fn million_events_are_complete() -> Result<(), Error> {
    const THREADS: u64 = 8;
    const EVENTS: u64 = 125_000;
    let _exclusive = exclusive();
    let session = ProfileSession::start()?;
    std::thread::scope(|scope| {
        for worker in 0..THREADS {
            scope.spawn(move || {
                for index in 0..EVENTS / 2 {
                    let _outer = TraceAnnotation::new("million outer").with("worker", worker);
                    let _inner = TraceAnnotation::new("million inner").with("index", index);
                }
            });
        }
    });
    let profile = session.stop();
    let is_mine = |event: &ProfileEvent| event.name.as_str().starts_with("million");
    let mine: Vec<&ThreadEvents> =
        profile.threads().iter().filter(|thread| thread.events.iter().any(is_mine)).collect();
    assert_eq!(mine.len() as u64, THREADS);
    for thread in mine {
        assert_eq!(thread.events.len() as u64, EVENTS);
        let worker = thread.events[0].count("worker").unwrap();
        for (index, pair) in thread.events.chunks(2).enumerate() {
            assert_eq!(pair[0].count("worker"), Some(worker));
            assert_eq!(pair[1].count("index"), Some(index as u64));
            assert!(pair[1].end_nanos() <= pair[0].end_nanos());
        }
        assert_nested(&thread.events);
    }
    Ok(())
}

#[test]
fn work_that_is_under_way_ends_with_the_profile() -> Result<(), Error> {
    let _exclusive = exclusive();
    let before = TraceAnnotation::new("before the profile");
    let session = ProfileSession::start()?;
    let open = TraceAnnotation::new("under way");
    drop(before);
    TraceAnnotation::new("ended").scope(|| ());
    let profile = session.stop();
    drop(open);
    TraceAnnotation::new("after the profile").scope(|| ());
    let events = &thread_of(&profile, "under way").events;
    let names: Vec<&str> = events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(names, ["under way", "ended"]);
    assert!(events[0].argument("unfinished").is_some());
    assert!(events[1].argument("unfinished").is_none());
    assert!(events[0].end_nanos() >= events[1].end_nanos());
    // The next profile has none of them.
    let profile = { ProfileSession::start()? }.stop();
    assert!(!profile.events().any(|event| event.name.as_str() == "after the profile"));
    Ok(())
}

#[test]
fn second_profile_names_the_line_of_the_first() -> Result<(), Error> {
    let _exclusive = exclusive();
    let session = ProfileSession::start()?;
    let line = line!() - 1;
    let refused = ProfileSession::start().unwrap_err().to_string();
    let expected = format!(
        "error[value]: ProfileSession::start: a profile that {}:{line}:19 started is being recorded",
        file!()
    );
    assert!(refused.starts_with(&expected), "{refused}");
    assert!(refused.contains(&format!("--> {}:{}:", file!(), line + 2)), "{refused}");
    assert!(refused.contains("help: stop it first"), "{refused}");
    let folder = tempfile::tempdir().unwrap();
    let refused = start_trace(folder.path()).unwrap_err().to_string();
    assert!(refused.starts_with("error[value]: start_trace: a profile that "), "{refused}");
    // A refused start leaves nothing behind.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    drop(session);
    let refused = stop_trace().unwrap_err().to_string();
    let expected = "error[value]: stop_trace: no profile is being recorded";
    assert!(refused.starts_with(expected), "{refused}");
    assert!(refused.contains("help: call `start_trace` first"), "{refused}");
    Ok(())
}

#[test]
fn folder_that_cannot_be_written_is_an_error_before_the_work() {
    let _exclusive = exclusive();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let mut ran = false;
    let refused = oxidax::profile::trace(&file, || ran = true).unwrap_err().to_string();
    assert!(!ran);
    let expected = format!(
        "error[runtime]: profile::trace: cannot write {}: ",
        file.join("plugins/profile").display()
    );
    assert!(refused.starts_with(&expected), "{refused}");
    assert!(refused.contains("help: name a folder"), "{refused}");
    // The failed start stopped its session.
    drop(ProfileSession::start().unwrap());
}

#[test]
fn profile_of_a_closure_that_panics_is_written() {
    let _exclusive = exclusive();
    let folder = tempfile::tempdir().unwrap();
    let panicked = std::panic::catch_unwind(|| {
        let traced: Result<(), Error> = oxidax::profile::trace(folder.path(), || panic!("mine"));
        traced
    });
    assert!(panicked.is_err());
    let runs = folder.path().join("plugins/profile");
    let run = std::fs::read_dir(runs).unwrap().next().unwrap().unwrap().path();
    let mut files: Vec<String> = std::fs::read_dir(run)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort_by_key(|file| file != "perfetto_trace.pb");
    assert_eq!(files.len(), 2);
    assert_eq!(files[0], "perfetto_trace.pb");
    assert!(files[1].ends_with(".xplane.pb"), "{files:?}");
}

#[test]
fn items_of_own_pipelines_can_be_marked_as_waiting() -> Result<(), Error> {
    let _exclusive = exclusive();
    let session = ProfileSession::start()?;
    let (loc, line) = (Loc::caller(), line!());
    TraceAnnotation::of_kind(EventKind::DataWait, loc, "my loader").scope(|| ());
    let profile = session.stop();
    let event = &thread_of(&profile, "my loader").events[0];
    assert_eq!((event.kind, line_of(event)), (EventKind::DataWait, Some(line)));
    assert_eq!(event.title(), "data_wait my loader");
    Ok(())
}

mod on_cpu {
    use super::*;
    use oxidax::data::{HostArray, Source, Synthetic};
    use oxidax::nn::{Mlp, softmax_cross_entropy_with_integer_labels};

    fn loss(model: &Mlp, x: &Array, labels: &Array) -> Array {
        softmax_cross_entropy_with_integer_labels(&model.forward(x), labels).mean()
    }

    #[test]
    fn training_step_has_all_events_with_their_lines() -> Result<(), Error> {
        const STEPS: u64 = 3;
        let _exclusive = exclusive();
        let mut model = Mlp::new(random::key(0), &[8, 16, 4]);
        let train_step = jit(|model: Mlp, x: Array, labels: Array| {
            let (loss, gradients) = value_and_grad(|model: &Mlp| loss(model, &x, &labels))(&model);
            (tree::zip_map(&model, &gradients, |w, g| w - &(g * 0.1)), loss)
        })
        .name("train_step");
        let (x, labels) = (ones([32, 8]), full([32], 1));
        let session = ProfileSession::start()?;
        let (mut call_line, mut item_line) = (0, 0);
        for index in 0..STEPS {
            let _step = StepTraceAnnotation::new("train mlp", index);
            let (next, loss);
            call_line = line!() + 1;
            (next, loss) = train_step.call(model, &x, &labels)?;
            model = next;
            item_line = line!() + 1;
            assert!(loss.item::<f32>()?.is_finite());
        }
        let profile = session.stop();
        let events = &thread_of(&profile, "train mlp").events;
        assert_nested(events);
        let steps = of_kind(events, EventKind::Step);
        let numbers: Vec<_> = steps.iter().map(|step| step.count("step_num").unwrap()).collect();
        assert_eq!(numbers, [0, 1, 2]);
        for (index, step) in steps.iter().enumerate() {
            let inner: Vec<ProfileEvent> = inside(events, step).into_iter().cloned().collect();
            let calls = of_kind(&inner, EventKind::Call);
            assert_eq!(calls.len(), 1);
            assert_eq!(calls[0].title(), "call train_step");
            assert_eq!(line_of(calls[0]), Some(call_line));
            assert_eq!(calls[0].argument("compiled").is_some(), index == 0);
            let of_call: Vec<ProfileEvent> =
                inside(&inner, calls[0]).into_iter().cloned().collect();
            let titles = |kind| -> Vec<String> {
                of_kind(&of_call, kind).iter().map(|event| event.title()).collect()
            };
            let once = |titles: &[&str]| -> Vec<String> {
                let titles = if index == 0 { titles } else { &[] };
                titles.iter().map(|&title| title.to_owned()).collect()
            };
            let traces = titles(EventKind::Trace);
            let count = |start: &str| traces.iter().filter(|t| t.starts_with(start)).count();
            let transforms = (count("trace jit(train_step)"), count("trace grad("));
            assert_eq!(transforms, if index == 0 { (1, 1) } else { (0, 0) });
            assert_eq!(titles(EventKind::Lower), once(&["lower train_step"]));
            assert_eq!(titles(EventKind::Compile), once(&["compile train_step"]));
            assert_eq!(titles(EventKind::Dispatch), ["dispatch train_step"]);
            for event in of_kind(&of_call, EventKind::Compile) {
                assert!(event.argument("from_disk").is_some());
                assert_eq!(line_of(event), Some(call_line));
            }
            let reads = of_kind(&inner, EventKind::ToHost);
            assert_eq!(reads.len(), 1);
            assert_eq!((reads[0].count("bytes"), line_of(reads[0])), (Some(4), Some(item_line)));
        }
        let table = profile.to_string();
        assert!(table.contains("  compile train_step  tests/cpu/profiling/mod.rs:"), "{table}");
        Ok(())
    }

    #[test]
    fn copies_have_bytes_and_operations_their_lines() -> Result<(), Error> {
        let _exclusive = exclusive();
        let session = ProfileSession::start()?;
        let _mark = TraceAnnotation::new("eager operations");
        let (put_line, x) = (line!(), Array::from_slice(&[1.0_f32; 256], [256])?);
        let (sin_line, y) = (line!(), sin(&x));
        let (wait_line, _) = (line!(), y.block_until_ready()?);
        let (read_line, elements) = (line!(), y.to_vec::<f32>()?);
        assert_eq!(elements.len(), 256);
        let profile = session.stop();
        let events = &thread_of(&profile, "eager operations").events;
        let only = |kind: EventKind| {
            let found = of_kind(events, kind);
            assert_eq!(found.len(), 1, "{kind}: {found:?}");
            found[0]
        };
        assert_eq!(only(EventKind::ToDevice).count("bytes"), Some(1024));
        assert_eq!(line_of(only(EventKind::ToDevice)), Some(put_line));
        assert_eq!(only(EventKind::Eager).title(), "eager sin");
        assert_eq!(line_of(only(EventKind::Eager)), Some(sin_line));
        assert_eq!(line_of(only(EventKind::Dispatch)), Some(sin_line));
        assert_eq!(line_of(only(EventKind::Wait)), Some(wait_line));
        assert_eq!(only(EventKind::ToHost).count("bytes"), Some(1024));
        assert_eq!(line_of(only(EventKind::ToHost)), Some(read_line));
        Ok(())
    }

    #[test]
    fn pipelines_show_waiting_and_the_work_of_threads() -> Result<(), Error> {
        let _exclusive = exclusive();
        let session = ProfileSession::start()?;
        let (line, batches) = (
            line!() + 3,
            Synthetic::new(64, |index| HostArray::from_slice(&[index as f32; 4], [4]))
                .stream()
                .parallel_map(2, Ok)
                .batch(16)
                .to_device(2),
        );
        let count = TraceAnnotation::new("consumer of batches").scope(|| batches.count());
        assert_eq!(count, 4);
        let profile = session.stop();
        let events = &thread_of(&profile, "consumer of batches").events;
        // One for each batch, and one for the end.
        assert_eq!(of_kind(events, EventKind::DataWait).len(), 5);
        let threads = profile.threads().iter();
        let named = |name: &str| {
            let is_named = |thread: &&ThreadEvents| {
                thread.name.as_deref().is_some_and(|other| other.starts_with(name))
            };
            let threads = threads.clone().filter(is_named);
            threads.flat_map(|thread| thread.events.clone()).collect::<Vec<ProfileEvent>>()
        };
        let of_line = |name: &str, title: &str, line: u32| {
            named(name).iter().filter(|e| e.title() == title && line_of(e) == Some(line)).count()
        };
        assert_eq!(of_line("oxidax-prefetch", "data batch", line + 1), 4);
        assert_eq!(of_line("oxidax-prefetch", "data to_device", line + 2), 4);
        assert!(of_line("oxidax-map", "data map", line) >= 1);
        let copies: Vec<u64> = named("oxidax-prefetch")
            .iter()
            .filter(|event| event.kind == EventKind::ToDevice)
            .filter(|event| line_of(event) == Some(line + 2))
            .filter_map(|event| event.count("bytes"))
            .collect();
        assert_eq!(copies, [256; 4]);
        Ok(())
    }

    #[test]
    fn callbacks_and_checkpoints_are_recorded() -> Result<(), Error> {
        let _exclusive = exclusive();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.safetensors");
        let f = jit(|x: Array| {
            debug::callback(|_: &[HostArray]| drop(TraceAnnotation::new("in callback")), [&x]);
            x + 1.0
        });
        let session = ProfileSession::start()?;
        let _mark = TraceAnnotation::new("callbacks and checkpoints");
        let y = f.call(ones([3]))?;
        effects_barrier()?;
        let (save_line, ()) = (line!(), checkpoint::save(&path, &y)?);
        let (load_line, loaded) = (line!(), checkpoint::load(&path, &y)?);
        assert_eq!(loaded.to_vec::<f32>()?, [2.0; 3]);
        let profile = session.stop();
        let events = &thread_of(&profile, "in callback").events;
        let callbacks = of_kind(events, EventKind::Callback);
        let marked = callbacks.iter().flat_map(|callback| inside(events, callback));
        assert_eq!(marked.filter(|event| event.name.as_str() == "in callback").count(), 1);
        let events = &thread_of(&profile, "callbacks and checkpoints").events;
        let checkpoints: Vec<(String, Option<u32>)> = of_kind(events, EventKind::Checkpoint)
            .iter()
            .map(|event| (event.title(), line_of(event)))
            .collect();
        let expected = [("checkpoint save", save_line), ("checkpoint load", load_line)];
        assert_eq!(checkpoints, expected.map(|(title, line)| (title.to_owned(), Some(line))));
        Ok(())
    }
}
