//! Placements of arrays, and how `jit` follows them.

use super::{close, counting, eight, mesh, values};
use oxidax::parallel::TreeSharding;
use oxidax::parallel::{default_device, devices_of};
use oxidax::prelude::*;

#[test]
fn devices_have_consecutive_ids() {
    let all = eight();
    assert_eq!(all.iter().map(|device| device.id().0).collect::<Vec<_>>(), Vec::from_iter(0..8));
    assert_eq!(all[3].to_string(), "cpu:3");
    assert!(all.iter().all(|device| device.is_local() && device.process_index() == 0));
    assert_eq!(local_devices().unwrap(), all);
    assert_eq!(devices_of("cpu").unwrap(), all);
    let error = devices_of("metal").unwrap_err().to_string();
    assert!(error.contains("no platform `metal`; there are cpu, tpu, cuda"), "{error}");
    let late = oxidax::parallel::set_cpu_devices(4).unwrap_err().to_string();
    assert!(late.contains("8"), "{late}");
}

#[test]
fn device_put_commits_to_a_device() {
    let all = eight();
    let x = counting(&[3]);
    assert_eq!(x.device().unwrap(), Some(default_device().unwrap()));
    let on_five = device_put(&x, &all[5]).unwrap();
    assert_eq!(on_five.device().unwrap(), Some(all[5].clone()));
    assert_eq!(values(&on_five), [0.0, 1.0, 2.0]);
    // An uncommitted operand is moved.
    let sum = &on_five + &x;
    assert_eq!(sum.device().unwrap(), Some(all[5].clone()));
    assert_eq!(values(&sum), [0.0, 2.0, 4.0]);
    let double = jit(|x: Array| &x * 2.0);
    assert_eq!(double.call(&on_five).unwrap().device().unwrap(), Some(all[5].clone()));
    assert_eq!(double.call(&x).unwrap().device().unwrap(), Some(all[0].clone()));
    assert_eq!(double.stats().compiles, 2);
    let made = with_default_device(&all[2], || ones([2])).unwrap();
    assert_eq!(made.device().unwrap(), Some(all[2].clone()));
}

#[test]
fn operands_on_two_devices_are_an_error() {
    let all = eight();
    let [a, b] = [1, 2].map(|at| device_put(&counting(&[2]), &all[at]).unwrap());
    let error = catch(|| &a + &b).unwrap_err().to_string();
    assert!(error.contains("on cpu:1") && error.contains("cpu:2"), "{error}");
    assert!(error.contains("device_put"), "{error}");
    let add = jit(|pair: (Array, Array)| &pair.0 + &pair.1);
    let error = add.call((a.clone(), b)).unwrap_err().to_string();
    assert!(error.contains("$[0][1]") || error.contains("[1]"), "{error}");
    let spread = device_put(&counting(&[8]), mesh([("i", 8)]).sharding(p!["i"]).unwrap()).unwrap();
    let a = device_put(&counting(&[8]), &all[1]).unwrap();
    let error = catch(|| &a + &spread).unwrap_err().to_string();
    assert!(error.contains("cpu:1") && error.contains("Mesh(i=8)"), "{error}");
}

#[test]
fn every_sharding_round_trips() {
    let mesh = mesh([("a", 4), ("b", 2)]);
    let x = counting(&[8, 4]);
    let specs = [
        p![],
        p!["a"],
        p!["b"],
        p![None, "a"],
        p!["a", "b"],
        p![["a", "b"]],
        p![["b", "a"]],
        p!["b", "a"],
    ];
    for from in &specs {
        let put = device_put(&x, mesh.sharding(from.clone()).unwrap()).unwrap();
        assert_eq!(values(&put), values(&x), "{from}");
        assert_eq!(put.sharding().unwrap(), mesh.sharding(from.clone()).unwrap());
        for shard in put.addressable_shards().unwrap() {
            let [rows, columns] = [shard.index[0].clone(), shard.index[1].clone()];
            let part = slice(&x, &[rows.start, columns.start], &[rows.end, columns.end], &[1, 1]);
            assert_eq!(values(&shard.data), values(&part), "{from} on {}", shard.device);
            assert_eq!(shard.data.device().unwrap(), Some(shard.device.clone()));
        }
        // To two others: each pair compiles a program.
        let index = specs.iter().position(|spec| spec == from).unwrap();
        for to in [&specs[(index + 1) % 8], &specs[(index + 3) % 8]] {
            let sharding = mesh.sharding(to.clone()).unwrap();
            let again = device_put(&put, &sharding).unwrap();
            assert_eq!(again.sharding().unwrap(), sharding);
            assert_eq!(values(&again), values(&x), "{from} to {to}");
        }
    }
}

