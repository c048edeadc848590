//! Checks `Compiled::collectives` on programs with known collectives.

use oxidax::jit::Collective::{AllGather, AllReduce, CollectivePermute};
use oxidax::jit::{Collectives, Compiled};
use oxidax::prelude::*;

fn mesh() -> Mesh {
    oxidax::parallel::set_cpu_devices(8).unwrap();
    Mesh::new(devices().unwrap(), [("i", 8)]).unwrap()
}

fn compiled(f: Jit<'_, (Array,), Array>) -> Compiled<(Array,), Array> {
    f.lower(Aval::new(DType::F32, [16, 4])).unwrap().compile().unwrap()
}

fn collectives(f: Jit<'_, (Array,), Array>) -> Collectives {
    compiled(f).report().collectives().unwrap()
}

#[test]
fn collectives_report_kinds_counts_and_bytes() {
    let mesh = mesh();
    let (rows, whole) = (mesh.sharding(p!["i"]).unwrap(), mesh.replicated());
    let sums = jit(|x: Array| x.sum_axes([0])).in_shardings(&rows).out_shardings(&whole);
    let sums = collectives(sums);
    assert_eq!(sums.to_string(), "1 all-reduce");
    assert_eq!((sums.count(AllReduce), sums.bytes(AllReduce)), (1, 16));
    assert_eq!((sums.count(AllGather), sums.bytes(AllGather)), (0, 0));
    let gathered = jit(|x: Array| &x * 2.0).in_shardings(&rows).out_shardings(&whole);
    let gathered = collectives(gathered);
    assert_eq!(gathered.to_string(), "1 all-gather");
    assert_eq!(gathered.bytes(AllGather), 16 * 4 * 4);
    let alone = collectives(jit(|x: Array| &x * 2.0).in_shardings(&rows).out_shardings(&rows));
    assert!(alone.is_empty());
    assert_eq!(alone.to_string(), "none");
}

#[test]
fn collective_in_a_loop_counts_once() {
    let mesh = mesh();
    let around = jit(move |x: Array| {
        let turn = |x: Array| {
            let to_next: Vec<_> = (0..8).map(|from| (from, (from + 1) % 8)).collect();
            fori_loop(0, 5, |_, x: Array| ppermute(&x, "i", &to_next), x)
        };
        shard_map(turn, &mesh).in_specs(p!["i"]).out_specs(p!["i"]).apply(&x)
    });
    let found = collectives(around);
    assert_eq!(found.kinds().collect::<Vec<_>>(), [CollectivePermute]);
    assert_eq!(found.count(CollectivePermute), 1);
}
