//! Errors for a wrong plugin path. There is one client per process, so the errors are provoked in a
//! child process that runs this test binary.

use expect_test::expect;
use oxidax::prelude::*;
use oxidax_plugin::devices::{GpuHost, TpuHost};
use oxidax_plugin::{Config, Request, Stderr, find_or_install};
use std::path::Path;
use std::process::Command;

/// Environment variable of the child process: the path of a valid plugin.
const GOOD: &str = "OXIDAX_TEST_GOOD_PLUGIN";

/// Returns the output of the child process between its marks, with the scratch folder replaced by
/// `folder`.
fn report(plugin: &Path, folder: &Path, good: &Path) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "errors::plugin::on_cpu::child_process_with_wrong_plugin_path",
            "--nocapture",
        ])
        .env("OXIDAX_PLUGIN_CPU", plugin)
        .env("OXIDAX_PLATFORM", "cpu")
        .env(GOOD, good)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    let reported = text.split("<<<").skip(1).map(|part| part.split(">>>").next().unwrap());
    let text = reported.collect::<Vec<_>>().join("\n");
    text.replace(&folder.display().to_string(), "FOLDER")
}

mod on_cpu {
    use super::*;

    /// Does nothing unless another test runs it in a child process.
    #[test]
    fn child_process_with_wrong_plugin_path() {
        let Some(good) = std::env::var_os(GOOD) else { return };
        let plugin = std::env::var_os("OXIDAX_PLUGIN_CPU").unwrap();
        let first = Array::from_slice(&[1.0f32], [1]).unwrap_err();
        eprint!("<<<{first}>>>");
        // The error is recoverable, tracing works without a plugin, and the error repeats.
        let program = make_program(|x: Array| sin(&x), Aval::new(DType::F32, [2])).unwrap();
        assert_eq!(program.eqns().len(), 1);
        let compiled = jit(|x: Array| sin(&x)).call(Array::of_type(Aval::new(DType::F32, [2])));
        assert_eq!(compiled.unwrap_err().to_string(), first.to_string());
        // After the path is corrected, the next call works.
        if Path::new(&plugin).exists() {
            std::fs::remove_file(&plugin).unwrap();
        }
        std::os::unix::fs::symlink(good, plugin).unwrap();
        let x = Array::from_slice(&[0.0f32], [1]).unwrap();
        assert_eq!(sin(&x).to_vec::<f32>().unwrap(), [0.0]);
    }

    #[test]
    fn wrong_plugin_path_is_named_and_recoverable() {
        let config = Config::from_env().unwrap();
        let good = find_or_install(&Request::default(), &config, &mut Stderr::new()).unwrap().path;
        let scratch = tempfile::tempdir().unwrap();
        let missing = scratch.path().join("missing.so");
        expect!["error[plugin]: OXIDAX_PLUGIN_CPU names the cpu plugin FOLDER/missing.so, which is not a readable file: No such file or directory (os error 2)"].assert_eq(&report(&missing, scratch.path(), &good));
        let text = scratch.path().join("text.so");
        std::fs::write(&text, "not a library").unwrap();
        expect!["error[plugin]: loading plugin FOLDER/text.so: it is not a shared library (no ELF header)"].assert_eq(&report(&text, scratch.path(), &good));
    }

    /// Environment variable of the child process that requests missing devices.
    const ABSENT: &str = "OXIDAX_TEST_ABSENT_PLATFORM";

    /// Does nothing unless another test runs it in a child process.
    #[test]
    fn child_process_without_devices() {
        if std::env::var_os(ABSENT).is_some() {
            eprint!("<<<{}>>>", Array::from_slice(&[1.0f32], [1]).unwrap_err());
        }
    }

    /// Does not load libtpu, which could wait for the network for minutes, and installs nothing.
    #[test]
    fn missing_platform_is_reported_without_loading_a_plugin() {
        let config = Config::from_env().unwrap();
        let empty = tempfile::tempdir().unwrap();
        for (platform, absent, expected) in [
            ("tpu", TpuHost::detect(&config).is_none(), "error[plugin]: this host has no TPU"),
            ("cuda", GpuHost::detect(&config).is_none(), "error[plugin]: this host has no"),
        ] {
            if !absent {
                continue;
            }
            let output = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "errors::plugin::on_cpu::child_process_without_devices"])
                .args(["--nocapture"])
                .env("OXIDAX_PLATFORM", platform)
                .env("OXIDAX_CACHE", empty.path())
                .env(ABSENT, platform)
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            let message = text.split("<<<").nth(1).unwrap_or(&text);
            assert!(message.starts_with(expected), "{text}");
            assert!(
                message.contains("OXIDAX_PLATFORM=cpu") || message.contains("driver"),
                "{text}"
            );
            assert_eq!(std::fs::read_dir(empty.path()).unwrap().count(), 0);
        }
    }
}
