//! Arrays and values in host memory.

use super::{counting, eight, mesh};
use oxidax::core::Device;
use oxidax::prelude::*;

const HOST: MemoryKind = MemoryKind::PinnedHost;

fn text(x: &Array) -> String {
    x.aval().to_string()
}

fn numbers(x: &Array) -> Vec<f32> {
    x.to_vec::<f32>().unwrap()
}

#[track_caller]
fn assert_close(x: &Array, expected: &[f32]) {
    let x = numbers(x);
    let differs = |(a, b): (&f32, &f32)| (a - b).abs() > 1e-5 * b.abs().max(1.0);
    let different = x.iter().zip(expected).any(differs);
    assert!(x.len() == expected.len() && !different, "{x:?} instead of {expected:?}");
}

#[test]
fn devices_list_their_memories() {
    for device in eight() {
        assert_eq!(device.addressable_memories().unwrap(), MemoryKind::ALL);
        assert_eq!(device.default_memory(), MemoryKind::Device);
    }
}

#[test]
fn arrays_move_between_memories_of_one_device() {
    let third: &Device = &eight()[3];
    let x = counting(&[2, 3]);
    for memory in MemoryKind::ALL {
        let moved = device_put(&x, (third, memory)).unwrap();
        assert_eq!(moved.memory_kind(), memory);
        assert_eq!(moved.device().unwrap().as_ref(), Some(third));
        assert_eq!(numbers(&moved), numbers(&x));
        let back = device_put(&moved, MemoryKind::Device).unwrap();
        assert_eq!((text(&back), back.device().unwrap()), ("f32[2,3]".into(), Some(third.clone())));
        assert_eq!(numbers(&back), numbers(&x));
    }
    let host = device_put(&x, (third, HOST)).unwrap();
    assert_eq!(text(&host), "f32<pinned_host>[2,3]");
    let elsewhere = device_put(&host, &eight()[5]).unwrap();
    assert_eq!(text(&elsewhere), "f32[2,3]");
    assert_eq!(numbers(&elsewhere), numbers(&x));
}

#[test]
fn shards_move_between_memories() {
    let mesh = mesh([("data", 4), ("model", 2)]);
    let rows = mesh.sharding(p!["data"]).unwrap();
    let host = rows.with_memory_kind(HOST);
    assert_ne!(rows, host);
    assert!(host.to_string().ends_with("in pinned_host"), "{host}");
    let x = counting(&[8, 2]);
    let in_host = device_put(&x, &host).unwrap();
    assert_eq!(
        (text(&in_host).as_str(), in_host.sharding().unwrap()),
        ("f32<pinned_host>[8,2]", host)
    );
    let shards = in_host.addressable_shards().unwrap();
    assert!(shards.iter().all(|shard| shard.data.memory_kind() == HOST), "{shards:?}");
    assert_eq!(numbers(&shards[2].data), [4.0, 5.0, 6.0, 7.0]);
    // Another spec and another memory at once.
    let columns = mesh.sharding(p![None, "model"]).unwrap();
    let back = device_put(&in_host, &columns).unwrap();
    assert_eq!((text(&back).as_str(), back.sharding().unwrap()), ("f32[8,2]", columns));
    assert_eq!(numbers(&back), numbers(&x));
    let unpinned = device_put(&back, MemoryKind::UnpinnedHost).unwrap();
    assert_eq!(unpinned.sharding().unwrap().memory_kind(), MemoryKind::UnpinnedHost);
    let replicated = device_put(&x, mesh.replicated().with_memory_kind(HOST)).unwrap();
    assert_eq!(numbers(&replicated), numbers(&x));
}

#[test]
fn operations_return_what_they_take() {
    let x = device_put(&counting(&[4]), HOST).unwrap();
    let y = &x * 2.0 + 1.0;
    assert_eq!((text(&y).as_str(), numbers(&y)), ("f32<pinned_host>[4]", vec![1.0, 3.0, 5.0, 7.0]));
    assert_eq!(text(&x.sum()), "f32<pinned_host>[]");
    assert_eq!(text(&(&x - x.mean())), "f32<pinned_host>[4]");
    assert_eq!(numbers(&zeros_like(&x)), [0.0; 4]);
    let error = jit(|x: Array, y: Array| x + y).call(&x, counting(&[4])).unwrap_err().to_string();
    assert!(error.contains("operands must be in one memory"), "{error}");
    assert!(error.contains("f32<pinned_host>[4] in pinned_host and f32[4] in device"), "{error}");
    assert!(error.contains("memory_kinds.rs"), "{error}");
    assert!(error.contains("device_put(&x, MemoryKind::Device)"), "{error}");
}

