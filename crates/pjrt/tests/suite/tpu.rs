//! Programs for TPUs, compiled without one. Needs libtpu, named by `OXIDAX_TEST_LIBTPU`.
//!
//! On a machine without a TPU, libtpu asks the network for minutes what kind it is, unless the environment answers:
//! `TPU_ACCELERATOR_TYPE=v5litepod-4 TPU_WORKER_HOSTNAMES=localhost TPU_SKIP_MDS_QUERY=1`; any topology works with these.

use oxidax_pjrt::{CompileOptions, NamedValue, Plugin, Program, Sharding, Topology, Value};

/// Where libtpu is.
fn libtpu() -> Plugin {
    for variable in ["TPU_ACCELERATOR_TYPE", "TPU_WORKER_HOSTNAMES", "TPU_SKIP_MDS_QUERY"] {
        assert!(
            std::env::var_os(variable).is_some(),
            "set {variable}, as the head of this file says"
        );
    }
    let path = std::env::var_os("OXIDAX_TEST_LIBTPU").expect("set OXIDAX_TEST_LIBTPU to libtpu.so");
    Plugin::load(path.as_ref()).expect("loads")
}

#[test]
fn topologies_have_names() {
    let topology = Topology::named(libtpu(), "v5e:4x4", &[]).expect("known");
    assert_eq!(topology.platform_name().expect("known"), "tpu");
    let devices = topology.devices().expect("known");
    assert_eq!(devices.len(), 16);
    assert!(devices.iter().all(|device| device.kind == "TPU v5 lite"), "{:?}", devices[0]);
    let coordinates = devices[0].attributes.iter().find(|attribute| attribute.name == "coords");
    assert!(
        matches!(coordinates.map(|c| &c.value), Some(Value::Int64List(list)) if list.len() == 3)
    );

    let bytes = topology.serialize().expect("serialized");
    let again = Topology::deserialize(libtpu(), &bytes).expect("the same");
    assert_eq!(again.devices().expect("known"), devices);

    let slices = [NamedValue::new("num_slices", 2)];
    let two = Topology::named(libtpu(), "v5e:2x2", &slices).expect("known");
    assert_eq!(two.devices().expect("known").len(), 8);
    for name in ["v99:2x2", "v5e:2x", "v5e:3x5"] {
        assert!(Topology::named(libtpu(), name, &[]).is_err(), "{name}");
    }
    assert!(Topology::deserialize(libtpu(), b"no topology").is_err());
}

#[test]
fn programs_compile_for_absent_devices() {
    let topology = Topology::named(libtpu(), "v5e:2x2", &[]).expect("known");
    let text = r#"module @matmul attributes {mhlo.num_partitions = 4 : i32} {
      sdy.mesh @mesh = <["data"=4]>
      func.func public @main(%x: tensor<64x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>},
                             %w: tensor<16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>})
          -> (tensor<64x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) {
        %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x16xf32>, tensor<16x16xf32>) -> tensor<64x16xf32>
        return %0 : tensor<64x16xf32> } }"#;
    let program = Program::mlir(text).expect("accepted");
    let executable = topology.compile(&program, &CompileOptions::spmd(4)).expect("compiled");
    assert_eq!(executable.num_partitions().expect("known"), 4);
    assert_eq!(executable.results().expect("known")[0].to_string(), "f32[16,16]");
    let costs = executable.cost_analysis().expect("TPUs tell");
    assert!(costs.iter().any(|cost| cost.name == "flops"), "{costs:?}");
    assert!(executable.memory_stats().expect("known").results > 0);
    assert!(!executable.serialize().expect("serialized").is_empty());
    let shardings = executable.parameter_shardings().expect("known").expect("there are some");
    assert!(
        matches!(&shardings[0], Sharding::Tiled { tiles, .. } if tiles == &[4, 1]),
        "{shardings:?}"
    );
    assert_eq!(shardings[1], Sharding::Replicated);
}

#[test]
fn what_does_not_fit_is_an_error() {
    let topology = Topology::named(libtpu(), "v5e:1x1", &[]).expect("known");
    let compile = |text: &str| {
        topology.compile(&Program::mlir(text).expect("accepted"), &CompileOptions::default())
    };
    let big = "func.func @main(%x: tensor<100000x100000xf32>) -> tensor<100000x100000xf32> {
        %0 = stablehlo.tanh %x : tensor<100000x100000xf32>
        return %0 : tensor<100000x100000xf32> }";
    let error = compile(big).expect_err("80 GB do not fit in 16");
    assert_eq!(error.code(), Some(oxidax_pjrt::Code::ResourceExhausted), "{error}");
    assert!(compile("func.func @main() { return %x }").is_err());
    let program = Program::mlir("func.func @main() { return }").expect("accepted");
    let options = CompileOptions { num_partitions: 2, ..CompileOptions::default() };
    let error = topology.compile(&program, &options).expect_err("one device");
    assert!(error.to_string().contains("the topology has 1"), "{error}");
    let client = oxidax_pjrt::Client::new(libtpu(), &[]);
    assert!(client.is_err(), "there is no TPU here");
}
