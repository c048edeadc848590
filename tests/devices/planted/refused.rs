//! Exchanges inside `no_collectives` are errors at the user's line.

use super::mesh_of;
use oxidax::jit::Compiled;
use oxidax::prelude::*;

fn mesh() -> Mesh {
    mesh_of(&[("data", 8)])
}

fn rows() -> NamedSharding {
    mesh().sharding(p!["data"]).unwrap()
}

fn x() -> Aval {
    Aval::new(DType::F32, [16, 4])
}

/// Checks the error of compiling a function: its first line, the line of the user, and the cause.
fn check<O: Tree>(f: Jit<'_, (Array,), O>, line: u32, first: &str, cause: &str) {
    let refused = f.name("step").in_shardings(rows()).lower(x()).unwrap().compile();
    let refused = refused.map(|compiled| compiled.collectives().unwrap());
    let error = refused.unwrap_err();
    assert_eq!(error.code(), "collective");
    let text = error.to_string();
    assert!(
        text.starts_with(&format!("error[collective]: {first} inside `no_collectives`\n")),
        "{text}"
    );
    assert!(text.contains(&format!("\n  because {cause}\n")), "{text}");
    assert!(text.contains(&format!("\n   --> {}:{line}:", file!())), "{text}");
    assert!(text.contains("\n  while tracing: jit(step)\n  help: "), "{text}");
}

const SUMS: &str = "all-reduce of 16 B over `data` (8 devices)";

#[test]
fn errors_have_line_bytes_and_cause() {
    let f = jit(|x: Array| no_collectives(|| x.sum_axes([0])));
    let cause = "`reduce_sum` combines axis 0 of `$[0]`, which is split over `data`";
    check(f, line!() - 2, &format!("reduce_sum: {SUMS}"), cause);
    // The same operation outside is allowed.
    let f = jit(|x: Array| no_collectives(|| x.sum_axes([1])).sum() + x.sum_axes([0]));
    f.in_shardings(rows()).lower(x()).unwrap().compile().unwrap();
}

#[test]
fn derivatives_of_what_is_inside_are_inside() {
    let f = |w: Array, x: Array| {
        let inside = |w: &Array| no_collectives(|| x.matmul(w)).sum();
        grad(inside)(&w)
    };
    let line = line!() - 3;
    let f = jit(f).in_shardings((mesh().replicated(), rows()));
    let refused = f.lower(Aval::new(DType::F32, [4, 4]), x()).unwrap().compile();
    let text = refused.map(|_| ()).unwrap_err().to_string();
    assert!(text.contains("all-reduce of 64 B over `data` (8 devices)"), "{text}");
    assert!(text.contains(&format!("\n   --> {}:{line}:", file!())), "{text}");
    assert!(text.contains("axis 0 of `$[1]`, which is split over `data`"), "{text}");
}

#[test]
fn equal_programs_inside_and_outside_are_kept_apart() {
    fn sums(x: &Array) -> Array {
        let step = |x: Array| (&x - &x.mean_axes([0]), ());
        fori_loop(0, 2, |_: Array, x: Array| step(x).0, x)
    }
    let line = line!() - 3;
    let f = jit(|x: Array| (sums(&x), no_collectives(|| sums(&tanh(&x)))));
    let cause = "`reduce_sum` combines axis 0 of carry 0 of `scan`, which is split over `data`";
    check(f, line, &format!("reduce_sum: {SUMS}, 2 times"), cause);
}

#[test]
fn written_collectives_and_constraints_are_errors() {
    let sum = |x: Array| psum(&x, "data");
    let line = line!() - 1;
    let mapped = jit(move |x: Array| {
        let sum = shard_map(sum, &mesh()).in_specs(p!["data"]).out_specs(p![]);
        no_collectives(|| sum.apply(&x))
    });
    let cause = "`psum` over `data` is written there";
    check(mapped, line, "psum: all-reduce of 32 B over `data` (8 devices)", cause);
    // The value is computed outside, and moved inside.
    let moved = jit(|x: Array| {
        let x = tanh(&x);
        no_collectives(|| with_sharding_constraint(&x, mesh().replicated()))
    });
    let line = line!() - 2;
    let cause = format!(
        "the result of `tanh` at {}:{} is p![\"data\"] and `sharding_constraint` asks for p![]",
        file!(),
        line - 1
    );
    let first = "sharding_constraint: all-gather of 256 B over `data` (8 devices)";
    check(moved, line, first, &cause);
}

#[test]
fn whole_functions_refuse_moved_results() {
    let f = jit(|x: Array| tanh(&x)).no_collectives().out_shardings(mesh().replicated());
    let cause = "result `$` is p![\"data\"] and `out_shardings` asks for p![]";
    check(f, line!() - 2, "step: all-gather of 256 B over `data` (8 devices)", cause);
}

#[test]
fn calls_donate_nothing_and_fail_again() {
    let f = jit(|x: Array| no_collectives(|| x.sum_axes([0])));
    let mut x = device_put(&ones([16, 4]), rows()).unwrap();
    for _ in 0..2 {
        let failed = f.call(x).unwrap_err();
        assert_eq!(failed.error.code(), "collective");
        x = failed.args.0.unwrap();
        assert_eq!(x.sum().item::<f32>().unwrap(), 64.0);
    }
    // On one device nothing moves.
    assert_eq!(f.call(ones([16, 4])).unwrap().to_vec::<f32>().unwrap(), [16.0; 4]);
}

#[test]
fn serialized_functions_are_explained() {
    let f = jit(|x: Array| x.sum_axes([0])).in_shardings(rows());
    let compiled = f.lower(x()).unwrap().compile().unwrap();
    let bytes = compiled.serialize().unwrap();
    let result = Aval::new(DType::F32, [4]);
    let loaded = Compiled::<(Array,), Array>::deserialize(&bytes, x(), result).unwrap();
    let [of_compiled, of_loaded] = [&compiled, &loaded].map(|it| it.collectives().unwrap());
    assert_eq!((of_loaded.len(), of_loaded[0].place.clone()), (1, of_compiled[0].place.clone()));
}

#[test]
fn operations_outside_of_jit_are_errors_too() {
    let x = device_put(&ones([16, 4]), rows()).unwrap();
    // Each device has whole rows.
    assert_eq!(no_collectives(|| x.sum_axes([1])).shape().dims(), [16]);
    let refused = |f: &dyn Fn() -> Array, bytes: u32, line: u32| {
        let error = oxidax::catch(|| no_collectives(f)).unwrap_err();
        assert_eq!(error.code(), "collective");
        let text = error.to_string();
        let moved = format!("all-reduce of {bytes} B over `data` (8 devices) inside");
        assert!(text.contains(&moved), "{text}");
        assert!(text.contains(&format!("{}:{line}", file!())), "{text}");
    };
    refused(&|| x.sum_axes([0]), 16, line!());
    // The derivative of a sum over the batch.
    let w = ones([4]);
    let (loss, line) = (|w: &Array| tanh(x.matmul(w)).sum(), line!());
    let slope = || grad(|w: &Array| loss(w))(&w);
    refused(&slope, 20, line);
    // Nothing was cached that refuses.
    assert_eq!(x.sum_axes([0]).to_vec::<f32>().unwrap(), [16.0; 4]);
    assert_eq!(slope().shape().dims(), [4]);
}