#[test]
fn programs_move_values() {
    let x = device_put(&counting(&[4]), HOST).unwrap();
    let step = jit(|x: Array| {
        let on_device = device_put(&x, MemoryKind::Device).unwrap();
        device_put(&(sin(&on_device) + 1.0), HOST).unwrap()
    });
    let y = step.call(&x).unwrap();
    assert_eq!(text(&y), "f32<pinned_host>[4]");
    let expected: Vec<f32> = numbers(&x).iter().map(|x| x.sin() + 1.0).collect();
    assert_close(&y, &expected);
    // A result in host memory is an argument in host memory, donated or not.
    let z = step.call(step.call(&y).unwrap()).unwrap();
    assert_eq!(text(&z), "f32<pinned_host>[4]");
    // The same function for arrays in the device's memory is another program.
    assert_eq!(text(&step.call(counting(&[4])).unwrap()), "f32<pinned_host>[4]");
    let lowered = step.lower(x.aval().clone()).unwrap();
    assert_eq!(
        lowered.as_text("cpu").unwrap().matches("mhlo.memory_kind = \"pinned_host\"").count(),
        2
    );
}

#[test]
fn shardings_of_a_program_have_memories() {
    let mesh = mesh([("data", 8)]);
    let rows = mesh.sharding(p!["data"]).unwrap();
    let host = rows.with_memory_kind(HOST);
    let double = jit(|x: Array| x * 2.0).out_shardings(&host);
    let y = double.call(device_put(&counting(&[8]), &rows).unwrap()).unwrap();
    assert_eq!((text(&y).as_str(), y.sharding()), ("f32<pinned_host>[8]", Some(host.clone())));
    assert_eq!(numbers(&y)[7], 14.0);
    let back = jit(|x: Array| x).out_shardings(&rows).call(&y).unwrap();
    assert_eq!((text(&back).as_str(), back.sharding()), ("f32[8]", Some(rows.clone())));
    let kept = jit(|x: Array| x * 3.0).call(&y).unwrap();
    assert_eq!(kept.sharding(), Some(host.clone()));
    let within = jit(move |x: Array| with_sharding_constraint(&(x + 1.0), &host));
    assert_eq!(text(&within.call(&back).unwrap()), "f32<pinned_host>[8]");
    let refused = jit(|x: Array| x).in_shardings(&rows).call(&y).unwrap_err().to_string();
    assert!(
        refused.contains("is in the memory `pinned_host`, in_shardings requests `device`"),
        "{refused}"
    );
    assert!(refused.contains("`device_put` moves it"), "{refused}");
}

#[test]
fn derivatives_are_where_their_values_are() {
    let w = device_put(&counting(&[4]), HOST).unwrap();
    let loss = |w: &Array| {
        let on_device = device_put(w, MemoryKind::Device).unwrap();
        (&on_device * &on_device).sum() + device_put(w, MemoryKind::Device).unwrap().sum()
    };
    let gradient = grad(loss)(&w);
    assert_eq!(
        (text(&gradient).as_str(), numbers(&gradient)),
        ("f32<pinned_host>[4]", vec![1.0, 3.0, 5.0, 7.0])
    );
    let compiled = jit(move |w: Array| grad(loss)(&w)).call(&w).unwrap();
    assert_eq!(numbers(&compiled), numbers(&gradient));
    let in_host = grad(|w: &Array| (w * w * 2.0).sum())(&w);
    assert_eq!((text(&in_host).as_str(), numbers(&in_host)[3]), ("f32<pinned_host>[4]", 12.0));
    let (_, tangent) = jvp(|w: &Array| device_put(w, MemoryKind::Device).unwrap() * 3.0, &w, &w);
    assert_eq!((text(&tangent).as_str(), numbers(&tangent)[3]), ("f32[4]", 9.0));
    let rows = device_put(&counting(&[3, 4]), HOST).unwrap();
    let moved = vmap(|x: Array| device_put(&x, MemoryKind::Device).unwrap() + 1.0).apply(rows);
    assert_eq!((text(&moved).as_str(), numbers(&moved)[11]), ("f32[3,4]", 12.0));
}

