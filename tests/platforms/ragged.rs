//! Exchanges of slices of different sizes, compiled for a topology.

use oxidax::jit::Collective;
use oxidax::prelude::*;

/// Compiles a `ragged_all_to_all` and its derivative over all devices of a mesh and in groups, for
/// several dtypes. The compiler's own exchange is used.
pub fn slices_of_different_sizes_compile(topology: &Topology, mesh: &Mesh, dtypes: &[DType]) {
    let n = mesh.devices().len();
    let pairs: Vec<Vec<usize>> = (0..n / 2).map(|index| vec![index, index + n / 2]).collect();
    for (axes, slices) in
        [(AxisNames::from("data"), 2 * n), (AxisNames::from("data").axis_index_groups(pairs), 4)]
    {
        for &dtype in dtypes {
            let axes = axes.clone();
            let exchange = move |x: Array, y: Array, indices: Array| {
                let index =
                    |at: isize| reshape(&slice_in_dim(&indices, at, at + 1, 1, 1), [slices]);
                let [from, sizes, to, received] = [0, 1, 2, 3].map(index);
                let send = |x: &Array, y: &Array| {
                    ragged_all_to_all(x, y, &from, &sizes, &to, &received, axes.clone())
                };
                let result = send(&x, &y);
                match dtype.is_inexact() {
                    true => result + grad(|y: &Array| send(&x, y).real().sum())(&y).real(),
                    false => result,
                }
            };
            let mapped = shard_map(exchange, mesh).in_specs(p!["data"]).out_specs(p!["data"]);
            let mapped = jit(move |x: Array, y: Array, indices: Array| mapped.apply(x, y, indices));
            let rows = Aval::new(dtype, [n * 64, 8]);
            let indices = Aval::new(DType::I32, [n * slices, 4]);
            let lowered = mapped.lower(rows.clone(), rows, indices).unwrap();
            let report = lowered.compile_for(topology).unwrap().report();
            let collectives = report.collectives().unwrap();
            assert_eq!(collectives.count(Collective::AllGather), 0, "{dtype}: {collectives}");
            assert_ne!(collectives.count(Collective::AllToAll), 0, "{dtype}: {collectives}");
        }
    }
}
