//! Programs that call functions of the host, compiled for a topology.

use oxidax::core::HostArray;
use oxidax::debug::CallbackOptions;
use oxidax::prelude::*;

/// Compiles a program with prints, checks and callbacks for a topology: on one device, in a
/// `shard_map`, and partitioned by the compiler.
pub fn callbacks_compile(topology: &Topology, mesh: &Mesh) {
    let doubled = |x: &Array| {
        let on_host = |x: &[HostArray]| Ok(vec![x[0].clone()]);
        debug::pure_callback(on_host, &[x.aval().clone()], [x]).swap_remove(0)
    };
    let f = move |x: Array| {
        debug::print("{x:.2} of {sum}", [("x", &x), ("sum", &x.sum())]);
        debug::check(x.less(1.0), "{} is too large", [&x]);
        debug::print("no arrays", ());
        debug_print!("half {:.1}", &x * 0.5);
        let step = |i: Array, x: Array| {
            debug::print("step {}", [&i]);
            x + 1.0
        };
        fori_loop(0, 3, step, doubled(&x))
    };
    let x = Aval::new(DType::F32, [16, 4]);
    let compiled = jit(f).lower(x.clone()).unwrap().compile_for(topology).unwrap();
    assert!(compiled.as_text().unwrap().contains("ENTRY"));
    let ordered = jit(move |x: Array| {
        debug::print_with("{}", [&x], CallbackOptions { ordered: true });
        f(x)
    });
    ordered.lower(x.clone()).unwrap().compile_for(topology).unwrap();
    let mapped = shard_map(f, mesh).in_specs(p!["data"]).out_specs(p!["data"]);
    let mapped = jit(move |x: Array| mapped.apply(&x));
    mapped.lower(x.clone()).unwrap().compile_for(topology).unwrap();
    let sharded = jit(f).in_shardings(mesh.sharding(p!["data"]).unwrap());
    sharded.lower(x.clone()).unwrap().compile_for(topology).unwrap();
    let effects = |ordered: bool| {
        let options = CallbackOptions { ordered };
        let read = move |x: &Array| {
            let same = |x: &[HostArray]| Ok(vec![x[0].clone()]);
            debug::io_callback_with(same, &[x.aval().clone()], [x], options).swap_remove(0)
        };
        let f = move |x: Array| {
            debug::print_with("{}", [&x], options);
            let step = move |i: Array, x: Array| {
                debug::print_with("step {}", [&i], options);
                read(&x) + 1.0
            };
            let x = fori_loop(0, 3, step, read(&x));
            cond(gt(x.sum(), 0.0), move |x: Array| read(&x), |x: Array| x, &x)
        };
        let f = jit(f).in_shardings(mesh.sharding(p!["data"]).unwrap());
        f.lower(x.clone()).unwrap().compile_for(topology).unwrap()
    };
    effects(false);
    let text = effects(true).as_text().unwrap();
    assert!(text.contains("while"), "{text}");
}
