//! `shard_map`: collectives, types, derivatives.

use super::{close, counting, mesh, values};
use oxidax::ops::Tiling;
use oxidax::prelude::*;
use std::sync::Arc;

#[test]
fn collectives_between_devices() {
    let mesh = mesh([("i", 8)]);
    let x = counting(&[8, 2]);
    let over = |f: fn(Array) -> Array, out: PartitionSpec| {
        values(&shard_map(f, &mesh).in_specs(p!["i"]).out_specs(out).apply(&x))
    };
    assert_eq!(over(|x| psum(&x, "i"), p![]), [56.0, 64.0]);
    assert_eq!(over(|x| pmean(&x, "i"), p![]), [7.0, 8.0]);
    assert_eq!(over(|x| pmax(&x, "i"), p![]), [14.0, 15.0]);
    assert_eq!(over(|x| pmin(&x, "i"), p![]), [0.0, 1.0]);
    let index = |x: Array| &x * 0.0 + axis_index("i");
    assert_eq!(over(index, p!["i"])[6..10], [3.0, 3.0, 4.0, 4.0]);
    let gathered = over(|x| all_gather(&x, "i", 0, Tiling::Tiled), p!["i"]);
    assert_eq!(gathered, values(&x).repeat(8));
    let untiled = |x: Array| all_gather(&x, "i", 1, Tiling::Untiled);
    assert_eq!(over(untiled, p!["i"])[..4], [0.0, 1.0, 2.0, 3.0]);
    let ring = |x: Array| ppermute(&x, "i", &[(0, 1), (1, 2), (2, 3), (3, 0)]);
    assert_eq!(over(ring, p!["i"])[..6], [6.0, 7.0, 0.0, 1.0, 2.0, 3.0]);
    let scatter =
        |x: Array| psum_scatter(&reshape(&broadcast(&x), [8, 2]), "i", 0, Tiling::Untiled);
    fn broadcast(x: &Array) -> Array {
        concatenate(vec![x.clone(); 8], 0)
    }
    assert_eq!(over(scatter, p!["i"])[..4], [56.0, 64.0, 56.0, 64.0]);
    let square = counting(&[8, 8]);
    let transposed = shard_map(|x: Array| all_to_all(&x, "i", 1, 0, Tiling::Tiled), &mesh)
        .in_specs(p!["i"])
        .out_specs(p![None, "i"])
        .apply(&square);
    assert_eq!(values(&transposed), values(&square));
    let rows = shard_map(|x: Array| all_to_all(&x, "i", 1, 1, Tiling::Untiled), &mesh)
        .in_specs(p!["i"])
        .out_specs(p!["i"])
        .apply(&square);
    assert_eq!(values(&rows), values(&square.transpose_axes([1, 0])));
}

#[test]
fn empty_arrays_are_gathered() {
    let empty = counting(&[8, 0]);
    let gather = |x: Array| all_gather(&x, "i", 1, Tiling::Tiled);
    let gathered = shard_map(gather, &mesh([("i", 8)])).in_specs(p!["i"]).out_specs(p!["i"]);
    assert_eq!(gathered.apply(&empty).shape().dims(), [8, 0]);
}

