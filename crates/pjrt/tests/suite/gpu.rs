//! Compilation of programs for GPUs, without a GPU. Requires the CUDA plugin and its compiler
//! tools: `oxidax plugin install cuda`.

use oxidax_pjrt::{
    Client, CompileOptions, NamedValue, PjrtProgram, PjrtValue, Plugin, TopologyDescription,
};
use oxidax_plugin::{Config, Platform, Silent, find};

use crate::profiler;

fn cuda() -> Plugin {
    let config = Config::from_env().expect("the environment makes sense");
    let found = find(Platform::Cuda, &config, &mut Silent).expect("the cache is in order");
    let found = found.expect("`oxidax plugin install cuda` installs the plugin for these tests");
    Plugin::load(&found.path).expect("loads")
}

/// A training step of a perceptron: two layers, a softmax, gradients of both layers' weights, and
/// an in-place update.
const MLP: &str = "func.func public @main(
      %x: tensor<128x784xf32>, %y: tensor<128x10xf32>,
      %w: tensor<784x512xf32> {tf.aliasing_output = 0 : i32}, %v: tensor<512x10xf32> {tf.aliasing_output = 1 : i32})
      -> (tensor<784x512xf32>, tensor<512x10xf32>, tensor<f32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %a = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<128x784xf32>, tensor<784x512xf32>) -> tensor<128x512xf32>
    %h = stablehlo.tanh %a : tensor<128x512xf32>
    %z = stablehlo.dot_general %h, %v, contracting_dims = [1] x [0] : (tensor<128x512xf32>, tensor<512x10xf32>) -> tensor<128x10xf32>
    %m = stablehlo.reduce(%z init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<128x10xf32>, tensor<f32>) -> tensor<128xf32>
    %mb = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<128xf32>) -> tensor<128x10xf32>
    %d = stablehlo.subtract %z, %mb : tensor<128x10xf32>
    %e = stablehlo.exponential %d : tensor<128x10xf32>
    %s = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<128x10xf32>, tensor<f32>) -> tensor<128xf32>
    %sb = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<128xf32>) -> tensor<128x10xf32>
    %p = stablehlo.divide %e, %sb : tensor<128x10xf32>
    %lp = stablehlo.log %p : tensor<128x10xf32>
    %ly = stablehlo.multiply %lp, %y : tensor<128x10xf32>
    %sum = stablehlo.reduce(%ly init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<128x10xf32>, tensor<f32>) -> tensor<f32>
    %loss = stablehlo.negate %sum : tensor<f32>
    %dz = stablehlo.subtract %p, %y : tensor<128x10xf32>
    %dv = stablehlo.dot_general %h, %dz, contracting_dims = [0] x [0] : (tensor<128x512xf32>, tensor<128x10xf32>) -> tensor<512x10xf32>
    %dh = stablehlo.dot_general %dz, %v, contracting_dims = [1] x [1] : (tensor<128x10xf32>, tensor<512x10xf32>) -> tensor<128x512xf32>
    %hh = stablehlo.multiply %h, %h : tensor<128x512xf32>
    %one = stablehlo.constant dense<1.0> : tensor<128x512xf32>
    %slope = stablehlo.subtract %one, %hh : tensor<128x512xf32>
    %da = stablehlo.multiply %dh, %slope : tensor<128x512xf32>
    %dw = stablehlo.dot_general %x, %da, contracting_dims = [0] x [0] : (tensor<128x784xf32>, tensor<128x512xf32>) -> tensor<784x512xf32>
    %w1 = stablehlo.subtract %w, %dw : tensor<784x512xf32>
    %v1 = stablehlo.subtract %v, %dv : tensor<512x10xf32>
    return %w1, %v1, %loss : tensor<784x512xf32>, tensor<512x10xf32>, tensor<f32> }";

/// A convolution, a sort, random bits and 8-bit floats.
const OTHERS: &str = "func.func public @main(%x: tensor<8x32x32x16xbf16>, %k: tensor<3x3x16x32xbf16>, %q: tensor<32x32xf8E4M3FN>, %state: tensor<2xui64>)
      -> (tensor<8x32x32x32xbf16>, tensor<1024xf32>, tensor<32x32xf32>, tensor<2xui64>) {
    %c = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]]}
      {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<8x32x32x16xbf16>, tensor<3x3x16x32xbf16>) -> tensor<8x32x32x32xbf16>
    %new, %bits = stablehlo.rng_bit_generator %state, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<1024xui32>)
    %u = stablehlo.convert %bits : (tensor<1024xui32>) -> tensor<1024xf32>
    %sorted = \"stablehlo.sort\"(%u) <{dimension = 0 : i64, is_stable = true}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %less = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %less : tensor<i1> }) : (tensor<1024xf32>) -> tensor<1024xf32>
    %d = stablehlo.dot_general %q, %q, contracting_dims = [1] x [0] : (tensor<32x32xf8E4M3FN>, tensor<32x32xf8E4M3FN>) -> tensor<32x32xf32>
    return %c, %sorted, %d, %new : tensor<8x32x32x32xbf16>, tensor<1024xf32>, tensor<32x32xf32>, tensor<2xui64> }";

