//! Programs for several devices, compiled for TPUs that nobody needs to have: one host's, and several hosts'.
//!
//! `OXIDAX_TEST_LIBTPU` names the library; `cargo xtask ci` sets it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod roofline;

mod tpu {
    use oxidax::ops::Tiling;
    use oxidax::prelude::*;
    use oxidax_pjrt::{CompileOptions, Executable, Plugin, Program, Topology};

    /// A slice of TPUs.
    pub(super) fn topology(slice: &str) -> Topology {
        let path = std::env::var_os("OXIDAX_TEST_LIBTPU").expect("set it to libtpu.so");
        let plugin = Plugin::load(path.as_ref()).unwrap();
        Topology::named(plugin, slice, &[]).unwrap()
    }

    /// Compiles StableHLO for a slice, over the first `devices` of it.
    pub(super) fn compiled(slice: &str, devices: usize, text: &str) -> Result<Executable, String> {
        let program = Program::mlir(text).unwrap();
        let compiled = topology(slice).compile(&program, &CompileOptions::spmd(devices));
        compiled.map_err(|error| format!("{slice}: {error}"))
    }

    fn compile(slice: &str, devices: usize, text: &str) -> Result<(), String> {
        compiled(slice, devices, text).map(drop)
    }

    fn f32s<const N: usize>(shape: [usize; N]) -> Aval {
        Aval::new(DType::F32, shape)
    }

    /// A step of a network with fully sharded parameters and batches, over all devices of a mesh.
    fn sharded_step(mesh: &Mesh) -> String {
        let [cut, rows] = [p!["data", "model"], p!["data"]].map(|s| mesh.sharding(s).unwrap());
        let step = jit(|w: Array, x: Array| {
            let loss = |w: &Array| tanh(&x.matmul(w)).mean();
            let (loss, slope) = value_and_grad(loss)(&w);
            (&w - slope * 0.1, loss)
        });
        let step = step.in_shardings((&cut, &rows)).out_shardings((&cut, &mesh.replicated()));
        step.lower((f32s([256, 256]), f32s([64, 256]))).unwrap().as_text("tpu").unwrap()
    }

    /// Every collective in one `shard_map`.
    fn collectives(mesh: &Mesh) -> String {
        let all: Vec<String> = mesh.axes().iter().map(|(name, _)| name.clone()).collect();
        let n = mesh.size("model").unwrap();
        let ring: Vec<(usize, usize)> = (0..n).map(|at| (at, (at + 1) % n)).collect();
        let each = PartitionSpec(vec![oxidax::core::AxisSpec(all.clone())]);
        let f = move |x: Array| {
            let sums = psum(&x, all.clone()) + pmax(&x, all.clone()) * pmin(&x, all.clone());
            let gathered = all_gather(&x, "data", 0, Tiling::Tiled).sum_axes([0]);
            let parts = psum_scatter(&x, "model", 1, Tiling::Tiled);
            let exchanged = all_to_all(&x, "model", 1, 1, Tiling::Tiled);
            let around = ppermute(&x, "model", &ring);
            let rank = axis_index("data");
            sums + gathered + parts.sum() + exchanged + around + rank
        };
        let mapped = shard_map(f, mesh).in_specs(each.clone()).out_specs(each);
        let mapped = jit(move |x: Array| mapped.call(&x));
        let rows = mesh.devices().len();
        mapped.lower(f32s([rows, 8 * n])).unwrap().as_text("tpu").unwrap()
    }

    #[test]
    fn one_host_and_several() {
        for (slice, data, model) in [
            ("v5e:2x2", 2, 2),
            ("v5e:4x4", 4, 4),
            ("v4:2x2x2", 4, 2),
            ("v5p:2x2x2", 4, 2),
            ("v6e:2x4", 2, 4),
        ] {
            let mesh = Mesh::without_devices([("data", data), ("model", model)]).unwrap();
            compile(slice, data * model, &sharded_step(&mesh)).unwrap();
            compile(slice, data * model, &collectives(&mesh)).unwrap();
        }
    }

    #[test]
    fn a_part_of_the_axes_and_loops() {
        let mesh = Mesh::without_devices([("data", 4), ("model", 4)]).unwrap();
        let mapped = shard_map(
            |x: Array| {
                let step = |h: Array, row: Array| (tanh(&(&h + &row)), ());
                let (h, ()) = scan(step, zeros([256], DType::F32), &x);
                psum(&h, "data")
            },
            &mesh,
        );
        let mapped = mapped.axis_names("data").in_specs(p!["data"]).out_specs(p![]);
        let f = jit(move |x: Array| grad(|x: &Array| mapped.call(x).sum())(&x));
        let f = f.in_shardings(mesh.sharding(p!["data", "model"]).unwrap());
        let text = f.lower(f32s([64, 256])).unwrap().as_text("tpu").unwrap();
        compile("v5e:4x4", 16, &text).unwrap();
    }
}