#[test]
fn collectives_of_every_dtype() {
    let mesh = mesh([("i", 4), ("j", 2)]);
    let all = ["i", "j"];
    for dtype in DType::all() {
        let x = reshape(&convert_element_type(&(iota(DType::I32, 16) % 2), dtype), [8, 2]);
        // One program for all of them: compiling takes longer than running.
        let moved = shard_map(
            move |x: Array| {
                let gathered = all_gather(&x, all, 0, Tiling::Tiled);
                let swapped = ppermute(&x, "j", &[(0, 1), (1, 0)]);
                let exchanged = all_to_all(&x, "j", 1, 1, Tiling::Untiled);
                let sums = match x.dtype().is_bool() {
                    true => (psum(&x, all), x.clone()),
                    false => (psum(&x, all), psum_scatter(&x, "j", 1, Tiling::Tiled)),
                };
                (gathered, swapped, exchanged, (pmax(&x, all), pmin(&x, all)), sums.0, sums.1)
            },
            &mesh,
        );
        let each = p![["i", "j"]];
        let out = (each.clone(), each.clone(), each.clone(), p![], p![], each.clone());
        let moved = moved.in_specs(each).out_specs(out);
        let (gathered, swapped, exchanged, (most, least), sum, scattered) = moved.apply(&x);
        let bytes = |x: &Array| x.to_bytes().unwrap_or_else(|error| panic!("{dtype}: {error}"));
        let own = bytes(&x);
        let row = own[..own.len() / 8].to_vec();
        assert_eq!(bytes(&gathered), own.repeat(8), "{dtype}");
        // All rows are equal.
        assert_eq!(bytes(&swapped), own, "{dtype}");
        assert_eq!([bytes(&most), bytes(&least)], [row.clone(), row.clone()], "{dtype}");
        // Device `j` gets element `j` of both.
        let pairs = bytes(&exchanged);
        let (first, second) = row.split_at(row.len() / 2);
        assert_eq!(pairs, [first, first, second, second].concat().repeat(4), "{dtype}");
        let eight = |n: i32| convert_element_type(&full([], n), DType::F32);
        if !dtype.is_bool() && (dtype.bits() >= 8 || dtype.is_float()) {
            let expected = concatenate(&[reshape(&eight(0), [1]), reshape(&eight(8), [1])], 0);
            let expected = bytes(&convert_element_type(&expected, dtype));
            // Eight does not fit the smallest floats, which saturate or overflow as a conversion
            // does.
            assert_eq!(bytes(&sum), expected, "{dtype}");
            assert_eq!(scattered.size(), 8, "{dtype}");
        }
    }
}

#[test]
fn maxima_keep_nan() {
    let mesh = mesh([("i", 8)]);
    let mut numbers = vec![1.0f32; 8];
    numbers[5] = f32::NAN;
    let x = Array::from_slice(&numbers, [8]).unwrap();
    let largest = shard_map(|x: Array| (pmax(&x, "i"), pmin(&x, "i")), &mesh)
        .in_specs(p!["i"])
        .out_specs(p![]);
    let (most, least) = largest.apply(&x);
    assert!(values(&most)[0].is_nan() && values(&least)[0].is_nan());
}

#[test]
fn gradients_of_replicated_values_are_summed() {
    let mesh = mesh([("i", 8)]);
    let (w, x) = (counting(&[2]), counting(&[8, 2]));
    // `grad` outside of the mapped function, and inside it.
    let mesh_ = mesh.clone();
    let loss = move |w: &Array| {
        let f = |w: Array, x: Array| pmean(&sin(&(&w * &x)).sum(), "i");
        shard_map(f, &mesh_).in_specs((p![], p!["i"])).out_specs(p![]).apply(w, &x)
    };
    let x = counting(&[8, 2]);
    let plain = |w: &Array| sin(&(w * &x)).sum() / 8.0;
    close(&grad(&loss)(&w), &grad(&plain)(&w), 1e-5);
    let inside = shard_map(
        |w: Array, x: Array| grad(|w: &Array| pmean(&sin(&(w * &x)).sum(), "i"))(&w),
        &mesh,
    );
    let inside = inside.in_specs((p![], p!["i"])).out_specs(p![]).apply(&w, &x);
    close(&inside, &grad(&plain)(&w), 1e-5);
    // Second derivatives, and forward over reverse.
    let hessian = |f: &dyn Fn(&Array) -> Array| {
        let slope = |w: &Array| grad(|w: &Array| f(w))(w);
        jvp(slope, &w, ones_like(&w)).1
    };
    close(&hessian(&loss), &hessian(&plain), 1e-4);
    // Without the tracking of varying axes.
    let mesh_ = mesh.clone();
    let xs = x.clone();
    let untyped = move |w: &Array| {
        let f = |w: Array, x: Array| pmean(&sin(&(&w * &x)).sum(), "i");
        let mapped = shard_map(f, &mesh_).check_varying(false);
        mapped.in_specs((p![], p!["i"])).out_specs(p![]).apply(w, &xs)
    };
    close(&grad(&untyped)(&w), &grad(&plain)(&w), 1e-5);
}

