//! Values in host memory, compiled for topologies.

use oxidax::jit::MemoryAnalysis;
use oxidax::prelude::*;

const HOST: MemoryKind = MemoryKind::PinnedHost;
/// 4 MiB.
const SIZE: usize = 1 << 20;

fn analysis<A: oxidax::tree::Args, O: Tree>(
    lowered: &oxidax::jit::Lowered<A, O>,
    topology: &Topology,
) -> MemoryAnalysis {
    lowered.compile_for(topology).unwrap().report().memory_analysis().unwrap()
}

/// Checks the memories of the arguments and results of programs, on one device and on a mesh.
pub fn programs_take_and_return_host_memory(topology: &Topology, mesh: &Mesh) {
    let bytes = 4 * SIZE as u64;
    let aval = || Aval::new(DType::F32, [SIZE / 1024, 1024]);
    let moved = jit(|x: Array| {
        let on_device = with_memory_kind(&x, MemoryKind::Device);
        with_memory_kind(&(sin(&on_device) + 1.0), HOST)
    });
    let there = moved.lower(aval().with_memory(HOST)).unwrap();
    assert!(there.as_text(topology.platform()).unwrap().contains("annotate_device_placement"));
    let there = analysis(&there, topology);
    assert_eq!((there.arguments, there.results), (0, 0), "{there:?}");
    assert_eq!((there.host_arguments, there.host_results), (bytes, bytes), "{there:?}");
    // Without a move, the compiler copies the values or computes on the host.
    let same = jit(|x: Array| sin(&x) + 1.0).lower(aval().with_memory(HOST)).unwrap();
    let same = analysis(&same, topology);
    assert_eq!((same.host_arguments, same.host_results), (bytes, bytes), "{same:?}");

    let rows = mesh.sharding(p!["data"]).unwrap();
    let host = rows.with_memory_kind(HOST);
    let step = jit(|w: Array, momentum: Array, x: Array| {
        let slope = grad(|w: &Array| tanh(x.matmul(w)).mean())(&w);
        let momentum = with_memory_kind(&momentum, MemoryKind::Device) * 0.9 + slope;
        (w - &momentum * 0.1, momentum)
    });
    let step = step.in_shardings((&rows, &host, &rows)).out_shardings((&rows, &host));
    let square = || Aval::new(DType::F32, [1024, 1024]);
    let lowered = step.lower(square(), square().with_memory(HOST), square()).unwrap();
    let spread = analysis(&lowered, topology);
    let part = bytes / mesh.devices().len() as u64;
    assert_eq!((spread.host_arguments, spread.host_results), (part, part), "{spread:?}");
    assert_eq!(spread.arguments, 2 * part, "{spread:?}");
    // The compiler adds a table of pointers.
    assert!((part..part + 1024).contains(&spread.results), "{spread:?}");
}

/// Checks that residuals of a loop over layers are stored in host memory.
pub fn residuals_are_offloaded(topology: &Topology) {
    let gradient = |policy: Policy| {
        jit(move |x: Array, w: Array| {
            let options = RematOptions { policy: policy.clone(), ..RematOptions::default() };
            let block = remat_with(
                |x: &Array, w: &Array| sin(checkpoint_name(tanh(x.matmul(w)), "hidden")),
                options,
            );
            let loss = |w: &Array| {
                let step = |x: Array, w: Array| (block(&x, &w), ());
                scan(step, x.clone(), w.clone()).0.sum()
            };
            grad(loss)(&w)
        })
    };
    let of = |policy: Policy| {
        let (x, w) = (Aval::new(DType::F32, [4096, 512]), Aval::new(DType::F32, [16, 512, 512]));
        analysis(&gradient(policy).lower(x, w).unwrap(), topology)
    };
    let kept = of(Policy::names(["hidden"]));
    let offloaded = of(Policy::save_and_offload([], ["hidden"]));
    // 16 layers of 4096 × 512 values.
    let stacked = 16 * 4096 * 512 * 4;
    assert_eq!(kept.host_temporaries, 0, "{kept:?}");
    assert!(offloaded.host_temporaries >= stacked, "{offloaded:?}");
    assert!(offloaded.temporaries + stacked / 2 < kept.temporaries, "{kept:?}, {offloaded:?}");
}