#[test]
fn loops_read_and_write_host_memory() {
    let xs = device_put(&counting(&[5, 2]), HOST).unwrap();
    let run = jit(|xs: Array| {
        scan(
            |carry: Array, x: Array| {
                let carry = carry + device_put(&x, MemoryKind::Device).unwrap();
                let y = device_put(&carry, HOST).unwrap();
                (carry, y)
            },
            zeros([2]),
            xs,
        )
    });
    let (last, all) = run.call(&xs).unwrap();
    assert_eq!((text(&last).as_str(), text(&all).as_str()), ("f32[2]", "f32<pinned_host>[5,2]"));
    assert_eq!((numbers(&last), numbers(&all)[9]), (vec![20.0, 25.0], 25.0));
    let mixed = jit(|x: Array| {
        fori_loop(0, 3, |_, x: Array| device_put(&x, MemoryKind::Device).unwrap(), x)
    });
    let error = mixed.call(device_put(&ones([2]), HOST).unwrap()).unwrap_err().to_string();
    assert!(error.contains("f32<pinned_host>[2]") && error.contains("f32[2]"), "{error}");
    assert!(error.contains("device_put"), "{error}");
}

#[test]
fn remat_offloads_what_its_policy_names() {
    let block = |policy: Policy| {
        let f = |x: &Array| {
            let hidden = checkpoint_name(tanh(x.matmul(x)), "hidden");
            sin(tanh(&hidden)).sum()
        };
        grad(remat_with(f, RematOptions { policy, ..RematOptions::default() }))
    };
    let x = counting(&[4, 4]) * 0.1;
    let expected = block(Policy::Everything)(&x);
    let offload = || Policy::save_and_offload([], ["hidden"]);
    assert_close(&block(offload())(&x), &numbers(&expected));
    let program =
        make_program(block(offload()), Aval::new(DType::F32, [4, 4])).unwrap().to_string();
    assert!(
        program.contains("f32<pinned_host>[4,4] = device_put[memory=\"pinned_host\"]"),
        "{program}"
    );
    assert_eq!(program.matches("device_put").count(), 2, "{program}");
    let dots = Policy::OffloadDotsWithNoBatchDims(HOST);
    let compiled = jit(move |x: Array| block(dots.clone())(&x)).call(&x).unwrap();
    assert_close(&compiled, &numbers(&expected));
    // In a loop the offloaded values of all steps are stacked in host memory.
    let stacked = grad(move |x: &Array| {
        let layer = remat_with(
            |x: Array| sin(checkpoint_name(tanh(x.matmul(&x)), "hidden")),
            RematOptions {
                policy: Policy::save_and_offload([], ["hidden"]),
                ..RematOptions::default()
            },
        );
        let layer = move |x: Array, (): ()| (tanh(layer(&x)), ());
        scan_with(layer, x.clone(), (), ScanOptions { length: Some(3), ..ScanOptions::default() })
            .0
            .sum()
    });
    let program = make_program(&stacked, Aval::new(DType::F32, [4, 4])).unwrap().to_string();
    assert!(program.contains("f32<pinned_host>[3,4,4]"), "{program}");
}

#[test]
fn printed_programs_with_memories_parse() {
    let f = |x: Array| device_put(&(x * 2.0), HOST).unwrap();
    let program = make_program(f, Aval::new(DType::F32, [3])).unwrap();
    let text = program.to_string();
    assert_eq!(oxidax::control_flow::parse_program(&text).unwrap().to_string(), text);
}

#[test]
fn checkpoints_restore_the_memory_of_the_template() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.safetensors");
    let rows = mesh([("data", 8)]).sharding(p!["data"]).unwrap();
    let saved = (
        device_put(&counting(&[4]), HOST).unwrap(),
        device_put(&counting(&[8, 2]), rows.with_memory_kind(HOST)).unwrap(),
    );
    oxidax::checkpoint::save(&path, &saved).unwrap();
    let reader = oxidax::checkpoint::open(&path).unwrap();
    let restored = reader.load(&saved).unwrap();
    assert_eq!((text(&restored.0), text(&restored.1)), (text(&saved.0), text(&saved.1)));
    assert_eq!(restored.1.sharding(), saved.1.sharding());
    assert_eq!(
        (numbers(&restored.0), numbers(&restored.1)),
        (numbers(&saved.0), numbers(&saved.1))
    );
    // Into the devices' own memory, if the template is there.
    let template = (counting(&[4]), device_put(&counting(&[8, 2]), &rows).unwrap());
    let moved = reader.load(&template).unwrap();
    assert_eq!((text(&moved.0), text(&moved.1)), ("f32[4]".into(), "f32[8,2]".into()));
    assert_eq!(numbers(&moved.1), numbers(&saved.1));
}