#[test]
fn loops_and_branches_inside() {
    let mesh = mesh([("i", 8)]);
    let x = counting(&[8, 2]);
    // The carry starts replicated and becomes varying.
    let total = |x: Array| {
        let step = |sum: Array, row: Array| (&sum + &row, sum.clone());
        let (sum, all) = scan(step, zeros([2]), &x);
        psum(&(sum + all.sum()), "i")
    };
    let mapped = |x: &Array| shard_map(total, &mesh).in_specs(p!["i"]).out_specs(p![]).apply(x);
    assert_eq!(values(&mapped(&x)), [56.0, 64.0]);
    let slope = grad(|x: &Array| mapped(&(x * x)).sum())(&x);
    close(&slope, &(&x * 2.0), 1e-6);
    let choice = |x: Array| {
        let big = gt(x.sum(), 10.0);
        let y = cond(&big, |x: Array| &x * 2.0, |_: Array| zeros([1, 2]), &x);
        let z = while_loop(|x: Array| lt(x.sum(), 100.0), |x: Array| &x + 7.0, &x);
        (psum(&y, "i"), z)
    };
    let (y, z) = shard_map(choice, &mesh).in_specs(p!["i"]).out_specs((p![], p!["i"])).apply(&x);
    assert_eq!(values(&y)[0], 2.0 * (6.0 + 8.0 + 10.0 + 12.0 + 14.0));
    assert!(values(&z).chunks(2).all(|pair| pair[0] + pair[1] >= 100.0));
    let error = catch(|| {
        let f = |x: Array| {
            let big = gt(x.sum(), 10.0);
            cond(&big, |x: Array| psum(&x, "i"), |x: Array| psum(&(x * 2.0), "i"), &x)
        };
        shard_map(f, &mesh).in_specs(p!["i"]).out_specs(p!["i"]).apply(&x)
    });
    let error = error.unwrap_err().to_string();
    assert!(error.contains("devices along the axis `i` take different paths"), "{error}");
}

#[test]
fn some_axes_only_and_nested() {
    let mesh = mesh([("a", 4), ("b", 2)]);
    let x = counting(&[8, 4]);
    let partly = shard_map(|x: Array| psum(&x, "a") + x.shape()[1] as i32, &mesh)
        .axis_names("a")
        .in_specs(p!["a"])
        .out_specs(p![]);
    let expected = reshape(&x, [4, 2, 4]).sum_axes([0]) + 4.0;
    let y = jit({
        let x = x.clone();
        move || partly.apply(&x)
    });
    close(&y.call().unwrap(), &expected, 1e-6);
    let inner_mesh = mesh.clone();
    let nested = move |x: Array| {
        let inner = shard_map(|x: Array| psum(&x.sum(), "b"), &inner_mesh);
        psum(&inner.axis_names("b").in_specs(p![None, "b"]).out_specs(p![]).apply(&x), "a")
    };
    let nested = shard_map(nested, &mesh).axis_names("a").in_specs(p!["a"]).out_specs(p![]);
    assert_eq!(nested.apply(&x).item::<f32>().unwrap(), values(&x).iter().sum::<f32>());
}

#[test]
fn a_called_function_is_not_shared_with_a_region() {
    let mesh = mesh([("a", 4), ("b", 2)]);
    let x = counting(&[8, 4]);
    let rows = mesh.sharding(p!["a"]).unwrap();
    let cut = Arc::new(jit(move |x: Array| with_sharding_constraint(&sin(&x), &rows)));
    let both = move |x: Array| {
        let outside = cut.apply(&x);
        let cut = cut.clone();
        let inside = shard_map(move |x: Array| cut.apply(&x), &mesh);
        outside + inside.in_specs(p![]).out_specs(p![]).apply(&x)
    };
    let error = jit(both).call(&x).unwrap_err().to_string();
    assert!(error.contains("speaks of `a`, along which devices compute their own"), "{error}");
}

