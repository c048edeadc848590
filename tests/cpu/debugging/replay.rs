//! Recordings of failing calls, and their replay.

use super::f32s;
use oxidax::prelude::*;
use oxidax::replay::{
    self, Cause, Problem, RecordOptions, Recording, Replay, record_failures, run_reproducer,
};
use std::path::Path;

/// Returns the line of this file in a location.
fn line(location: &str) -> u32 {
    let (_, rest) =
        location.split_once("replay.rs:").unwrap_or_else(|| panic!("no line: {location}"));
    rest.split(':').next().unwrap().parse().unwrap()
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// Returns the paths of the recordings in a folder, sorted.
fn recordings(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).map(|entries| entries.flatten().collect::<Vec<_>>());
    let mut paths: Vec<_> = entries.unwrap_or_default().iter().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Opens the only recording in a folder.
fn the_recording(folder: &Path) -> Recording {
    let paths = recordings(folder);
    assert_eq!(paths.len(), 1, "{paths:?}");
    Recording::open(&paths[0]).unwrap()
}

mod on_cpu {
    use super::*;

    /// Runs `f` with recording and `nan_check`, and replays its failure.
    fn replay_nan<R>(f: impl FnOnce() -> R) -> (Recording, Replay) {
        let folder = folder();
        record_failures(folder.path(), || debug::nan_check(f));
        let recording = the_recording(folder.path());
        assert_eq!(recording.cause(), Cause::Nan);
        let replay = recording.replay().unwrap();
        (recording, replay)
    }

    #[test]
    fn a_nan_in_the_middle_of_a_scan_has_its_iteration() {
        let (scan_at, at) = (line!() + 5, line!() + 2);
        let step = |x: Array, d: Array| {
            let y = sqrt(&(&x - d));
            (y.clone(), y)
        };
        let f = jit(move |x: Array, ds: Array| scan(step, x, ds)).name("roots");
        // 10 → √9 = 3 → √2 → √(1.41 − 5) = NaN.
        let ds = f32s(&[1.0, 1.0, 5.0, 0.0, 0.0]);
        let (recording, replay) = replay_nan(|| f.call(full([], 10.0f32), &ds).unwrap_err());
        assert_eq!(recording.function(), "roots");
        assert!(recording.error().unwrap().contains("error[value]: sqrt"));
        let found = replay.found.as_ref().unwrap();
        assert_eq!((found.operation.as_str(), &found.problem), ("sqrt", &Problem::Nan));
        assert_eq!(line(&found.line), at);
        let [frame] = &found.frames[..] else { panic!("{found}") };
        assert_eq!((frame.operation.as_str(), frame.program.as_str()), ("scan", "body"));
        assert_eq!((frame.iteration, frame.iterations), (Some(2), Some(5)));
        assert_eq!(line(&frame.line), scan_at);
        let operand = found.operands[0].min.unwrap();
        assert!((operand - (2f64.sqrt() - 5.0)).abs() < 1e-6, "{operand}");
        assert_eq!((found.results[0].nan, found.results[0].min), (1, None));
        let text = replay.to_string();
        assert!(text.contains("sqrt makes a NaN of operands without one"), "{text}");
        assert!(text.contains("in scan: body, iteration 2 of 5  at "), "{text}");
    }

    #[test]
    fn a_nan_in_a_branch_of_a_loop_has_both() {
        let at = line!() + 1;
        let bad = |x: Array| log(&(x * -1.0));
        let good = |x: Array| x + 1.0;
        let body = move |i: Array, x: Array| cond(ge(&i, 3), bad, good, x);
        let f = jit(move |x: Array| fori_loop(0, 4, body, x));
        let (_, replay) = replay_nan(|| f.call(full([], 1.0f32)).unwrap_err());
        let found = replay.found.unwrap();
        assert_eq!((found.operation.as_str(), line(&found.line)), ("log", at));
        let frames: Vec<String> = found
            .frames
            .iter()
            .map(|frame| format!("{} {} {:?}", frame.operation, frame.program, frame.iteration))
            .collect();
        assert_eq!(frames.len(), 2, "{frames:?}");
        assert!(frames[0].ends_with("body Some(3)"), "{frames:?}");
        assert!(frames[1].starts_with("cond branch "), "{frames:?}");
        assert_eq!(found.operands[0].max, Some(-4.0));
    }

    #[test]
    fn derivative_rules_are_left_out() {
        let at = line!() + 1;
        let f = |x: &Array| log(x);
        let rule = |x: &Array, dx: &Array| (log(x), dx / x);
        let g = jit(move |xs: Array| {
            let step = move |c: Array, x: Array| (c + custom_jvp(f, rule)(&x), ());
            scan(step, zeros([]), xs).0
        });
        let (recording, replay) = replay_nan(|| g.call(f32s(&[1.0, 2.0, -3.0])).unwrap_err());
        assert!(!recording.program().to_string().contains("<closure>"));
        let found = replay.found.unwrap();
        assert_eq!((found.operation.as_str(), line(&found.line)), ("log", at));
        assert_eq!(found.frames[0].iteration, Some(2));
    }

    #[test]
    fn a_failing_check_is_found_with_its_message_and_iteration() {
        let folder = folder();
        let at = line!() + 2;
        let step = |x: Array, d: Array| {
            debug::check(ge(&x, 0.0), "the balance is {x}", [("x", &x)]);
            debug_print!("{x}");
            (x - &d, ())
        };
        let f = jit(move |x: Array, ds: Array| scan(step, x, ds).0).name("pay");
        let x = full([], 3.0f32);
        let ds = f32s(&[1.0, 4.0, 1.0]);
        let failed = record_failures(folder.path(), || f.call(x, ds)).unwrap_err();
        let text = failed.error.to_string();
        assert!(text.contains("the balance is -2."), "{text}");
        assert!(text.contains("help: the call is recorded: `oxidax replay "), "{text}");
        // The arguments were passed by value, and are still there.
        assert!(failed.args.0.is_some() && failed.args.1.is_some());
        let recording = the_recording(folder.path());
        assert_eq!(recording.cause(), Cause::Check);
        let replay = recording.replay().unwrap();
        let found = replay.found.unwrap();
        let Problem::Check(message) = &found.problem else { panic!("{found}") };
        assert!(message.starts_with("the balance is -2"), "{message}");
        assert_eq!(line(&found.line), at);
        assert_eq!(found.frames[0].iteration, Some(2));
    }

    #[test]
    fn batched_checks_are_recorded() {
        let folder = folder();
        let checked = |x: Array| {
            debug::check(ge(&x, 0.0), "{} is negative", [&x]);
            x
        };
        let f = jit(move |x: Array| vmap(checked).apply(x));
        record_failures(folder.path(), || f.call(f32s(&[1.0, -5.0]))).unwrap_err();
        let found = the_recording(folder.path()).replay().unwrap().found.unwrap();
        assert!(matches!(&found.problem, Problem::Check(text) if text.contains("-5")), "{found}");
    }

    #[test]
    fn donated_inputs_of_every_width_are_kept() {
        let folder = folder();
        let f = jit(|x: Array, labels: Array, flag: Array| {
            let y = log(&x) * where_(flag, 1.0f32, 2.0f32);
            (y, labels + 1)
        });
        let x = full([3], -1.0f32).astype(DType::BF16);
        record_failures(folder.path(), || {
            debug::nan_check(|| f.call(x, array![1, 2], Array::from_slice(&[true], []).unwrap()))
        })
        .unwrap_err();
        let recording = the_recording(folder.path());
        let inputs: Vec<_> = recording
            .inputs()
            .map(|(path, input)| (path.to_string(), input.aval().to_string()))
            .collect();
        let expected = [("$[0]", "bf16[3]"), ("$[1]", "i32[2]"), ("$[2]", "bool[]")];
        assert_eq!(inputs, expected.map(|(path, aval)| (path.to_string(), aval.to_string())));
        let replay = recording.replay().unwrap();
        let found = replay.found.as_ref().unwrap();
        assert_eq!(found.operation, "log");
        assert_eq!(found.operands[0].to_string(), "bf16[3]  -1");
        assert_eq!(found.results[0].to_string(), "bf16[3]  no finite number, 3 NaN");

        let reproducer = folder.path().join("reproducer");
        let files = recording.write_reproducer(&reproducer, Some(&replay)).unwrap();
        assert!(files.iter().all(|file| file.is_file()), "{files:?}");
        let results = run_reproducer(&reproducer).unwrap();
        assert_eq!(results.len(), 2);
        assert!(results[0].astype(DType::F32).to_vec::<f32>().unwrap()[0].is_nan());
        assert_eq!(results[1].to_vec::<i32>().unwrap(), [2, 3]);
        let alone = run_reproducer(reproducer.join("operation")).unwrap();
        assert_eq!(alone[0].aval().to_string(), "bf16[3]");
        assert!(alone[0].astype(DType::F32).to_vec::<f32>().unwrap()[2].is_nan());
        let readme = std::fs::read_to_string(reproducer.join("README.md")).unwrap();
        assert!(readme.contains("oxidax replay ") && readme.contains("`$[2]`"), "{readme}");
        let error = recording.write_reproducer(&reproducer, None).unwrap_err().to_string();
        assert!(error.contains("must be empty"), "{error}");
    }

    #[test]
    fn conditions_of_checks_are_results_of_the_reproducer() {
        let folder = folder();
        let f = jit(|x: Array| {
            debug::check(ge(&x, 0.0), "negative", ());
            sqrt(&x)
        });
        record_failures(folder.path(), || f.call(f32s(&[4.0, -4.0]))).unwrap_err();
        let recording = the_recording(folder.path());
        let reproducer = folder.path().join("reproducer");
        recording.write_reproducer(&reproducer, None).unwrap();
        let results = run_reproducer(&reproducer).unwrap();
        assert_eq!(results[1].to_vec::<bool>().unwrap(), [true, false]);
    }

    #[test]
    fn infinities_are_found_on_request_and_named_before_a_nan() {
        let folder = folder();
        let (exp_at, sub_at) = (line!() + 2, line!() + 3);
        let f = jit(|x: Array| {
            let y = exp(&x);
            &y - &(&y * 2.0)
        });
        let file = folder.path().join("on-request.failure");
        f.record(&file, f32s(&[1.0, 1000.0])).unwrap();
        let recording = Recording::open(&file).unwrap();
        assert_eq!((recording.cause(), recording.error()), (Cause::Request, None));
        let replay = recording.replay().unwrap();
        assert_eq!(line(&replay.found.unwrap().line), sub_at);
        assert_eq!(line(&replay.first_infinity.unwrap().line), exp_at);
        let replay = recording.replay_finite().unwrap();
        let found = replay.found.unwrap();
        assert_eq!((found.problem, line(&found.line)), (Problem::Infinity, exp_at));
        // `finite_check` looks for infinities without being told.
        record_failures(folder.path(), || debug::finite_check(|| f.call(f32s(&[1000.0]))))
            .unwrap_err();
        let other = recordings(folder.path()).into_iter().find(|path| *path != file).unwrap();
        let recording = Recording::open(other).unwrap();
        assert_eq!(recording.cause(), Cause::NonFinite);
        assert_eq!(recording.replay().unwrap().found.unwrap().problem, Problem::Infinity);
    }

    #[test]
    fn a_nan_of_the_arguments_is_named() {
        let folder = folder();
        let file = folder.path().join("x.failure");
        let f = jit(|(w, x): (Array, Array)| &w * &x);
        f.record(&file, (f32s(&[1.0]), f32s(&[f32::NAN]))).unwrap();
        let replay = Recording::open(&file).unwrap().replay().unwrap();
        assert!(replay.found.is_none());
        assert_eq!(replay.bad_inputs[0].0, "$[0][1]");
        assert!(replay.to_string().contains("input $[0][1] holds a NaN"), "{replay}");
    }

    #[test]
    fn a_constant_nan_is_found() {
        let folder = folder();
        let file = folder.path().join("x.failure");
        let at = line!() + 1;
        let f = jit(|x: Array| x * full([2], f32::NAN));
        f.record(&file, f32s(&[1.0, 2.0])).unwrap();
        let found = Recording::open(&file).unwrap().replay().unwrap().found.unwrap();
        assert_eq!((found.problem.clone(), line(&found.line)), (Problem::Nan, at), "{found}");
    }

    #[test]
    fn captures_are_inputs() {
        let folder = folder();
        let w = f32s(&[-1.0, 2.0]);
        let f = jit(move |x: Array| log(&(&x * &w)));
        record_failures(folder.path(), || debug::nan_check(|| f.call(f32s(&[1.0, 1.0]))))
            .unwrap_err();
        let recording = the_recording(folder.path());
        let paths: Vec<&str> = recording.inputs().map(|(path, _)| path).collect();
        assert_eq!(paths, ["$[0]", "capture 0"]);
        assert_eq!(recording.replay().unwrap().found.unwrap().operation, "log");
    }

    #[test]
    fn compiled_functions_are_recorded() {
        let folder = folder();
        let f = jit(|x: Array| log(&x)).lower(Aval::new(DType::F32, [1])).unwrap();
        let f = f.compile().unwrap();
        let error = record_failures(folder.path(), || debug::nan_check(|| f.call(f32s(&[-1.0]))));
        let text = error.unwrap_err().to_string();
        assert!(text.contains("the call is recorded"), "{text}");
        assert!(the_recording(folder.path()).replay().unwrap().found.is_some());
    }

    #[test]
    fn an_error_of_the_device_is_recorded_and_found() {
        let folder = folder();
        let at = line!() + 3;
        let huge = jit(|x: Array| {
            let y = &x + 1.0;
            let wide = |i: usize| broadcast_to(&(&y + i as f32), [1 << 17, 1 << 16]);
            (0..64).map(wide).collect::<Vec<_>>()
        });
        let x = full([], 1.0f32);
        let text = record_failures(folder.path(), || huge.call(x)).unwrap_err().to_string();
        assert!(text.contains("the call is recorded"), "{text}");
        let recording = the_recording(folder.path());
        assert_eq!(recording.cause(), Cause::Device);
        let found = recording.replay().unwrap().found.unwrap();
        let Problem::Device(message) = &found.problem else { panic!("{found}") };
        assert!(message.contains("RESOURCE_EXHAUSTED"), "{message}");
        assert_eq!((found.operation.as_str(), line(&found.line)), ("broadcast_in_dim", at));
    }

    #[test]
    fn results_of_callbacks_cannot_be_recorded() {
        let folder = folder();
        let at = line!() + 3;
        let f = jit(|x: Array| {
            let same = |x: &[oxidax::core::HostArray]| Ok(vec![x[0].clone()]);
            let y = debug::pure_callback(same, &[x.aval().clone()], [&x]).swap_remove(0);
            log(&y)
        });
        let x = f32s(&[-1.0]);
        let error = record_failures(folder.path(), || debug::nan_check(|| f.call(&x)));
        let text = error.unwrap_err().to_string();
        let reason = "the call is not recorded: error[unsupported]: pure_callback: its results \
                      come from a closure, so another process cannot run it";
        assert!(text.contains(reason), "{text}");
        assert!(text.contains(&format!("replay.rs:{at}:")), "{text}");
        assert!(recordings(folder.path()).is_empty());
        let error = f.record(folder.path().join("x"), &x).unwrap_err().to_string();
        assert!(error.starts_with("error[unsupported]: pure_callback"), "{error}");
    }

    #[test]
    fn folders_have_a_limit() {
        let folder = folder();
        let f = jit(|x: Array| log(&x)).name("step");
        let options = RecordOptions::new(folder.path()).limit(2);
        let last = replay::record_failures_with(options, || {
            let call = |_| debug::nan_check(|| f.call(f32s(&[-1.0]))).unwrap_err().to_string();
            (0..4).map(call).last().unwrap()
        });
        assert!(last.contains("has 2 recordings, and the limit is 2"), "{last}");
        let names: Vec<_> = recordings(folder.path())
            .iter()
            .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(names, ["step-1.failure", "step-2.failure"]);
    }

    #[test]
    fn nothing_is_recorded_or_kept_without_a_setting() {
        let f = jit(|x: Array| x + 1.0);
        let x = f32s(&[1.0]);
        let folder = folder();
        f.call(x.clone()).unwrap();
        assert_eq!(f.stats().not_donated, 1, "the clone blocks donation");
        record_failures(folder.path(), || f.call(x.clone())).unwrap();
        assert_eq!(f.stats().not_donated, 1, "nothing is donated while failures are recorded");
        assert!(recordings(folder.path()).is_empty());
    }

    #[test]
    fn any_bytes_are_safe_to_read() {
        let folder = folder();
        let file = folder.path().join("x.failure");
        let step = |x: Array, d: Array| {
            debug::check(ge(&x, 0.0), "{}", [&x]);
            (x.reshape([2, 1]).matmul(&d.reshape([1, 2])).sum_axes(0), ())
        };
        let f = jit(move |x: Array, ds: Array| scan(step, x, ds).0);
        f.record(&file, f32s(&[1.0, 2.0]), ones([3, 2])).unwrap();
        let bytes = std::fs::read(&file).unwrap();
        let error = |bytes: &[u8]| Recording::from_bytes(bytes).unwrap_err().to_string();
        // Truncated anywhere, or with any byte changed.
        for end in (0..bytes.len()).step_by(7) {
            error(&bytes[..end]);
        }
        for at in (0..bytes.len()).step_by(5) {
            let mut changed = bytes.clone();
            changed[at] ^= 0x20;
            error(&changed);
        }
        let mut newer = bytes.clone();
        newer[14..16].copy_from_slice(b"99");
        assert!(error(&newer).contains("format 99"), "{}", error(&newer));
        assert!(
            error(b"not a recording at all, but long enough to hold a header of one")
                .contains("they begin differently")
        );
        assert!(Recording::open(folder.path().join("missing")).is_err());
    }
}
