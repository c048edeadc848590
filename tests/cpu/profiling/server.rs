//! Profiles that another process asks for.

use super::exclusive;
use oxidax::prelude::*;
use oxidax::profile::{
    ProfileSession, ProfilerServer, TraceAnnotation, capture, capture_all, report_html,
    start_server,
};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longer than a busy machine keeps a thread waiting.
const RECORDED: Duration = Duration::from_secs(1);

/// Works until `capture` on another thread has its profile.
fn capture_while_working(
    work: &'static str,
    capture: impl FnOnce() -> Result<PathBuf, Error> + Send + 'static,
) -> Result<PathBuf, Error> {
    let step = jit(|w: Array| &w * 0.9).name("captured_step");
    // Compiled before, so that calls begin while the profile is recorded.
    let mut w = step.call(ones([3]))?;
    let capture = std::thread::spawn(capture);
    while !capture.is_finished() {
        let _work = TraceAnnotation::new(work);
        w = step.call(w)?;
        std::thread::sleep(Duration::from_millis(1));
    }
    capture.join().expect("a thread that does not panic")
}

fn contains(file: &Path, text: &str) -> bool {
    let bytes = std::fs::read(file).expect("a file of the profile");
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn capture_writes_a_profile_of_what_runs() -> Result<(), Error> {
    let _guard = exclusive();
    let server = start_server(0)?;
    assert!(server.address().ip().is_loopback());
    let dir = tempfile::tempdir().expect("a folder");
    let (folder, address) = (dir.path().to_owned(), server.address().to_string());
    let run = capture_while_working("captured work", move || capture(&address, RECORDED, folder))?;
    assert!(run.starts_with(dir.path().join("plugins/profile")));
    let port = server.address().port();
    for file in ["xplane.pb", "perfetto_trace.pb"] {
        let path = run.join(format!("127.0.0.1_{port}.{file}"));
        for text in ["captured_step", "captured work", "tests/cpu/profiling/server.rs"] {
            assert!(contains(&path, text), "{} lacks {text}", path.display());
        }
    }
    let page = report_html(dir.path())?;
    assert!(page.contains("captured work"), "the page lacks the work");
    Ok(())
}

#[test]
fn profiles_of_processes_that_answer_are_kept() -> Result<(), Error> {
    let _guard = exclusive();
    let (server, gone) = (start_server(0)?, start_server(0)?);
    let addresses = [server.address().to_string(), gone.address().to_string()];
    drop(gone);
    let dir = tempfile::tempdir().expect("a folder");
    let (folder, asked) = (dir.path().to_owned(), addresses.clone());
    let error = capture_while_working("kept work", move || capture_all(&asked, RECORDED, folder));
    let error = error.unwrap_err().to_string();
    assert!(error.contains(&addresses[1]) && error.contains("refused"), "{error}");
    let runs: Vec<_> = std::fs::read_dir(dir.path().join("plugins/profile"))
        .expect("a run")
        .map(|run| run.expect("a folder").path())
        .collect();
    assert!(error.contains(&runs[0].display().to_string()), "{error}");
    let port = server.address().port();
    assert!(contains(&runs[0].join(format!("127.0.0.1_{port}.xplane.pb")), "kept work"));
    Ok(())
}

#[test]
fn a_profile_that_is_recorded_is_named() -> Result<(), Error> {
    let _guard = exclusive();
    let server = start_server(0)?;
    let (session, line) = (ProfileSession::start()?, line!());
    let dir = tempfile::tempdir().expect("a folder");
    let error = capture(server.address().to_string(), Duration::from_millis(10), dir.path());
    let error = error.unwrap_err().to_string();
    assert!(error.contains(&format!("tests/cpu/profiling/server.rs:{line}")), "{error}");
    drop(session);
    // A failed capture leaves no folder.
    assert_eq!(std::fs::read_dir(dir.path().join("plugins/profile")).expect("runs").count(), 0);
    Ok(())
}

#[test]
fn wrong_captures_are_errors() {
    let dir = tempfile::tempdir().expect("a folder");
    let second = Duration::from_secs(1);
    let message = |error: Result<PathBuf, Error>| error.unwrap_err().to_string();
    let none: [&str; 0] = [];
    assert!(message(capture_all(&none, second, dir.path())).contains("no addresses"));
    let text = message(capture("localhost:1", Duration::ZERO, dir.path()));
    assert!(text.contains("0.000 s") && text.contains("600 s"), "{text}");
    let text = message(capture("localhost:1", Duration::from_secs(601), dir.path()));
    assert!(text.contains("601.000 s"), "{text}");
    let text = message(capture("no address", second, dir.path()));
    assert!(text.contains("HOST:PORT"), "{text}");
    // A server of something else.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let other = std::thread::spawn(move || drop(listener.accept()));
    let text = message(capture(&address, Duration::from_millis(10), dir.path()));
    assert!(text.contains(&address) && text.contains("start_server"), "{text}");
    other.join().expect("a thread that does not panic");
}

#[test]
fn a_port_is_free_after_its_server() -> Result<(), Error> {
    let server = start_server(0)?;
    let address = server.address();
    let error = ProfilerServer::bind(address).unwrap_err().to_string();
    assert!(error.contains("another program has this port"), "{error}");
    drop(server);
    assert_eq!(start_server(address.port())?.address(), address);
    Ok(())
}
