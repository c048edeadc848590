//! Attributes for XLA: scopes, calls, scheduling groups and compute types.

use oxidax::control_flow::{
    ComputeType, compute_on, compute_on2, scheduling_group, set_xla_metadata, xla_metadata_call,
};
use oxidax::prelude::*;

/// Returns the StableHLO of `f` for vectors of four elements.
fn text(f: impl Fn(Array) -> Array + Send + Sync, platform: &str) -> String {
    let lowered = jit(f).lower(Aval::new(DType::F32, [4])).unwrap();
    lowered.as_text(platform).unwrap()
}

/// Returns the attributes of the first operation with this name.
fn attributes(text: &str, operation: &str) -> String {
    let line = text.lines().find(|line| line.contains(operation)).expect("the operation is there");
    let parts = line.split_once("mhlo.frontend_attributes = {");
    parts.and_then(|(_, rest)| rest.split_once('}')).map_or(String::new(), |(a, _)| a.to_owned())
}

#[test]
fn scopes_nest_and_reach_into_loops() {
    let f = |x: Array| {
        let inner = set_xla_metadata([("a", "1"), ("b", "out")], || {
            let x = cos(&x);
            let y = set_xla_metadata([("b", "in"), ("c", "\"")], || sin(&x));
            scan(|c: Array, y: Array| (tanh(&c) + y, ()), scalar(0.0), y).0
        });
        exp(&inner)
    };
    let text = text(f, "tpu");
    assert_eq!(attributes(&text, "stablehlo.cosine"), "a = \"1\", b = \"out\"");
    assert_eq!(attributes(&text, "stablehlo.sine"), "a = \"1\", b = \"in\", c = \"\\22\"");
    assert_eq!(attributes(&text, "stablehlo.tanh"), "a = \"1\", b = \"out\"");
    assert_eq!(attributes(&text, "stablehlo.exponential"), "");
    // The counter of the loop is not an operation of the program.
    assert_eq!(attributes(&text, "stablehlo.return"), "");
}

#[test]
fn functions_inside_a_scope_are_not_shared_with_others() {
    let layer = jit(|x: Array| sin(&x));
    let f = move |x: Array| {
        let marked = set_xla_metadata([("mark", "m")], || layer.apply(x));
        layer.apply(marked)
    };
    let text = text(f, "tpu");
    let sines: Vec<bool> = text
        .lines()
        .filter(|line| line.contains("stablehlo.sine"))
        .map(|line| line.contains("mark"))
        .collect();
    assert_eq!(sines, [true, false], "{text}");
}

#[test]
fn calls_and_groups_have_the_attributes_on_the_call() {
    let call = xla_metadata_call(|x: &Array| sin(x) * 2.0, [("mark", "m")]);
    let once = text(move |x: Array| call(&x), "tpu");
    assert_eq!(attributes(&once, "func.call"), "mark = \"m\"");
    assert_eq!(attributes(&once, "stablehlo.sine"), "");
    let group = scheduling_group(|x: &Array| sin(x), "step:0");
    let batched = text(move |x: Array| vmap(|x: Array| group(&x)).apply(x), "tpu");
    assert_eq!(attributes(&batched, "func.call"), "scheduling_group = \"step:0\"");
}

#[test]
fn compute_types_have_the_names_of_the_compiler() {
    let of = |ty: ComputeType, operation: &str| {
        attributes(&text(move |x: Array| compute_on(ty, || sin(&x)), "tpu"), operation)
    };
    assert_eq!(of(ComputeType::DeviceHost, "sine"), "_xla_compute_type = \"host\"");
    assert_eq!(of(ComputeType::Device, "sine"), "_xla_compute_type = \"dense\"");
    assert_eq!(of(ComputeType::TpuSparsecore, "sine"), "_xla_compute_type = \"sparse\"");
    let stream = "_xla_stream_annotation = \"1\", inlineable = \"false\"";
    assert_eq!(of(ComputeType::GpuStream(1), "func.call"), stream);
    let on_host = compute_on2(|x: &Array| sin(x), ComputeType::DeviceHost);
    let text = text(move |x: Array| on_host(&x), "tpu");
    assert_eq!(attributes(&text, "func.call"), "_xla_compute_type = \"host\"");
}

#[test]
fn programs_with_attributes_differ_and_parse() {
    let program = |mark: &str| {
        let mark = mark.to_owned();
        make_program(
            move |x: Array| set_xla_metadata([("mark", mark.clone())], || sin(&x)),
            Aval::new(DType::F32, [3]),
        )
        .unwrap()
    };
    let (a, b) = (program("a"), program("b"));
    assert_ne!(a, b);
    assert_eq!(parse_program(&a.to_string()).unwrap(), a);
}

mod on_cpu {
    use super::*;

    fn close(a: &Array, b: &Array) -> bool {
        allclose(a, b).item::<bool>().unwrap()
    }

    #[test]
    fn results_and_derivatives_are_unchanged() {
        let plain = |x: &Array| (sin(x) * x).sum();
        let x = array![0.5, 1.0, -2.0, 3.0];
        let expected = value_and_grad(plain)(&x);
        let marked = |x: &Array| set_xla_metadata([("mark", "m")], || plain(x));
        let on_host = |x: &Array| compute_on(ComputeType::DeviceHost, || plain(x));
        let called = xla_metadata_call(plain, [("mark", "m")]);
        let called = |x: &Array| called(x);
        let functions: [&(dyn Fn(&Array) -> Array + Sync); 3] = [&marked, &on_host, &called];
        for f in functions {
            let compiled = jit(|x: Array| value_and_grad(|x: &Array| f(x))(&x));
            let (value, slope) = compiled.call(&x).unwrap();
            assert!(close(&value, &expected.0) && close(&slope, &expected.1));
            assert!(close(&f(&x), &expected.0), "outside of a trace");
        }
        // Both halves of a linearization have the attributes.
        let text = text(move |x: Array| grad(|x: &Array| marked(x))(&x), "tpu");
        assert_eq!(attributes(&text, "stablehlo.cosine"), "mark = \"m\"");
    }
}
