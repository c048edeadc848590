//! Serialization of compiled programs and topologies, and their properties.

use oxidax_pjrt::{
    Code, CompileOptions, Executable, ExecuteOptions, PjrtProgram, TopologyDescription,
};

use crate::execution::ADD;
use crate::plugins::{Api, client, compile, f32_buffer, f32_values, on_each};
use crate::sharded::MATMUL;

#[test]
fn a_serialized_program_runs_again() {
    on_each(|client, _| {
        let executable = compile(client, ADD);
        let bytes = executable.executable().serialize().expect("serialized");
        drop(executable);
        let loaded = client.load(&bytes, None, None).expect("loaded");
        assert_eq!(loaded.name(), "add");
        let types: Vec<_> = loaded.parameters().iter().map(ToString::to_string).collect();
        assert_eq!(types, ["f32[2]", "f32[2]"], "read from the compiled program");
        assert!(!loaded.is_portable());
        let x = f32_buffer(client, &[2], &[1.0, 2.0]);
        let results = loaded.execute(&[&x, &x], &ExecuteOptions::default()).expect("runs");
        assert_eq!(f32_values(&results[0]), [2.0, 4.0]);
        // A loaded program can be serialized again.
        let again = loaded.executable().serialize().expect("serialized");
        let again = client.load(&again, None, None).expect("loaded");
        let results = again.execute(&[&x, &x], &ExecuteOptions::default()).expect("runs");
        assert_eq!(f32_values(&results[0]), [2.0, 4.0]);
    });
}

#[test]
fn a_program_is_loaded_for_another_device() {
    on_each(|client, api| {
        let bytes = compile(client, ADD).executable().serialize().expect("serialized");
        let options = CompileOptions::on_device(3);
        let loaded = client.load(&bytes, None, Some(&options)).expect("loaded");
        let device = client.device(3).expect("exists");
        let x = f32_buffer(client, &[2], &[1.0, 2.0]).copy_to_device(&device).expect("copied");
        let results = loaded.execute(&[&x, &x], &ExecuteOptions::default()).expect("runs");
        assert_eq!(f32_values(&results[0]), [2.0, 4.0]);
        assert_eq!(results[0].device().id(), 3, "{api:?}");
        let far = CompileOptions::on_device(99);
        assert!(client.load(&bytes, None, Some(&far)).is_err());
    });
}

#[test]
fn a_portable_program_stays_portable() {
    on_each(|client, _| {
        let program = PjrtProgram::mlir(ADD).expect("accepted");
        let executable = client.compile(&program, &CompileOptions::portable()).expect("compiled");
        let bytes = executable.executable().serialize().expect("serialized");
        let loaded = client.load(&bytes, None, None).expect("loaded");
        assert!(loaded.is_portable());
        let device = client.device(3).expect("exists");
        let x = f32_buffer(client, &[2], &[1.0, 2.0]).copy_to_device(&device).expect("copied");
        let results =
            loaded.execute_on(&device, &[&x, &x], &ExecuteOptions::default()).expect("runs");
        assert_eq!(f32_values(&results[0]), [2.0, 4.0]);
    });
}

#[test]
fn damaged_bytes_are_errors() {
    on_each(|client, _| {
        let bytes = compile(client, ADD).executable().serialize().expect("serialized");
        for cut in [1, bytes.len() / 2, bytes.len() - 1] {
            assert!(
                client.load(&bytes[..cut], None, None).is_err(),
                "cut at {cut} of {}",
                bytes.len()
            );
        }
    });
}

#[test]
fn a_program_reports_its_properties() {
    on_each(|client, api| {
        let loaded = compile(client, ADD);
        let executable = loaded.executable();
        assert_eq!(executable.name().expect("named"), "add");
        assert_eq!(executable.num_replicas().expect("known"), 1);
        assert_eq!(executable.num_partitions().expect("known"), 1);
        let results: Vec<_> =
            executable.results().expect("known").iter().map(ToString::to_string).collect();
        assert_eq!(results, ["f32[2]"]);
        match executable.result_memory_kinds() {
            Ok(kinds) => assert_eq!(kinds, ["device"]),
            Err(error) => {
                assert_ne!(api, Api::V115, "{error}");
                assert_eq!(error.code(), Some(Code::Unimplemented));
            }
        }
        assert!(!executable.fingerprint().expect("has one").is_empty());
        assert!(executable.code_size().is_ok_and(|size| size >= 0));
        let (hlo, format) = executable.optimized_program().expect("known");
        assert!(!hlo.is_empty());
        assert_eq!(format, "hlo_with_config");
        let stats = executable.memory_stats().expect("known");
        assert_eq!(
            (stats.arguments, stats.results, stats.aliased),
            (16, 8, 0),
            "{api:?}: {stats:?}"
        );
        match executable.cost_analysis() {
            Ok(costs) => assert!(costs.iter().any(|cost| cost.name == "flops"), "{costs:?}"),
            Err(error) => assert_eq!(error.code(), Some(Code::Unimplemented), "{error}"),
        }
    });
}