/// A program partitioned over eight devices, with an explicit collective.
const SPREAD: &str = "module @spread attributes {mhlo.num_partitions = 8 : i32} {
    sdy.mesh @mesh = <[\"data\"=8]>
    func.func public @main(%x: tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"data\"}, {}]>},
                           %w: tensor<256x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"data\"}, {}]>})
        -> (tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"data\"}, {}]>}) {
      %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x256xf32>, tensor<256x256xf32>) -> tensor<64x256xf32>
      %1 = stablehlo.tanh %0 : tensor<64x256xf32>
      return %1 : tensor<64x256xf32> } }";

fn compile(
    topology: &TopologyDescription,
    text: &str,
    options: &CompileOptions,
) -> oxidax_pjrt::Executable {
    let program = PjrtProgram::mlir(text).expect("accepted");
    topology.compile(&program, options).expect("compiled")
}

#[test]
#[ignore = "needs the CUDA plugin: `cargo xtask gpu` runs it"]
fn gpus_have_short_names() {
    for (kind, name, compute) in [
        ("h100", "NVIDIA H100 80GB HBM3", "9.0"),
        ("H200", "NVIDIA H200 141GB HBM3e", "9.0"),
        ("a100", "NVIDIA A100-SXM4-80GB", "8.0"),
        ("NVIDIA B200", "NVIDIA B200", "10.0"),
    ] {
        let topology = TopologyDescription::of_gpus(cuda(), kind, 2).expect(kind);
        assert_eq!(topology.platform_name().expect("known"), "cuda");
        let devices = topology.devices().expect("known");
        assert_eq!(devices.len(), 2);
        assert_eq!(devices[1].kind, name);
        let capability = devices[0].attributes.iter().find(|a| a.name == "compute_capability");
        assert_eq!(capability.map(|c| &c.value), Some(&PjrtValue::String(compute.to_owned())));
    }
    let error =
        TopologyDescription::of_gpus(cuda(), "h300", 1).expect_err("not there yet").to_string();
    assert!(error.contains("describes no GPU `h300`; short names"), "{error}");
    assert!(error.contains("h100, ") && error.contains("NVIDIA H100 PCIe"), "{error}");
    assert!(TopologyDescription::of_gpus(cuda(), "h100", 0).is_err());
}

#[test]
#[ignore = "needs the CUDA plugin: `cargo xtask gpu` runs it"]
fn programs_compile_for_absent_gpus() {
    for kind in ["h100", "h200"] {
        let one = TopologyDescription::of_gpus(cuda(), kind, 1).expect("described");
        let mlp = compile(&one, MLP, &CompileOptions::default());
        assert_eq!(mlp.results().expect("known").len(), 3);
        let memory = mlp.memory_stats().expect("known");
        // Both weights are updated in place.
        assert_eq!(memory.aliased, 4 * (784 * 512 + 512 * 10));
        assert!(mlp.serialize().expect("serialized").len() > 10_000);
        compile(&one, OTHERS, &CompileOptions::default());
    }
}

#[test]
#[ignore = "needs the CUDA plugin: `cargo xtask gpu` runs it"]
fn programs_compile_for_eight_gpus() {
    let eight = TopologyDescription::of_gpus(cuda(), "h100", 8).expect("described");
    let spread = compile(&eight, SPREAD, &CompileOptions::spmd(8));
    assert_eq!(spread.num_partitions().expect("known"), 8);
    assert_eq!(spread.results().expect("known")[0].to_string(), "f32[8,256]");
}

/// The plugin rejects unknown options before it searches for a GPU.
#[test]
#[ignore = "needs the CUDA plugin: `cargo xtask gpu` runs it"]
fn known_options_are_accepted_without_a_gpu() {
    let client = |options: &[NamedValue]| {
        Client::new(cuda(), options).expect_err("there is no GPU here").to_string()
    };
    let error = client(&[
        NamedValue::new("preallocate", false),
        NamedValue::new("memory_fraction", 0.5f32),
        NamedValue::new("allocator", "cuda_async"),
        NamedValue::new("visible_devices", PjrtValue::Int64List(vec![0])),
    ]);
    assert!(error.contains("No visible GPU devices"), "{error}");
    let error = client(&[NamedValue::new("allocator", "nonsense")]);
    assert!(error.contains("'bfc', 'cuda_async'"), "{error}");
}

#[test]
#[ignore = "needs the CUDA plugin: `cargo xtask gpu` runs it"]
fn profiler_starts_and_stops_without_a_gpu() {
    let space = profiler::record(cuda(), || ());
    assert!(profiler::contains(&space, "/host:metadata"), "{space:?}");
}
