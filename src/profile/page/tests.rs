//! The page of a small profile.

use super::run::Run;
use super::trace_file::HostTrace;
use super::{Document, report_html};
use crate::profile::line_profile_file::tests::example;
use crate::profile::{LineProfile, perfetto, recorded};
use expect_test::expect_file;

fn trace() -> HostTrace {
    let mut bytes = Vec::new();
    perfetto::write(&recorded::example(), &mut bytes).expect("writing to a vector");
    HostTrace::read(&bytes).expect("a trace")
}

/// Returns the page without its style and scripts, one element a line.
fn visible(page: &str) -> String {
    let mut text = page.to_owned();
    for (start, end) in [("<style>", "</style>"), ("<script", "</script>")] {
        while let Some(from) = text.find(start) {
            let length = text[from..].find(end).expect("it ends") + end.len();
            text.replace_range(from..from + length, "");
        }
    }
    text
}

#[test]
fn page_has_the_figures_of_the_profile() {
    let text = visible(&Document::of(Some(&example()), Some(&trace())).to_html());
    for expected in [
        "<title>train_step – oxidax profile</title>",
        ">measured</span>",
        "<dt>Step</dt><dd><b>10.0 ms</b><small>median execution</small>",
        "<b>700 GFLOP/s</b><small>35.0 % of 2.00 TFLOP/s</small>",
        "<dt>Slowest line</dt><dd><b>model.rs:12</b><small>70.0 % of the step</small>",
        "<dt>Peak memory</dt><dd><b>6.00 MiB</b>",
        // Time by line: 1.2 ms at the rate of the peak, over 7 ms.
        "<code>src/model.rs:20</code></td><td class=\"number\" data-v=\"0.0015\">1.50 ms</td>",
        "title=\"encoder: 8.00 ms, 80.0 %\"",
        "title=\"src/model.rs:12: 7.00 ms, 70.0 %\"",
        "peak 6.00 MiB",
        "<code>f32[512,512]</code></td><td>dot_general</td>",
        "<div class=\"note\">gradients of replicated weights</div>",
        "12.0 MiB on each device in 700 µs, 7.0 % of the step",
        "arithmetic 2.00 TFLOP/s",
        "memory 30.0 GB/s",
        "5 events on 2 threads",
    ] {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
}

/// The whole of a small page. `UPDATE_EXPECT=1 cargo test` writes it again; open it in a browser.
#[test]
fn page_of_a_step_is_golden() {
    let page = Document::of(Some(&example()), None).to_html();
    expect_file!["golden.html"].assert_eq(&page);
}

#[test]
fn prediction_is_marked() {
    let profile = LineProfile { predicted_for: Some("v5e".into()), ..example() };
    let text = visible(&Document::of(Some(&profile), None).to_html());
    assert!(text.contains("<span class=\"badge predicted\">predicted for v5e</span>"));
    assert!(text.contains("Predicted for v5e: each operation takes as long as"));
    assert!(!text.contains("Measured:"), "{text}");
}

#[test]
fn sections_without_data_name_the_call_that_records_it() {
    let text = visible(&Document::of(None, Some(&trace())).to_html());
    for call in ["Compiled::line_profile", "Profile::with_lines", "LineProfile::with_memory"] {
        assert!(text.contains(call), "{call}");
    }
    let text = visible(&Document::of(Some(&LineProfile::default()), None).to_html());
    assert!(text.contains("<code>profile::trace</code>"), "{text}");
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
}

#[test]
fn markup_of_users_is_text() {
    let evil = "</script><img src=x onerror=alert(1)>\"'";
    let mut profile = example();
    profile.name = evil.into();
    profile.predicted_for = Some(evil.into());
    for operation in &mut profile.operations {
        operation.name = evil.into();
        operation.scope = evil.into();
        operation.not_measured = Some(evil.into());
        operation.lines.iter_mut().for_each(|(line, _)| line.file = evil.into());
    }
    for collective in &mut profile.collectives {
        (collective.kind, collective.cause) = (evil.into(), Some(evil.into()));
        collective.axes = vec![evil.into()];
    }
    if let Some(memory) = &mut profile.memory {
        memory.at_peak.iter_mut().for_each(|arrays| arrays.array_type = evil.into());
    }
    let mut host = trace();
    host.tracks[0].title = evil.into();
    host.names.texts.iter_mut().for_each(|name| *name = evil.into());
    let page = Document::of(Some(&profile), Some(&host)).to_html();
    assert!(!page.contains("<img"), "{page}");
    assert_eq!(page.matches("</script>").count(), 2);
}

#[test]
fn folders_are_read_back_and_pages_are_equal() {
    let dir = tempfile::tempdir().expect("a folder");
    let saved = recorded::example().with_lines(example()).save(dir.path()).expect("it is written");
    let page = report_html(dir.path()).expect("a profile");
    assert!(page.contains("src/model.rs:12"));
    assert_eq!(page, report_html(&saved).expect("a profile"));
    assert!(
        matches!(Run::open(&saved).expect("a profile").lines, Some(Ok(lines)) if lines == example())
    );
    // The operations alone.
    let dir = tempfile::tempdir().expect("a folder");
    example().to_profile().save(dir.path()).expect("it is written");
    let page = report_html(dir.path()).expect("a profile");
    assert!(page.contains("The operations of one execution"), "{page}");
    assert!(!page.contains("id=\"work\""));
    let error = report_html(dir.path().join("nothing")).unwrap_err().to_string();
    assert!(error.contains("there is no profile in") && error.contains("help:"), "{error}");
}