#[test]
fn a_program_in_hlo_runs() {
    use oxidax_proto::{Message, messages};
    messages! {
        /// The message that the plugin returns; its first field is the module.
        struct WithConfig {
            module: Vec<u8> = 1,
        }
    }
    on_each(|client, _| {
        let (code, _) = compile(client, ADD).executable().optimized_program().expect("known");
        let module = WithConfig::decode(code.as_slice()).expect("a message").module;
        let program = PjrtProgram::hlo(module).expect("a module");
        let executable = client.compile(&program, &CompileOptions::default()).expect("compiled");
        let x = f32_buffer(client, &[2], &[1.0, 2.0]);
        let results = executable.execute(&[&x, &x], &ExecuteOptions::default()).expect("runs");
        assert_eq!(f32_values(&results[0]), [2.0, 4.0]);
    });
}

#[test]
fn the_clients_own_topology_compiles() {
    let client = client(Api::V115);
    let topology = client.topology().expect("has one");
    assert_eq!(topology.platform_name().expect("known"), "cpu");
    assert_eq!(topology.devices().expect("known").len(), 8);
    assert!(!topology.platform_version().expect("known").is_empty());
    topology.attributes().expect("a list, even if empty");
    let program = PjrtProgram::mlir(ADD).expect("accepted");
    let executable = topology.compile(&program, &CompileOptions::default()).expect("compiled");
    let loaded =
        client.load(&executable.serialize().expect("serialized"), None, None).expect("loaded");
    let x = f32_buffer(client, &[2], &[1.0, 2.0]);
    let results = loaded.execute(&[&x, &x], &ExecuteOptions::default()).expect("runs");
    assert_eq!(f32_values(&results[0]), [2.0, 4.0]);

    let many = CompileOptions { num_replicas: 9, ..CompileOptions::default() };
    let error = topology.compile(&program, &many).expect_err("too few devices");
    assert!(error.to_string().ends_with("needs 9 devices, the topology has 8"), "{error}");
    let bogus =
        topology.compile(&program, &CompileOptions::on_device(99)).expect_err("no such device");
    assert!(bogus.to_string().contains("has id 99"), "{bogus}");
}

#[test]
fn cpu_topologies_have_no_names() {
    on_each(|client, _| {
        assert!(TopologyDescription::named(client.plugin(), "v5e:4x4", &[]).is_err());
        assert!(TopologyDescription::deserialize(client.plugin(), b"no topology").is_err());
    });
}

#[test]
fn an_unsharded_program_reports_no_shardings() {
    on_each(|client, api| {
        let loaded = compile(client, ADD);
        match loaded.executable().parameter_shardings() {
            Ok(shardings) => assert_eq!(shardings, None),
            Err(error) => {
                assert_eq!(api, Api::V81, "{error}");
                let expected =
                    "plugin xla_cpu_pjrt.so (API 0.81) lacks PJRT_Shardings_ParameterShardings";
                assert_eq!(error.to_string(), expected);
            }
        }
    });
}

/// A loaded program reports the properties of the compiled program. Program caches rely on this.
#[test]
fn a_loaded_program_reports_the_properties_of_the_compiled_one() {
    const DONATING: &str = "module @d {
      func.func @main(%x: tensor<64xf32> {jax.buffer_donor = true}) -> tensor<64xf32> {
        %0 = stablehlo.add %x, %x : tensor<64xf32>
        return %0 : tensor<64xf32> } }";
    // Returns the value, or the status code of the error.
    fn outcome<T>(answer: oxidax_pjrt::Result<T>) -> Result<T, Option<Code>> {
        answer.map_err(|error| error.code())
    }
    on_each(|client, api| {
        let programs =
            [(DONATING, CompileOptions::default(), 256), (MATMUL, CompileOptions::spmd(8), 0)];
        for (text, options, aliased) in programs {
            let program = PjrtProgram::mlir(text).expect("accepted");
            let compiled = client.compile(&program, &options).expect("compiled");
            let bytes = compiled.executable().serialize().expect("serialized");
            let loaded = client.load(&bytes, None, None).expect("loaded");
            let (before, after) = (compiled.executable(), loaded.executable());
            assert_eq!(loaded.parameters(), compiled.parameters());
            assert_eq!(loaded.results(), compiled.results());
            assert_eq!(loaded.devices(), compiled.devices());
            assert_eq!(outcome(after.result_shardings()), outcome(before.result_shardings()));
            assert_eq!(outcome(after.result_memory_kinds()), outcome(before.result_memory_kinds()));
            let stats = after.memory_stats().expect("known");
            assert_eq!(stats, before.memory_stats().expect("known"));
            assert_eq!(stats.aliased, aliased, "{api:?}: {stats:?}");
            let costs = |executable: &Executable| outcome(executable.cost_analysis());
            assert_eq!(costs(after), costs(before));
            let opcodes = |executable: &Executable| -> Vec<String> {
                let found = executable.instructions().expect("known");
                found.into_iter().map(|instruction| instruction.opcode).collect()
            };
            assert_eq!(opcodes(after), opcodes(before));
        }
    });
}