#[test]
fn every_dtype_is_sharded_and_read() {
    let mesh = mesh([("a", 4), ("b", 2)]);
    for dtype in DType::all() {
        let x = convert_element_type(&iota(DType::I32, 16), dtype);
        let x = reshape(&x, [8, 2]);
        let bytes = x.to_bytes().unwrap();
        let cut = device_put(&x, mesh.sharding(p!["a", "b"]).unwrap()).unwrap();
        assert_eq!(cut.to_bytes().unwrap(), bytes, "{dtype}");
    }
}

#[test]
fn programs_follow_their_arguments() {
    let mesh = mesh([("data", 4), ("model", 2)]);
    let (x, w) = (counting(&[8, 6]), counting(&[6, 4]));
    let product = jit(|x: Array, w: Array| tanh(x.matmul(&w)));
    let expected = product.call(&x, &w).unwrap();
    let cut = device_put(&x, mesh.sharding(p!["data"]).unwrap()).unwrap();
    let whole = device_put(&w, mesh.sharding(p![None, "model"]).unwrap()).unwrap();
    let found = product.call(&cut, &whole).unwrap();
    assert_eq!(found.sharding().unwrap().spec(), &p!["data", "model"]);
    close(&found, &expected, 1e-6);
    // The second argument is uncommitted, so it is copied to all devices.
    let found = product.call(&cut, &w).unwrap();
    assert_eq!(found.sharding().unwrap().spec(), &p!["data"]);
    close(&found, &expected, 1e-6);
    let stats = product.stats();
    assert_eq!((stats.transferred, stats.bytes_transferred), (1, 6 * 4 * 4));
    let sum = (&cut * 2.0).sum();
    assert_eq!(sum.item::<f32>().unwrap(), values(&x).iter().sum::<f32>() * 2.0);
}

#[test]
fn in_shardings_place_arguments() {
    let mesh = mesh([("data", 8)]);
    let (rows, whole) = (mesh.sharding(p!["data"]).unwrap(), mesh.replicated());
    let f = jit(|w: Array, x: Array| (x.matmul(&w), w.sum()))
        .in_shardings((&whole, &rows))
        .out_shardings((&rows, &whole));
    let (w, x) = (counting(&[2, 3]), counting(&[16, 2]));
    let (y, s) = f.call(&w, &x).unwrap();
    assert_eq!((y.sharding().unwrap(), s.sharding().unwrap()), (rows.clone(), whole));
    close(&y, &x.matmul(&w), 1e-6);
    assert_eq!(f.stats().transferred, 2);
    let x = device_put(&x, &rows).unwrap();
    f.call(&w, &x).unwrap();
    assert_eq!(f.stats().transferred, 3);
    let error = f.call(&w, counting(&[15, 2])).unwrap_err().to_string();
    assert!(
        error.contains(
            "axis 0 of [15,2] has size 15, which is not divisible by the size 8 of `data`"
        ),
        "{error}"
    );
    assert!(error.contains("argument $[1]"), "{error}");
    let one = jit(|x: Array| x).in_shardings((&rows, &rows));
    let error = one.call(&x).unwrap_err().to_string();
    assert!(error.contains("in_shardings has 2 entries for 1"), "{error}");
}

#[test]
fn shards_are_donated() {
    let mesh = mesh([("data", 8)]);
    let x = device_put(&counting(&[16]), mesh.sharding(p!["data"]).unwrap()).unwrap();
    let step = jit(|x: Array| &x + 1.0);
    let held = x.clone();
    let y = step.call(x).unwrap();
    assert_eq!(step.stats().not_donated, 1);
    assert_eq!(values(&held)[1], 1.0);
    let z = step.call(y).unwrap();
    assert_eq!(step.stats().not_donated, 1);
    assert_eq!(values(&z)[1], 3.0);
    // A transferred copy is donated, and the argument stays.
    let moved = jit(|x: Array| &x + 1.0).in_shardings(mesh.replicated());
    assert_eq!(values(&moved.call(&z).unwrap())[1], 4.0);
    assert_eq!(values(&z)[1], 3.0);
}