#[test]
fn batches_of_mapped_functions() {
    let mesh = mesh([("i", 8)]);
    let x = counting(&[3, 8, 2]);
    let f = |x: Array| psum(&(&x * axis_index("i")), "i");
    let mapped = |x: Array| shard_map(f, &mesh).in_specs(p!["i"]).out_specs(p![]).apply(&x);
    let batched = vmap(mapped).apply(&x);
    let weights = reshape(&iota(DType::F32, 8), [8, 1]);
    let expected = (&x * &weights).sum_axes([1]);
    close(&batched, &reshape(&expected, batched.shape()), 1e-6);
    let slopes = vmap(|x: Array| grad(|x: &Array| mapped(x.clone()).sum())(&x)).apply(&x);
    assert_eq!(values(&slopes)[..4], [0.0, 0.0, 1.0, 1.0]);
}

#[test]
fn rematerialized_and_compiled_inside() {
    let mesh = mesh([("i", 8)]);
    let (w, x) = (counting(&[2, 2]), counting(&[8, 2]));
    let layer = |w: Array, x: Array| {
        let inner = jit(|(w, x): (Array, Array)| tanh(&(x.matmul(&w) * 0.01)));
        let h = remat(|p: &(Array, Array)| inner.apply(p))(&(w.clone(), x.clone()));
        pmean(&(&h * &h).sum(), "i")
    };
    let mapped =
        |w: &Array| shard_map(layer, &mesh).in_specs((p![], p!["i"])).out_specs(p![]).apply(w, &x);
    let plain = |w: &Array| {
        let h = tanh(&(x.matmul(w) * 0.01));
        (&h * &h).sum() / 8.0
    };
    close(&grad(&mapped)(&w), &grad(&plain)(&w), 1e-5);
}

#[test]
fn invalid_specs_are_errors() {
    let mesh = mesh([("a", 4), ("b", 2)]);
    let x = counting(&[8, 4]);
    let error = |f: fn(Array) -> Array, spec: PartitionSpec, out: PartitionSpec| {
        let mapped = shard_map(f, &mesh).in_specs(spec).out_specs(out);
        catch(|| mapped.apply(&x)).unwrap_err().to_string()
    };
    let same = |x: Array| x;
    let found = error(same, p!["a"], p![]);
    assert!(found.contains("result $: f32[2,4]{a} differs between devices along `a`"), "{found}");
    assert!(found.contains("psum(&x, \"a\")") && found.contains("mapped.rs"), "{found}");
    let found = error(same, p!["c"], p![]);
    assert!(found.contains("names the axis `c`, Mesh(a=4, b=2) has none"), "{found}");
    let found = error(same, p!["a", "a"], p!["a"]);
    assert!(found.contains("`a` twice"), "{found}");
    let found = error(same, p![None, ["a", "b"]], p!["a"]);
    assert!(
        found.contains("axis 1 of [8,4] has size 4, which is not divisible by the size 8"),
        "{found}"
    );
    let found = error(|x| psum(&x, "c"), p!["a"], p![]);
    assert!(
        found.contains("no axis is named `c` here; in scope: `a` of size 4, `b` of size 2"),
        "{found}"
    );
    let outside = catch(|| psum(&x, "a")).unwrap_err().to_string();
    assert!(outside.contains("no named axis is in scope"), "{outside}");
    let found = error(|x| x.sum(), p!["a"], p!["a"]);
    assert!(found.contains("p![\"a\"] has 1 axes"), "{found}");
    let unsaid = catch(|| shard_map(same, &mesh).apply(&x)).unwrap_err().to_string();
    assert!(unsaid.contains("out_specs must say how the results are concatenated"), "{unsaid}");
    let only_out = shard_map(same, &mesh).out_specs(p!["a"]);
    let unsaid = catch(|| only_out.apply(&x)).unwrap_err().to_string();
    assert!(unsaid.contains("in_specs must say how the arguments are split"), "{unsaid}");
}

#[test]
fn types_print_and_parse() {
    let mesh = mesh([("i", 8)]);
    let mapped = shard_map(|x: Array| psum(&(&x * axis_index("i")), "i"), &mesh)
        .in_specs(p!["i"])
        .out_specs(p![]);
    let program =
        make_program(move |x: Array| mapped.apply(&x), Aval::new(DType::F32, [8])).unwrap();
    let text = program.to_string();
    assert!(text.contains("f32[1]{i}"), "{text}");
    assert_eq!(parse_program(&text).unwrap().to_string(), text);
}
