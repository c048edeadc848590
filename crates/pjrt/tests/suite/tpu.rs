//! Compilation of programs for TPUs, without a TPU. Requires libtpu: `oxidax plugin install tpu`.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use oxidax_pjrt::{
    CompileOptions, HloSharding, NamedValue, PjrtProgram, PjrtValue, Plugin, TopologyDescription,
};
use oxidax_plugin::{Config, Platform, Silent, find};

use crate::profiler;

fn libtpu() -> Plugin {
    let config = Config::from_env().expect("the environment makes sense");
    let found = find(Platform::Tpu, &config, &mut Silent).expect("the cache is in order");
    let found = found.expect("`oxidax plugin install tpu` installs libtpu for these tests");
    Plugin::load(&found.path).expect("loads")
}

#[test]
#[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
fn topologies_have_names() {
    let topology = TopologyDescription::named(libtpu(), "v5e:4x4", &[]).expect("known");
    assert_eq!(topology.platform_name().expect("known"), "tpu");
    let devices = topology.devices().expect("known");
    assert_eq!(devices.len(), 16);
    assert!(devices.iter().all(|device| device.kind == "TPU v5 lite"), "{:?}", devices[0]);
    let coordinates = devices[0].attributes.iter().find(|attribute| attribute.name == "coords");
    assert!(
        matches!(coordinates.map(|c| &c.value), Some(PjrtValue::Int64List(list)) if list.len() == 3)
    );

    let bytes = topology.serialize().expect("serialized");
    let again = TopologyDescription::deserialize(libtpu(), &bytes).expect("the same");
    assert_eq!(again.devices().expect("known"), devices);

    let slices = [NamedValue::new("num_slices", 2)];
    let two = TopologyDescription::named(libtpu(), "v5e:2x2", &slices).expect("known");
    assert_eq!(two.devices().expect("known").len(), 8);
    for name in ["v99:2x2", "v5e:2x", "v5e:3x5"] {
        assert!(TopologyDescription::named(libtpu(), name, &[]).is_err(), "{name}");
    }
    assert!(TopologyDescription::deserialize(libtpu(), b"no topology").is_err());
}

#[test]
#[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
fn programs_compile_for_absent_devices() {
    let topology = TopologyDescription::named(libtpu(), "v5e:2x2", &[]).expect("known");
    let text = r#"module @matmul attributes {mhlo.num_partitions = 4 : i32} {
      sdy.mesh @mesh = <["data"=4]>
      func.func public @main(%x: tensor<64x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>},
                             %w: tensor<16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>})
          -> (tensor<64x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) {
        %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x16xf32>, tensor<16x16xf32>) -> tensor<64x16xf32>
        return %0 : tensor<64x16xf32> } }"#;
    let program = PjrtProgram::mlir(text).expect("accepted");
    let executable = topology.compile(&program, &CompileOptions::spmd(4)).expect("compiled");
    assert_eq!(executable.num_partitions().expect("known"), 4);
    assert_eq!(executable.results().expect("known")[0].to_string(), "f32[16,16]");
    let costs = executable.cost_analysis().expect("TPUs tell");
    assert!(costs.iter().any(|cost| cost.name == "flops"), "{costs:?}");
    assert!(executable.memory_stats().expect("known").results > 0);
    assert!(!executable.serialize().expect("serialized").is_empty());
    let shardings = executable.parameter_shardings().expect("known").expect("there are some");
    assert!(
        matches!(&shardings[0], HloSharding::Tiled { tiles, .. } if tiles == &[4, 1]),
        "{shardings:?}"
    );
    assert_eq!(shardings[1], HloSharding::Replicated);
}

#[test]
#[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
fn a_program_that_exceeds_the_memory_is_an_error() {
    let topology = TopologyDescription::named(libtpu(), "v5e:1x1", &[]).expect("known");
    let compile = |text: &str| {
        topology.compile(&PjrtProgram::mlir(text).expect("accepted"), &CompileOptions::default())
    };
    let big = "func.func @main(%x: tensor<100000x100000xf32>) -> tensor<100000x100000xf32> {
        %0 = stablehlo.tanh %x : tensor<100000x100000xf32>
        return %0 : tensor<100000x100000xf32> }";
    let error = compile(big).expect_err("80 GB do not fit in 16");
    assert_eq!(error.code(), Some(oxidax_pjrt::Code::ResourceExhausted), "{error}");
    assert!(compile("func.func @main() { return %x }").is_err());
    let program = PjrtProgram::mlir("func.func @main() { return }").expect("accepted");
    let options = CompileOptions { num_partitions: 2, ..CompileOptions::default() };
    let error = topology.compile(&program, &options).expect_err("one device");
    assert!(error.to_string().contains("the topology has 1"), "{error}");
    let client = oxidax_pjrt::Client::new(libtpu(), &[]);
    assert!(client.is_err(), "there is no TPU here");
}

