//! Tests of `oxidax plugin`.

use std::fs;
use std::path::PathBuf;

use crate::elf;
use crate::user::User;

/// Returns the line of the list that begins with this name.
fn line<'a>(list: &'a str, name: &str) -> &'a str {
    list.lines().find(|line| line.split_whitespace().next() == Some(name)).unwrap()
}

#[test]
fn a_new_user_sees_the_available_plugins() {
    let outcome = User::new().oxidax(&["plugin", "list"]);
    assert!(outcome.succeeded, "{}", outcome.stderr);
    let cpu = line(&outcome.stdout, "cpu");
    assert!(cpu.contains("lammps-jax-pjrt-cpu 0.11.2") && cpu.contains("0.115"), "{cpu}");
    for name in ["cpu", "tpu", "cuda"] {
        assert!(line(&outcome.stdout, name).contains("not installed"));
    }
}

#[test]
fn a_plugin_file_is_installed_listed_verified_replaced_and_removed() {
    let user = User::new();
    fs::write(user.path("my_cpu_plugin.so"), elf::plugin_library()).unwrap();
    let install = ["plugin", "install", "my_cpu_plugin.so"];

    let outcome = user.oxidax(&install);
    assert!(outcome.succeeded, "{}", outcome.stderr);
    let installed = PathBuf::from(outcome.stdout.trim_end());
    assert_eq!(installed, user.path(".cache/oxidax/plugins/local-cpu/my_cpu_plugin.so"));
    assert_eq!(fs::read(&installed).unwrap(), elf::plugin_library());

    let outcome = user.oxidax(&install);
    assert!(!outcome.succeeded);
    assert!(outcome.stderr.contains("installed already"), "{}", outcome.stderr);
    assert!(user.oxidax(&[&install[..], &["--force"]].concat()).succeeded);

    let list = user.oxidax(&["plugin", "list", "--verify"]);
    assert!(list.succeeded && line(&list.stdout, "local-cpu").contains("installed"));

    fs::write(&installed, b"half").unwrap();
    let list = user.oxidax(&["plugin", "list", "--verify"]);
    assert!(!list.succeeded);
    assert!(line(&list.stdout, "local-cpu").contains("damaged"), "{}", list.stdout);
    assert!(list.stderr.contains("damaged, and not used: local-cpu"), "{}", list.stderr);

    let outcome = user.oxidax(&["plugin", "remove", "local-cpu"]);
    assert!(outcome.succeeded && outcome.stdout.starts_with("removed "), "{}", outcome.stderr);
    assert!(!installed.exists());
    let outcome = user.oxidax(&["plugin", "remove", "local-cpu"]);
    assert!(outcome.stderr.contains("no installed plugin is called `local-cpu`"));
}

#[test]
fn a_file_name_without_a_platform_needs_the_option() {
    let user = User::new();
    fs::write(user.path("p.so"), elf::plugin_library()).unwrap();
    let outcome = user.oxidax(&["plugin", "install", "p.so"]);
    assert!(outcome.stderr.contains("which platform does p.so drive?"), "{}", outcome.stderr);
    assert!(user.oxidax(&["plugin", "install", "p.so", "--platform", "tpu"]).succeeded);
    let outcome = user.oxidax(&["plugin", "install", "p.so", "--platform", "gpu"]);
    assert!(outcome.stderr.contains("expected one of cpu, tpu, cuda"), "{}", outcome.stderr);
}

#[test]
fn an_unknown_name_lists_the_valid_names() {
    let outcome = User::new().oxidax(&["plugin", "install", "rocm"]);
    assert!(!outcome.succeeded);
    let expected = "`rocm` is neither a plugin's name (cpu, cpu-aarch64, tpu, cuda, cuda-ptxas, \
                    cuda-libdevice, cuda-mosaic, cpu-api-0.106, cpu-api-0.81)";
    assert!(outcome.stderr.contains(expected), "{}", outcome.stderr);
    let outcome = User::new().oxidax(&["plugin", "install", "cpu", "--platform", "tpu"]);
    assert!(outcome.stderr.contains("`cpu` is a plugin for cpu, not tpu"), "{}", outcome.stderr);
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn without_tools_or_offline_the_error_names_the_cause() {
    let user = User::new();
    let outcome = user.oxidax(&["plugin", "install", "tpu"]);
    assert!(outcome.stderr.contains("needs pip or uv"), "{}", outcome.stderr);
    let outcome = user.oxidax_with(&["plugin", "install", "tpu"], &[("OXIDAX_OFFLINE", "1")]);
    assert!(outcome.stderr.contains("OXIDAX_OFFLINE forbids fetching libtpu==0.0.51 (195.3 MiB)"));
    let outcome = user.oxidax_with(&["plugin", "list"], &[("OXIDAX_OFFLINE", "perhaps")]);
    assert!(outcome.stderr.contains("OXIDAX_OFFLINE is `perhaps`"), "{}", outcome.stderr);
}

mod on_cpu {
    use std::process::Command;

    use oxidax_plugin::{Config, Silent, install, pins};

    #[test]
    fn the_cpu_plugin_is_installed_and_intact() {
        let path = install(&pins::CPU, &Config::from_env().unwrap(), &mut Silent).unwrap();
        let oxidax = |arguments: &[&str]| {
            let output = Command::new(env!("CARGO_BIN_EXE_oxidax")).args(arguments).output();
            String::from_utf8(output.unwrap().stdout).unwrap()
        };
        let installed = oxidax(&["plugin", "install", "cpu"]);
        assert_eq!(installed.trim_end(), path.display().to_string());
        let list = oxidax(&["plugin", "list", "--verify"]);
        assert!(super::line(&list, "cpu").contains("installed  "), "{list}");
    }
}
