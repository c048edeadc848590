//! Monitoring of training loops: metric files, charts, progress and signals.

use expect_test::expect;
use image::GenericImageView;
use oxidax::Error;
use oxidax::train::{Chart, Metrics, Scale};
use prost::Message;
use std::fs;
use std::path::Path;

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap()
}

/// Removes the second column, the time of day.
fn without_times(csv: &str) -> String {
    let line = |line: &str| {
        let mut fields: Vec<&str> = line.split(',').collect();
        let seconds = fields.remove(1);
        assert!(seconds == "seconds" || seconds.parse::<f64>().unwrap() > 1e9, "{line}");
        fields.join(",")
    };
    csv.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn numbers(metrics: &mut Metrics, steps: std::ops::Range<u64>) -> Result<(), Error> {
    for step in steps {
        metrics.scalar(step, "loss", 1.0 / (step + 1) as f64)?;
        if step.is_multiple_of(2) {
            metrics.scalar(step, "accuracy", 0.5)?;
        }
    }
    Ok(())
}

#[test]
fn metrics_log_writes_one_row_per_step() -> Result<(), Error> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/metrics.csv");
    let mut metrics = Metrics::new().csv(&path, ["accuracy", "loss", "a, \"b\""])?;
    numbers(&mut metrics, 0..3)?;
    metrics.scalar(3, "a, \"b\"", f64::NAN)?;
    metrics.scalar(3, "no column", 1)?;
    let history = metrics.finish()?;
    expect![[r#"
        step,accuracy,loss,"a, ""b"""
        0,0.5,1,
        1,,0.5,
        2,0.5,0.3333333333333333,
        3,,,NaN"#]]
    .assert_eq(&without_times(&read(&path)));
    assert_eq!(history.names().collect::<Vec<_>>(), ["a, \"b\"", "accuracy", "loss", "no column"]);
    assert_eq!(history.get("accuracy"), [(0, 0.5), (2, 0.5)]);
    assert_eq!(history.get("nothing"), []);
    Ok(())
}

#[test]
fn new_run_renames_the_previous_file() -> Result<(), Error> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("metrics.jsonl");
    for loss in [1.0, 2.0, 3.0] {
        let mut metrics = Metrics::new().jsonl(&path)?;
        metrics.scalar(0, "loss", loss)?;
        metrics.finish()?;
    }
    let losses = ["metrics.jsonl", "metrics.jsonl.1", "metrics.jsonl.2"].map(|name| {
        let line = read(folder.path().join(name));
        serde_json::from_str::<serde_json::Value>(&line).unwrap()["loss"].as_f64().unwrap()
    });
    assert_eq!(losses, [3.0, 1.0, 2.0]);
    Ok(())
}

#[test]
fn json_log_names_nan_and_infinity() -> Result<(), Error> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("metrics.jsonl");
    let mut metrics = Metrics::new().jsonl(&path)?;
    for (step, value) in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.5].into_iter().enumerate()
    {
        metrics.scalar(step as u64, "x", value)?;
    }
    metrics.finish()?;
    let lines: Vec<serde_json::Value> =
        read(&path).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let values: Vec<String> = lines.iter().map(|line| line["x"].to_string()).collect();
    assert_eq!(values, ["\"NaN\"", "\"Infinity\"", "\"-Infinity\"", "-0.5"]);
    assert!(lines.iter().all(|line| line["seconds"].as_f64().unwrap() > 1e9));
    Ok(())
}

#[test]
fn resumed_log_equals_an_uninterrupted_one() -> Result<(), Error> {
    let folder = tempfile::tempdir().unwrap();
    let [once, twice] = ["once.csv", "twice.csv"].map(|name| folder.path().join(name));
    let [once_json, twice_json] =
        ["once.jsonl", "twice.jsonl"].map(|name| folder.path().join(name));
    let columns = ["loss", "accuracy"];
    let mut whole = Metrics::new().csv(&once, columns)?.jsonl(&once_json)?;
    numbers(&mut whole, 0..6)?;
    whole.finish()?;
    // Killed in step 5, in the middle of a line. Its last checkpoint is that of step 3.
    let mut first = Metrics::new().csv(&twice, columns)?.jsonl(&twice_json)?;
    numbers(&mut first, 0..5)?;
    first.finish()?;
    for (path, torn) in [(&twice, "5,17"), (&twice_json, "{\"step\":5,\"lo")] {
        fs::write(path, read(path) + torn).unwrap();
    }
    let mut second = Metrics::new().from_step(3).csv(&twice, columns)?.jsonl(&twice_json)?;
    numbers(&mut second, 3..6)?;
    second.finish()?;
    assert_eq!(without_times(&read(&once)), without_times(&read(&twice)));
    let losses = |path: &Path| -> Vec<String> {
        let lines = read(path);
        let lines =
            lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        lines.map(|line| format!("{} {}", line["step"], line["loss"])).collect()
    };
    assert_eq!(losses(&once_json), losses(&twice_json));
    // Without a file to resume, a new one is created.
    let fresh = folder.path().join("fresh.csv");
    let mut third = Metrics::new().from_step(3).csv(&fresh, columns)?;
    numbers(&mut third, 3..4)?;
    third.finish()?;
    assert_eq!(without_times(&read(&fresh)), "step,loss,accuracy\n3,0.25,");
    Ok(())
}

