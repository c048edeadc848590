//! `vmap` with `spmd_axis_name`.

use super::{close, counting, mesh, values};
use oxidax::prelude::*;

#[test]
fn constraints_shard_the_batch() {
    let mesh = mesh([("data", 4), ("model", 2)]);
    let over_model = mesh.sharding(p!["model"]).unwrap();
    let one = move |x: Array| with_sharding_constraint(&sin(&x), &over_model);
    let x = counting(&[8, 4]);
    let sharded = one.clone();
    let batch = jit(move |x: Array| vmap(&sharded).spmd_axis_name("data").apply(&x));
    let y = batch.call(&x).unwrap();
    assert_eq!(y.sharding().unwrap().spec(), &p!["data", "model"]);
    close(&y, &sin(&x), 1e-6);
    // The batch is the second axis, and is sharded over two mesh axes.
    let replicated = mesh.sharding(p![]).unwrap();
    let whole = move |x: Array| with_sharding_constraint(&x, &replicated);
    let batch = jit(move |x: Array| {
        vmap(&whole).in_axes(1).out_axes(1).spmd_axis_name(["data", "model"]).apply(&x)
    });
    let y = batch.call(counting(&[4, 8])).unwrap();
    assert_eq!(y.sharding().unwrap().spec(), &p![None, ["data", "model"]]);
    // Without a name the batch is whole on each device.
    let batch = jit(move |x: Array| vmap(&one).apply(&x));
    assert_eq!(batch.call(&x).unwrap().sharding().unwrap().spec(), &p![None, "model"]);
}

#[test]
fn shard_map_gets_a_part_of_the_batch() {
    let mesh = mesh([("data", 4), ("model", 2)]);
    let (x, w, b) = (sin(counting(&[8, 6])), sin(counting(&[6, 3])), counting(&[3]));
    for check in [true, false] {
        let mesh = mesh.clone();
        // `w` is sharded, `b` is replicated, and neither is mapped.
        let layer = move |x: Array, w: Array, b: Array| {
            let partial = |x: Array, w: Array, b: Array| {
                let y = psum(&x.matmul(&w), "model") + &b;
                (y, (&b * &b).sum())
            };
            shard_map(partial, &mesh)
                .in_specs((p!["model"], p!["model"], p![]))
                .out_specs((p![], p![]))
                .check_varying(check)
                .apply(&x, &w, &b)
        };
        let spmd = layer.clone();
        let sharded = move |x: &Array, w: &Array, b: &Array| {
            let (y, z) = vmap(&spmd)
                .in_axes((0, None, None))
                .out_axes((0, None))
                .spmd_axis_name("data")
                .apply(x, w, b);
            (&y * &y).sum() + z
        };
        let plain = |x: &Array, w: &Array, b: &Array| {
            let y = x.matmul(w) + b;
            (&y * &y).sum() + (b * b).sum()
        };
        let run = sharded.clone();
        let loss = jit(move |x: Array, w: Array, b: Array| run(&x, &w, &b));
        close(&loss.call(&x, &w, &b).unwrap(), &plain(&x, &w, &b), 1e-3);
        let gradients = jit(move |x: Array, w: Array, b: Array| {
            (
                grad(|x: &Array| sharded(x, &w, &b))(&x),
                grad(|w: &Array| sharded(&x, w, &b))(&w),
                grad(|b: &Array| sharded(&x, &w, b))(&b),
            )
        });
        let (dx, dw, db) = gradients.call(&x, &w, &b).unwrap();
        close(&dx, &grad(|x: &Array| plain(x, &w, &b))(&x), 1e-3);
        close(&dw, &grad(|w: &Array| plain(&x, w, &b))(&w), 1e-3);
        close(&db, &grad(|b: &Array| plain(&x, &w, b))(&b), 1e-3);
    }
}

#[test]
fn each_device_runs_its_part_of_the_batch() {
    let mesh = mesh([("data", 4), ("model", 2)]);
    let one = move |x: Array| {
        let size = |x: Array| &x * 0.0 + psum(&ones([]), "model");
        shard_map(size, &mesh).in_specs(p!["model"]).out_specs(p!["model"]).apply(&x)
    };
    let batch = move |x: Array| vmap(&one).spmd_axis_name("data").apply(&x);
    let program = make_program(batch.clone(), Aval::new(DType::F32, [8, 4])).unwrap();
    // Two of eight examples on each device, and two of four columns.
    assert!(program.to_string().contains("f32[2,2]"), "{program}");
    assert_eq!(values(&batch(counting(&[8, 4]))), [2.0; 32]);
}

#[test]
fn mesh_axes_that_do_not_fit_are_refused() {
    let mesh = mesh([("data", 4), ("model", 2)]);
    let message = |spec: PartitionSpec, axis: &str, n: usize, f: fn(Array) -> Array| {
        let mesh = mesh.clone();
        let one = move |x: Array| {
            shard_map(f, &mesh).in_specs(spec.clone()).out_specs(spec.clone()).apply(&x)
        };
        let x = counting(&[n, 8]);
        let batch = vmap(one).axis_name("i").spmd_axis_name(axis);
        let error = oxidax::core::catch(|| batch.apply(&x)).unwrap_err().to_string();
        assert!(error.contains("spmd_axis.rs"), "{error}");
        error
    };
    let error = message(p!["data"], "data", 8, |x| x);
    assert!(error.contains("shards over it already"), "{error}");
    let error = message(p!["model"], "rows", 8, |x| x);
    assert!(error.contains("has no axis of that name"), "{error}");
    let error = message(p!["model"], "data", 6, |x| x);
    assert!(error.contains("the batch of 6 is not divisible by the 4 devices"), "{error}");
    let error = message(p!["model"], "data", 8, |x| &x * psum(&axis_index("data"), "data"));
    assert!(error.contains("has a collective along it"), "{error}");
    let error = message(p!["model"], "data", 8, |x| psum(&x, "i"));
    assert!(error.contains("which spmd_axis_name divides among devices"), "{error}");
    // A constraint that uses the axis already.
    let sharding = mesh.sharding(p!["data"]).unwrap();
    let one = move |x: Array| with_sharding_constraint(&x, &sharding);
    let batch = vmap(one).spmd_axis_name("data");
    let error = oxidax::core::catch(|| batch.apply(counting(&[4, 4]))).unwrap_err().to_string();
    assert!(error.contains("names the axis `data` twice"), "{error}");
}