#[test]
fn constraints_hold_and_derive() {
    let mesh = mesh([("data", 4), ("model", 2)]);
    let hidden = mesh.sharding(p!["data", "model"]).unwrap();
    let inner = hidden.clone();
    let f = move |x: &Array| (with_sharding_constraint(&sin(x), &inner) * 2.0).sum();
    let x = counting(&[8, 4]);
    let slope = grad(&f)(&x);
    close(&slope, &(cos(&x) * 2.0), 1e-5);
    let text = jit(move |x: Array| f(&x)).lower(x.aval().clone()).unwrap().as_text("cpu").unwrap();
    assert!(text.contains("sdy.sharding_constraint"), "{text}");
    let batched =
        vmap(move |x: Array| with_sharding_constraint(&x, &hidden)).apply(counting(&[3, 8, 4]));
    assert_eq!(batched.sharding().unwrap().spec(), &p![None, "data", "model"]);
}

#[test]
fn unconstrained_axes_are_left_to_the_compiler() {
    let mesh = mesh([("data", 4), ("model", 2)]);
    let open = mesh.sharding(p![UNCONSTRAINED, "model"]).unwrap();
    let rows = device_put(&counting(&[8, 6]), mesh.sharding(p!["data"]).unwrap()).unwrap();
    let constraint = open.clone();
    let f = jit(move |x: Array| with_sharding_constraint(&x, &constraint));
    let text = f.lower(rows.aval().clone()).unwrap().as_text("cpu").unwrap();
    assert!(text.contains(r#"[{?}, {"model"}]"#), "{text}");
    let y = f.call(&rows).unwrap();
    assert_eq!(y.sharding().unwrap().spec(), &p!["data", "model"]);
    assert_eq!(values(&y), values(&rows));
    let eager = with_sharding_constraint(&counting(&[8, 6]), &open);
    assert_eq!(eager.sharding().unwrap().spec(), &p![None, "model"]);

    let x = counting(&[8, 6]);
    let refused = [
        device_put(&x, &open).unwrap_err(),
        jit(|x: Array| x).in_shardings(&open).call(&x).unwrap_err().into(),
        jit(|x: Array| x).out_shardings(&open).call(&x).unwrap_err().into(),
        make_array_from_process_local_data(&open, &x, [8, 6]).unwrap_err(),
    ];
    for error in refused.map(|error| error.to_string()) {
        assert!(error.contains("leaves axis 0 unconstrained"), "{error}");
    }
    let mapped = shard_map(|x: Array| x, &mesh).in_specs(open.spec()).out_specs(p!["data"]);
    let error = catch(|| mapped.apply(&x)).unwrap_err().to_string();
    assert!(error.contains("leaves axis 0 unconstrained"), "{error}");
}

#[test]
fn constraints_inside_jit_may_be_uneven() {
    let mesh = mesh([("data", 4), ("model", 2)]);
    let rows = mesh.sharding(p!["data"]).unwrap();
    for size in [7, 1, 0] {
        let (x, constraint) = (counting(&[size, 6]), rows.clone());
        let f = move |x: &Array| with_sharding_constraint(&(x * 2.0), &constraint);
        let g = f.clone();
        assert_eq!(values(&jit(move |x: Array| f(&x)).call(&x).unwrap()), values(&(&x * 2.0)));
        let total = jit(move |x: Array| grad(|x: &Array| (g(x) * g(x)).sum())(&x));
        close(&total.call(&x).unwrap(), &(&x * 8.0), 1e-6);
    }
    let x = counting(&[7, 6]);
    let nested = jit(|x: Array| x).in_shardings(&rows);
    let refused = [
        catch(|| with_sharding_constraint(&x, &rows)).unwrap_err(),
        device_put(&x, &rows).unwrap_err(),
        jit(|x: Array| x).in_shardings(&rows).call(&x).unwrap_err().into(),
        jit(|x: Array| x).out_shardings(&rows).call(&x).unwrap_err().into(),
        jit(move |x: Array| nested.apply(&x)).call(&x).unwrap_err().into(),
    ];
    for error in refused.map(|error| error.to_string()) {
        let numbers = "axis 0 of [7,6] has size 7, which is not divisible by the size 4 of `data`";
        assert!(error.contains(numbers) && error.contains("4 or 8 would do"), "{error}");
    }
}

#[test]
fn arrays_on_devices_become_shards() {
    let mesh = mesh([("data", 4), ("model", 2)]);
    let grid = mesh.sharding(p!["data", "model"]).unwrap();
    let x = device_put(&counting(&[8, 6]), &grid).unwrap();
    let mut shards: Vec<Array> =
        x.addressable_shards().unwrap().into_iter().map(|shard| shard.data).collect();
    shards.reverse();
    let y = make_array_from_single_device_arrays([8, 6], &grid, &shards).unwrap();
    assert_eq!((values(&y), y.sharding()), (values(&x), Some(grid.clone())));
    // The shards are copies: a donated one leaves the array whole.
    let consumed = jit(|x: Array| x + 1.0).call(shards.remove(0)).unwrap();
    assert_eq!((values(&y), consumed.shape().dims()), (values(&x), [2, 3].as_slice()));
    shards.insert(0, consumed);
    let make = |shape: [usize; 2], shards: &[Array]| {
        make_array_from_single_device_arrays(shape, &grid, shards).unwrap_err().to_string()
    };
    let refused = |error: String, text: &str| {
        assert!(error.contains(text) && error.contains("placement.rs"), "{error}");
    };
    refused(make([8, 6], &shards[1..]), "7 arrays for 8 local devices");
    refused(make([8, 8], &shards), "array 0 is f32[2,3], a shard of f32[8,8] is f32[2,4]");
    refused(make([7, 6], &shards), "axis 0 of [7,6] has size 7");
    let with_first = |first: Array| [&[first], &shards[1..]].concat();
    refused(make([8, 6], &with_first(shards[1].clone())), "two arrays are on cpu:6");
    refused(make([8, 6], &with_first(x.clone())), "array 0, f32[8,6], is sharded as");
    let numbers = shards[0].astype(DType::I32);
    refused(
        make([8, 6], &with_first(numbers)),
        "array 1 is f32[2,3], a shard of i32[8,6] is i32[2,3]",
    );
    let traced = jit({
        let (grid, shards) = (grid.clone(), shards.clone());
        move |x: Array| {
            let all = [&[x], &shards[1..]].concat();
            make_array_from_single_device_arrays([8, 6], &grid, &all)
                .unwrap_or_else(|error| oxidax::core::throw(error))
        }
    });
    let error = traced.call(&shards[0]).unwrap_err().to_string();
    refused(error, "array 0, f32[2,3], is traced");
}

#[test]
fn rules_match_paths() {
    let mesh = mesh([("data", 4), ("model", 2)]);
    let model = nn::Linear::new(random::key(0), 8, 4);
    let rules = PartitionRules::new([("*weight", p![None, "model"]), ("*", p![])]);
    let shardings = rules.shardings(&model, &mesh).unwrap();
    assert_eq!(shardings.bytes(), (8 * 4 + 4) * 4);
    assert_eq!(shardings.bytes_per_device(), (8 * 4 / 2 + 4) * 4);
    let table = shardings.to_string();
    assert!(table.contains("$.weight") && table.contains(r#"p![None, "model"]"#), "{table}");
    let put = device_put(&model, &shardings).unwrap();
    assert_eq!(put.weight.sharding().unwrap().spec(), &p![None, "model"]);
    let uneven = PartitionRules::new([("*weight", p![None, ["data", "model"]])]);
    let error = uneven.shardings(&model, &mesh).unwrap_err().to_string();
    assert!(error.contains("$.weight: axis 1 of [8,4] has size 4"), "{error}");
    assert!(TreeSharding::all(&model, &mesh.replicated()).is_ok());
}

#[test]
fn stacked_shards_are_placed_one_on_each_device() {
    let all = eight();
    let copies = device_put_replicated(&counting(&[3]), &all[..4]).unwrap();
    assert_eq!(copies.shape().dims(), [4, 3]);
    assert_eq!(values(&copies), [0.0, 1.0, 2.0].repeat(4));
    let each: Vec<Array> = (0..8).map(|i| full([2], i as f32)).collect();
    let stack = device_put_sharded(&each, &all).unwrap();
    assert_eq!(stack.addressable_shards().unwrap()[6].data.to_vec::<f32>().unwrap(), [6.0, 6.0]);
    let error = device_put_sharded(&each[..3], &all).unwrap_err().to_string();
    assert!(error.contains("3 trees for 8 devices"), "{error}");
}

#[test]
fn default_sharding_applies_to_arrays_from_the_host() {
    let rows = mesh([("data", 8)]).sharding(p!["data"]).unwrap();
    let x = with_default_sharding(&rows, || {
        // Constants of operations are not the host's arrays.
        Array::from_slice(&[1.0f32; 16], [16]).unwrap() * full([], 2.0)
    });
    assert_eq!(x.sharding(), Some(rows.clone()));
    assert_eq!(values(&x), [2.0; 16]);
    let error = with_default_sharding(&rows, || Array::from_slice(&[1.0f32; 9], [9])).unwrap_err();
    assert!(error.to_string().contains("axis 0 of [9] has size 9"), "{error}");
    assert_eq!(counting(&[9]).sharding(), None);
}

#[test]
fn devices_that_are_not_here_compute_nothing() {
    let x = counting(&[8]);
    let mesh = Mesh::without_devices([("data", 8)]).unwrap();
    let rows = mesh.sharding(p!["data"]).unwrap();
    let error = device_put(&x, &rows).unwrap_err().to_string();
    assert!(error.contains("which was made `without_devices`"), "{error}");
    let f = jit(|x: Array| &x * 2.0).in_shardings(&rows);
    let error = f.call(&x).unwrap_err().to_string();
    assert!(error.contains("Mesh(data=8) was made `without_devices`"), "{error}");
}

#[test]
fn pictures() {
    let mesh = mesh([("data", 4), ("model", 2)]);
    let x = device_put(&counting(&[8, 4]), mesh.sharding(p!["data"]).unwrap()).unwrap();
    let picture = visualize_sharding(&x).unwrap();
    assert!(picture.contains("│   0,1   │"), "{picture}");
    assert_eq!(picture.lines().count(), 9);
}

#[test]
fn this_process_holds_the_whole_array() {
    let mesh = mesh([("data", 8)]);
    let rows = mesh.sharding(p!["data"]).unwrap();
    let x = make_array_from_process_local_data(&rows, &counting(&[8, 2]), [8, 2]).unwrap();
    assert_eq!(x.sharding().unwrap(), rows);
    assert_eq!(values(&x), values(&counting(&[8, 2])));
    let error = make_array_from_process_local_data(&rows, &counting(&[4, 2]), [8, 2]).unwrap_err();
    assert!(error.to_string().contains("its data is f32[4,2]"), "{error}");
}

#[test]
fn host_local_arrays_of_one_process_are_global() {
    use oxidax::parallel::{global_array_to_host_local_array, host_local_array_to_global_array};
    let mesh = mesh([("data", 8)]);
    let rows = mesh.sharding(p!["data"]).unwrap();
    let tree = (counting(&[8, 2]), counting(&[16]));
    let global = host_local_array_to_global_array(&tree, &rows).unwrap();
    assert_eq!(
        (global.0.sharding(), global.1.sharding()),
        (Some(rows.clone()), Some(rows.clone()))
    );
    assert_eq!(values(&global.1), values(&tree.1));
    let local = global_array_to_host_local_array(&global).unwrap();
    assert_eq!((values(&local.0), local.0.sharding()), (values(&tree.0), Some(rows.clone())));
    let error = host_local_array_to_global_array(&(counting(&[8]), counting(&[7])), &rows);
    let said = error.unwrap_err().to_string();
    assert!(said.contains("host_local_array_to_global_array") && said.contains("$[1]"), "{said}");
}