#[test]
fn resume_rejects_and_keeps_foreign_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("metrics.csv");
    let refused = |text: &str| {
        fs::write(&path, text).unwrap();
        let error = Metrics::new().from_step(9).csv(&path, ["loss"]).unwrap_err();
        assert_eq!(read(&path), text);
        error.to_string().replace(&folder.path().display().to_string(), "")
    };
    expect![[r#"
        error[data]: resume: /metrics.csv:1: the columns are [step, seconds, cost], to be resumed as [step, seconds, loss]
          help: repair the line, or move the file away"#]]
    .assert_eq(&refused("step,seconds,cost\n0,1.0,2\n"));
    expect![[r#"
        error[data]: resume: /metrics.csv:3: the line has no step
          help: repair the line, or move the file away"#]]
    .assert_eq(&refused("step,seconds,loss\n0,1.0,2\nnonsense\n2,1.0,2\n"));
    let error = Metrics::new().csv(&path, ["loss", "loss"]).unwrap_err().to_string();
    assert!(error.contains("would have two columns `loss`"), "{error}");
    let error = Metrics::new().csv(folder.path(), ["loss"]).unwrap_err().to_string();
    assert!(error.contains(&folder.path().display().to_string()), "{error}");
}

#[test]
fn log_rejects_decreasing_steps() -> Result<(), Error> {
    let mut metrics = Metrics::new().from_step(2);
    let mut refused = |step, name: &str| metrics.scalar(step, name, 0.5).map_err(|e| e.to_string());
    assert_eq!(
        refused(1, "x"),
        Err("error[data]: scalar: `x` of step 1 is before the first step, 2".into())
    );
    assert_eq!(refused(4, "x"), Ok(()));
    assert_eq!(refused(4, "x"), Err("error[data]: scalar: step 4 has a `x` already".into()));
    assert_eq!(
        refused(3, "x"),
        Err("error[data]: scalar: `x` of step 3 comes after step 4".into())
    );
    assert!(refused(4, "step").unwrap_err().contains("use another name"));
    metrics.flush()?;
    let late = metrics.scalar(4, "y", 0.5).unwrap_err().to_string();
    assert_eq!(late, "error[data]: scalar: `y` of step 4 comes after its row was written");
    assert_eq!(metrics.history().get("x"), [(4, 0.5)]);
    Ok(())
}

/// The part of the `tensorboard` event format that the log writes.
#[derive(Clone, PartialEq, Message)]
struct Event {
    #[prost(double, tag = "1")]
    wall_time: f64,
    #[prost(int64, tag = "2")]
    step: i64,
    #[prost(string, optional, tag = "3")]
    file_version: Option<String>,
    #[prost(message, optional, tag = "5")]
    summary: Option<Summary>,
    #[prost(message, optional, tag = "7")]
    session_log: Option<SessionLog>,
}

#[derive(Clone, PartialEq, Message)]
struct Summary {
    #[prost(message, repeated, tag = "1")]
    value: Vec<Value>,
}

#[derive(Clone, PartialEq, Message)]
struct Value {
    #[prost(string, tag = "1")]
    tag: String,
    /// A choice of several kinds: without it, TensorBoard shows nothing.
    #[prost(float, optional, tag = "2")]
    simple_value: Option<f32>,
}

#[derive(Clone, PartialEq, Message)]
struct SessionLog {
    #[prost(int32, tag = "1")]
    status: i32,
}

#[test]
fn event_files_are_readable_by_tensorboard() -> Result<(), Error> {
    let folder = tempfile::tempdir().unwrap();
    let mut metrics = Metrics::new().from_step(7).tensorboard(folder.path())?;
    metrics.scalar(7, "train/loss", 0.25)?;
    metrics.scalar(7, "rate", 1e-3)?;
    metrics.scalar(7, "zero", 0.0)?;
    metrics.scalar(1 << 40, "train/loss", f64::NAN)?;
    metrics.finish()?;
    let files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|f| f.unwrap().path()).collect();
    let name = files[0].file_name().unwrap().to_str().unwrap().to_owned();
    assert!(files.len() == 1 && name.starts_with("events.out.tfevents."), "{files:?}");
    let records = oxidax::data::tfrecord(files[0].clone());
    let events: Vec<Event> =
        records.map(|record| Ok(Event::decode(&record[..]).unwrap())).collect::<Result<_, _>>()?;
    assert_eq!(events[0].file_version.as_deref(), Some("brain.Event:2"));
    assert_eq!(events[1].session_log, Some(SessionLog { status: 1 }));
    let value = |tag: &str, value| Value { tag: tag.into(), simple_value: Some(value) };
    assert_eq!(
        events[2].summary,
        Some(Summary {
            value: vec![value("train/loss", 0.25), value("rate", 1e-3), value("zero", 0.0)]
        })
    );
    assert!(events[3].summary.as_ref().unwrap().value[0].simple_value.unwrap().is_nan());
    let steps: Vec<i64> = events.iter().map(|event| event.step).collect();
    assert_eq!(steps, [0, 7, 7, 1 << 40]);
    assert!(events.iter().all(|event| event.wall_time > 1e9));
    Ok(())
}

#[test]
fn chart_draws_every_curve() -> Result<(), Error> {
    let folder = tempfile::tempdir().unwrap();
    let [svg, png] = ["chart.svg", "chart.PNG"].map(|name| folder.path().join("new").join(name));
    let falling = (0..50).map(|step| (f64::from(step), 1.0 / f64::from(step)));
    let chart = Chart::new("Loss <&>")
        .curve("train", falling)
        .curve("gaps", [(0.0, 0.5), (1.0, f64::NAN), (2.0, -1.0), (3.0, 0.25), (4.0, 0.2)])
        .scale(Scale::Log)
        .size(400, 300);
    chart.save(&svg)?;
    chart.save(&png)?;
    let text = read(&svg);
    assert!(text.contains(">Loss &lt;&amp;&gt;<") && text.contains(">train<"), "{text}");
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    // The curve with a gap: the single point, the part after the gap, and the legend.
    assert_eq!(text.matches("#d55e00").count(), 3);
    let image = image::open(&png).unwrap();
    assert_eq!(image.dimensions(), (400, 300));
    let blue = image.to_rgb8().pixels().filter(|pixel| pixel.0 == [0x00, 0x72, 0xb2]).count();
    assert!(blue > 40, "{blue} pixels of the first curve");
    // Charts without points, and with the largest and smallest numbers.
    Chart::new("").save(&png)?;
    let extremes = [(0.0, f64::MIN), (f64::MAX, f64::MAX), (f64::MIN, 0.0)];
    Chart::new("").curve("", extremes).save(&png)?;
    Chart::new("").curve("", [(5.0, 5.0)]).size(0, u32::MAX).save(&svg)?;
    let error = chart.save(folder.path().join("chart.gif")).unwrap_err().to_string();
    assert!(error.contains("ends in neither .svg nor .png"), "{error}");
    Ok(())
}

/// Signals end a process, so the test runs in a child process.
fn signalled(signals: &[&str], ignored: &str) -> (Option<i32>, bool) {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    let mut child = Command::new("sh")
        .args(["-c", &format!("trap '' {ignored}; exec \"$0\" \"$@\"")])
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "training::monitoring::child_loop_ended_by_signals",
            "--ignored",
            "--nocapture",
        ])
        .env("OXIDAX_TEST_WAITS", (signals.len() == 2).to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let id = child.id().to_string();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    for (said, signal) in ["ready", "first"].iter().zip(signals) {
        assert!(lines.any(|line| line.ends_with(said)), "it never said {said}");
        for signal in signal.split(' ') {
            assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        }
    }
    let rest: Vec<String> = lines.collect();
    (child.wait().unwrap().code(), rest.iter().any(|line| line.ends_with("saved")))
}

/// Returns true if this process, and thus its children, ignore a signal. Scripts that start it in
/// the background ignore Ctrl-C.
fn is_ignored(signal: u32) -> bool {
    let status = read(Path::new("/proc/self/status"));
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() & (1 << (signal - 1)) != 0
}

#[test]
fn first_signal_ends_the_loop_second_the_process() {
    for (number, signal) in [(2, "-INT"), (15, "-TERM"), (1, "-HUP")] {
        if !is_ignored(number) {
            assert_eq!(signalled(&[signal], "PIPE"), (Some(0), true), "{signal}");
        }
    }
    assert_eq!(signalled(&["-TERM", "-TERM"], "PIPE"), (Some(130), false));
}

#[test]
fn ignored_signals_stay_ignored() {
    // If SIGHUP counted, the second signal would end the process.
    assert_eq!(signalled(&["-HUP -TERM"], "HUP"), (Some(0), true));
    assert_eq!(signalled(&["-INT -TERM"], "INT"), (Some(0), true));
}

#[test]
#[ignore = "the tests above run it in processes of their own"]
fn child_loop_ended_by_signals() {
    let interrupt = oxidax::train::Interrupt::catch().unwrap();
    let again = oxidax::train::Interrupt::catch().unwrap();
    println!("\nready");
    let began = std::time::Instant::now();
    while !interrupt.requested() {
        assert!(began.elapsed().as_secs() < 60, "no signal came");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(again.requested());
    println!("first");
    if std::env::var("OXIDAX_TEST_WAITS").as_deref() == Ok("true") {
        // Simulates a slow save.
        std::thread::sleep(std::time::Duration::from_secs(60));
    }
    println!("saved");
}

mod on_cpu {
    use super::*;
    use oxidax::prelude::*;
    use oxidax::train::{NanGuard, ProgressBar};

    #[test]
    fn log_writes_arrays_in_order() -> Result<(), Error> {
        let step = jit(|x: Array| (&x * 0.5, x.mean()));
        let mut metrics = Metrics::new();
        let mut progress = ProgressBar::new(20);
        let mut x = full([3], 64f32);
        for number in 0..20 {
            let mean;
            (x, mean) = step.call(x)?;
            metrics.scalar(number, "mean", &mean)?;
            progress.inc(&mean)?;
        }
        let pace = progress.finish()?;
        assert_eq!((pace.n_steps, pace.loss), (20, 64.0 * 0.5f64.powi(19)));
        assert!(pace.first_step >= pace.step, "{pace:?}");
        let history = metrics.finish()?;
        let expected: Vec<(u64, f64)> =
            (0..20).map(|n| (n, 64.0 * 0.5f64.powi(n as i32))).collect();
        assert_eq!(history.get("mean"), expected);
        Ok(())
    }

    #[test]
    fn log_accepts_real_scalars_only() -> Result<(), Error> {
        let mut metrics = Metrics::new();
        for (step, dtype) in DType::all().enumerate() {
            let two = full([1], 1f32).astype(dtype);
            let is_read = metrics.scalar(step as u64, dtype.name(), &two).is_ok();
            let is_real = dtype == DType::Bool || dtype.is_integer() || dtype.is_float();
            assert_eq!(
                is_read,
                is_real && dtype.bits() >= 8 && !dtype.name().starts_with("f8"),
                "{dtype}"
            );
        }
        metrics.flush()?;
        let history = metrics.history();
        assert!(history.names().all(|name| history.get(name)[0].1 == 1.0));
        let error = metrics.scalar(99, "x", full([2], 1f32)).unwrap_err().to_string();
        assert_eq!(error, "error[data]: scalar: `x` is f32[2], not one real number: pass its mean");
        let traced = jit(|x: Array| {
            let error = Metrics::new().scalar(0, "x", &x).unwrap_err().to_string();
            assert!(error.contains("`x` is traced; return it"), "{error}");
            x
        });
        traced.call(full([], 1f32))?;
        Ok(())
    }

    #[test]
    fn nan_guard_keeps_the_first_nan_step() -> Result<(), Error> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/nan.safetensors");
        let step = jit(|w: Array, batch: Array| {
            let loss = log(&(&w - batch)).sum();
            (w - 1.0, loss)
        });
        let mut guard = NanGuard::new(&path);
        let mut w = full([2], 10f32);
        let batch = full([2], 4f32);
        let mut run = || -> Result<(), Error> {
            for number in 0..100 {
                let inputs = (w.clone(), batch.clone());
                let loss;
                (w, loss) = step.call(w.clone(), &batch)?;
                guard.check(number, inputs, &loss)?;
            }
            Ok(())
        };
        let error = run().unwrap_err().to_string();
        assert!(
            error.starts_with(
                "error[data]: check: the loss of step 6 is -inf; all of its inputs are finite"
            ),
            "{error}"
        );
        assert!(error.contains(&path.display().to_string()), "{error}");
        let like = (zeros([2]), zeros([2]));
        let (w, batch) = checkpoint::load(&path, &like)?;
        assert_eq!(w.to_vec::<f32>()?, [4.0, 4.0]);
        let loss = step.call(w, batch)?.1;
        assert_eq!(loss.item::<f32>()?, f32::NEG_INFINITY);

        // Earlier non-finite values are reported. A remaining loss is checked at the end.
        let mut guard = NanGuard::new(&path);
        let inputs = vec![full([1], f32::NAN), full([1], 1f32)];
        // The loss may not have arrived yet.
        let outcome = guard.check(7, inputs, &full([], f32::NAN)).and_then(|()| guard.finish());
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains("the loss of step 7 is NaN; not finite before it: [0]"), "{error}");
        Ok(())
    }
}
