//! The profiler of libtpu: without a TPU, it records the compiler's work on the host.

use super::f32s;
use oxidax::prelude::*;
use oxidax::profile::{EventKind, ProfileSession};
use std::fs;
use std::path::Path;

#[test]
#[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
fn compilation_for_a_tpu_is_in_the_profile() {
    let v5e = Topology::named("v5e:1x1").unwrap();
    let lowered = jit(|x: Array| tanh(x.matmul(&x))).lower(f32s([256, 256])).unwrap();
    // XProf opens it later.
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tpu-profile");
    drop(fs::remove_dir_all(&dir));
    let record = || {
        let session = ProfileSession::start().unwrap();
        lowered.compile_for(&v5e).unwrap();
        session.stop()
    };
    // Another profile starts after the first one has stopped.
    record();
    let profile = record();
    assert!(profile.events().any(|event| event.kind == EventKind::Compile), "{profile}");
    assert!(profile.devices().is_empty(), "{:?}", profile.devices());
    let run = profile.save(&dir).unwrap();
    let files = fs::read_dir(run).unwrap().map(|file| file.unwrap().path());
    let space = files.into_iter().find(|path| path.to_string_lossy().ends_with(".xplane.pb"));
    let space = fs::read(space.unwrap()).unwrap();
    let contains = |text: &str| space.windows(text.len()).any(|part| part == text.as_bytes());
    // The optimized program, for XProf's graph and memory viewers, and a pass of the compiler.
    assert!(contains("/host:metadata") && contains("Hlo Proto"));
    assert!(contains("RunInvariantCheckers"));
    // There is one plane of the host, with our events and the compiler's.
    assert_eq!(space.windows(9).filter(|part| part == b"/host:CPU").count(), 1);
}
