//! Recording devices through the profiler extension. No device is needed: what plugins record of
//! their own work on the host passes through the same functions.

use oxidax_pjrt::{Error, Plugin, Profiler, ProfilerOptions};

use crate::plugins::{ALL, plugin};

#[test]
fn plugins_without_a_profiler_say_so() {
    for api in ALL {
        let refused = Profiler::start(plugin(api), &ProfilerOptions::default());
        let error = refused.expect_err("CPU plugins have none");
        assert!(matches!(error, Error::Missing { .. }), "{error}");
        assert!(error.to_string().contains("lacks PJRT_Profiler_Extension"), "{error}");
        assert!(Plugin::loaded().contains(&plugin(api)));
    }
}

/// Records several times, with `work` in between. Returns the last recording.
pub(crate) fn record(plugin: Plugin, work: impl Fn()) -> Vec<u8> {
    let options = ProfilerOptions::default();
    // One that is dropped is stopped: the next ones start.
    drop(Profiler::start(plugin, &options).expect("started"));
    let mut spaces = Vec::new();
    for _ in 0..2 {
        let profiler = Profiler::start(plugin, &options).expect("started");
        assert_eq!(profiler.plugin(), plugin);
        // Only one records at a time.
        let second = Profiler::start(plugin, &options).expect_err("one is running");
        assert!(second.code().is_some(), "{second}");
        work();
        spaces.push(profiler.stop().expect("recorded"));
    }
    spaces.pop().expect("two")
}

/// Returns true if the bytes contain this text.
pub(crate) fn contains(space: &[u8], text: &str) -> bool {
    space.windows(text.len()).any(|window| window == text.as_bytes())
}