/// The folder in which two processes synchronize. It is set for the processes that [`start`] starts
/// from this binary.
const MEETING: &str = "OXIDAX_TEST_TPU_MEETING";

/// Runs one of the tests below in a separate process.
fn start(test: &str, meeting: &Path) -> std::process::Child {
    let this = std::env::current_exe().expect("this program");
    let mut command = Command::new(this);
    command
        .args(["--exact", &format!("tpu::{test}"), "--ignored", "--nocapture"])
        .env(MEETING, meeting);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("started")
}

/// Asserts that the output contains only lines of the test harness.
fn assert_quiet(output: &Output) {
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|o| String::from_utf8_lossy(o));
    assert!(output.status.success(), "{}\n{stdout}\n{stderr}", output.status);
    assert_eq!(stderr, "");
    let own = |line: &&str| {
        !line.is_empty()
            && !["running 1 test", "test tpu::", "test result: ok", "ok"]
                .iter()
                .any(|p| line.starts_with(p))
    };
    assert_eq!(stdout.lines().filter(own).collect::<Vec<_>>(), Vec::<&str>::new());
}

#[test]
#[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
fn two_processes_compile_at_the_same_time() {
    let meeting = tempfile::tempdir().expect("a folder");
    let both = [(); 2].map(|()| start("one_of_two_processes", meeting.path()));
    let ids = both.each_ref().map(std::process::Child::id);
    for process in both {
        assert_quiet(&process.wait_with_output().expect("ended"));
    }
    for folder in ["/tmp", "/tmp/tpu_logs"] {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let left = ids.iter().any(|id| name.ends_with(&format!(".{id}")));
            assert!(!left, "{folder}/{name} was left behind");
        }
    }
}

/// Loads libtpu, waits until the other process has loaded it, and compiles.
#[test]
#[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
fn one_of_two_processes() {
    let Some(meeting) = std::env::var_os(MEETING) else { return };
    let plugin = libtpu();
    let mine = Path::new(&meeting).join(std::process::id().to_string());
    std::fs::write(mine, "").expect("written");
    let present = || std::fs::read_dir(&meeting).expect("readable").count();
    // Waits at most one minute, because the other process may have failed.
    let met = (0..6000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        present() == 2
    });
    assert!(met, "the other process did not load libtpu");
    let topology = TopologyDescription::named(plugin, "v6e:2x4", &[]).expect("known");
    let program = PjrtProgram::mlir("func.func @main() { return }").expect("accepted");
    topology.compile(&program, &CompileOptions::default()).expect("compiled");
}

#[test]
#[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
fn the_environment_is_restored() {
    libtpu();
    for name in ["TPU_SKIP_MDS_QUERY", "TPU_WORKER_ID", "TPU_WORKER_HOSTNAMES", "LIBTPU_INIT_ARGS"]
    {
        assert_eq!(std::env::var_os(name), None, "{name}");
    }
}

#[test]
#[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
fn signals_stay_with_the_program() {
    libtpu();
    // Fields of the kernel's status of this process: bit 14 of the masks is SIGTERM.
    let status = std::fs::read_to_string("/proc/self/status").expect("readable");
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("listed");
    let caught = u64::from_str_radix(caught.trim(), 16).expect("hexadecimal");
    assert_eq!(caught & (1 << 14), 0, "libtpu catches SIGTERM: {caught:x}");
}

/// Up to v4 and in tpu7x, each of a chip's two cores is a device.
#[test]
#[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
fn every_generation_has_topologies() {
    for (name, devices) in [
        ("v2:2x2", 8),
        ("v3:2x2", 8),
        ("v4:4x4x4", 128),
        ("v5e:16x16", 256),
        ("v5p:4x4x8", 128),
        ("v6e:16x16", 256),
        ("tpu7x:2x2x1", 8),
    ] {
        let topology = TopologyDescription::named(libtpu(), name, &[]).expect(name);
        assert_eq!(topology.devices().expect("known").len(), devices, "{name}");
    }
}

#[test]
#[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
fn profiler_records_the_compiler() {
    let topology = TopologyDescription::named(libtpu(), "v5e:2x2", &[]).expect("known");
    let text = "func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
        %0 = stablehlo.add %x, %x : tensor<4xf32>
        return %0 : tensor<4xf32> }";
    let program = PjrtProgram::mlir(text).expect("accepted");
    let space = profiler::record(libtpu(), || {
        topology.compile(&program, &CompileOptions::default()).expect("compiled");
    });
    // The planes of the host's threads and of the optimized programs, and a pass.
    for text in ["/host:CPU", "/host:metadata", "Hlo Proto", "RunInvariantCheckers"] {
        assert!(profiler::contains(&space, text), "no {text}");
    }
}
