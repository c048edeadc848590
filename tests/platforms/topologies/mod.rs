//! Programs compiled for TPU topologies without a TPU: one chip, one host, several hosts, several
//! slices.
//!
//! The tests need libtpu (`oxidax plugin install tpu`); `cargo xtask ci` installs it and runs them.

mod tpu {
    mod doctor;
    mod kernels;
    mod meshes;
    mod profiles;
    mod roofline;
    mod spread;

    use crate::callbacks::callbacks_compile;
    use crate::memory_kinds::{programs_take_and_return_host_memory, residuals_are_offloaded};
    use crate::ragged::slices_of_different_sizes_compile;
    use oxidax::jit::CompilerReport;
    use oxidax::ops::Tiling;
    use oxidax::prelude::*;

    fn f32s<const N: usize>(shape: [usize; N]) -> Aval {
        Aval::new(DType::F32, shape)
    }

    type ShardedStep = Compiled<(Array, Array), (Array, Array)>;

    /// Compiles a training step with fully sharded parameters and batches, over all devices of a
    /// mesh.
    fn sharded_step(mesh: &Mesh, topology: &Topology) -> ShardedStep {
        let [cut, rows] = [p!["data", "model"], p!["data"]].map(|s| mesh.sharding(s).unwrap());
        let step = jit(|w: Array, x: Array| {
            let loss = |w: &Array| tanh(x.matmul(w)).mean();
            let (loss, slope) = value_and_grad(loss)(&w);
            (&w - slope * 0.1, loss)
        });
        let step = step.in_shardings((&cut, &rows)).out_shardings((&cut, &mesh.replicated()));
        let lowered = step.lower(f32s([256, 256]), f32s([64, 256])).unwrap();
        lowered.compile_for(topology).unwrap()
    }

    /// Compiles every collective in one `shard_map`.
    fn collectives(mesh: &Mesh, topology: &Topology) -> CompilerReport {
        let all: Vec<String> = mesh.axes().iter().map(|(name, _)| name.clone()).collect();
        let n = mesh.size("model").unwrap();
        let ring: Vec<(usize, usize)> = (0..n).map(|at| (at, (at + 1) % n)).collect();
        let each = PartitionSpec(vec![oxidax::core::AxisSpec::Axes(all.clone())]);
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
        let mapped = jit(move |x: Array| mapped.apply(&x));
        let rows = mesh.devices().len();
        mapped.lower(f32s([rows, 8 * n])).unwrap().compile_for(topology).unwrap().report()
    }

    #[test]
    #[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
    fn values_are_stored_in_host_memory() {
        let topology = Topology::named("v5e:2x4").unwrap();
        let mesh = topology.mesh([("data", 8)]).unwrap();
        programs_take_and_return_host_memory(&topology, &mesh);
        residuals_are_offloaded(&topology);
    }

    #[test]
    #[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
    fn sharded_steps_compile_for_one_and_several_hosts() {
        for (slice, data, model) in [
            ("v3:2x2", 4, 2),
            ("v4:2x2x2", 4, 2),
            ("v5e:2x2", 2, 2),
            ("v5e:4x4", 4, 4),
            ("v5p:2x2x2", 4, 2),
            ("v6e:2x4", 2, 4),
            ("7x:2x2x1", 2, 4),
        ] {
            let topology = Topology::named(slice).unwrap();
            assert_eq!(topology.devices().len(), data * model, "{slice}");
            let axes = [("data", data), ("model", model)];
            let mesh = Mesh::without_devices(axes).unwrap();
            let step = sharded_step(&mesh, &topology).report();
            assert_eq!(step.memory_analysis().unwrap().arguments % 4, 0);
            assert_ne!(step.collectives().unwrap().to_string(), "none");
            collectives(&topology.mesh(axes).unwrap(), &topology);
        }
    }

    #[test]
    #[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
    fn shardings_in_types_compile() {
        let mesh = Mesh::without_devices([("data", 2), ("model", 2)]).unwrap().explicit();
        let typed = |shape: [usize; 2], spec| {
            Array::of_type(f32s(shape).with_sharding(&mesh.sharding(spec).unwrap()))
        };
        let rows = mesh.sharding(p!["data"]).unwrap();
        let step = jit(move |w: (Array, Array), x: Array| {
            let loss = |(up, down): &(Array, Array)| {
                let options = MatmulOptions { out_sharding: Some(&rows), ..Default::default() };
                matmul_with(&tanh(x.matmul(up)), down, options).mean()
            };
            let (loss, slope) = value_and_grad(loss)(&w);
            ((&w.0 - slope.0 * 0.1, &w.1 - slope.1 * 0.1), loss)
        });
        let weights = (typed([256, 512], p![None, "model"]), typed([512, 256], p!["model"]));
        let lowered = step.lower(&weights, typed([64, 256], p!["data"])).unwrap();
        let types: Vec<String> =
            lowered.program().avals_out().iter().map(|aval| aval.to_string()).collect();
        assert_eq!(types, ["f32[256,512@model]", "f32[512@model,256]", "f32[]"]);
        let compiled = lowered.compile_for(&Topology::named("v5e:2x2").unwrap()).unwrap();
        let found = compiled.report().collectives().unwrap().to_string();
        // Sums over `model` in the forward pass and over `data` in the backward pass.
        assert!(found.contains("all-reduce") && !found.contains("all-gather"), "{found}");
    }

    #[test]
    #[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
    fn slices_of_different_sizes_are_exchanged() {
        let topology = Topology::named("v5e:2x4").unwrap();
        let mesh = topology.mesh([("data", 8)]).unwrap();
        use DType::{BF16, Bool, F32, I8, I32};
        slices_of_different_sizes_compile(&topology, &mesh, &[Bool, I8, I32, BF16, F32]);
    }

    #[test]
    #[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
    fn partial_axes_and_loops_compile() {
        let topology = Topology::named("v5e:4x4").unwrap();
        let mesh = topology.mesh([("data", 4), ("model", 4)]).unwrap();
        let mapped = shard_map(
            |x: Array| {
                let step = |h: Array, row: Array| (tanh(&(&h + &row)), ());
                let (h, ()) = scan(step, zeros([256]), &x);
                psum(&h, "data")
            },
            &mesh,
        );
        let mapped = mapped.axis_names("data").in_specs(p!["data"]).out_specs(p![]);
        let f = jit(move |x: Array| grad(|x: &Array| mapped.apply(x).sum())(&x));
        let f = f.in_shardings(mesh.sharding(p!["data", "model"]).unwrap());
        f.lower(f32s([64, 256])).unwrap().compile_for(&topology).unwrap();
    }

    #[test]
    #[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
    fn several_slices_compile() {
        let slices = Topology::of_slices("v5e:2x2", 2).unwrap();
        let slice = |device: &Device| device.slice_index();
        assert_eq!(
            slices.devices().iter().map(slice).collect::<Vec<_>>(),
            [0, 0, 0, 0, 1, 1, 1, 1]
        );
        let across = Mesh::across_slices(slices.devices(), [("data", 2)], [("model", 4)]).unwrap();
        assert!(!sharded_step(&across, &slices).serialize().unwrap().is_empty());
    }

    #[test]
    #[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
    fn topology_reports_its_devices() {
        // A v4 chip is one device, as on Cloud TPU VMs. A v3 or 7x chip is two.
        for (name, kind, devices, per_chip, processes, gib) in [
            ("v3:2x2", "TPU v3", 8, 2, 1, 15.5),
            ("v4:2x2x2", "TPU v4", 8, 1, 2, 30.7),
            ("v5e:1x1", "TPU v5 lite", 1, 1, 1, 15.7),
            ("v5p:2x2x2", "TPU v5", 8, 1, 2, 95.7),
            ("v6e:2x4", "TPU v6 lite", 8, 1, 2, 31.2),
            ("7x:2x2x1", "TPU7x", 8, 2, 1, 94.7),
        ] {
            let topology = Topology::named(name).unwrap();
            assert_eq!(
                (topology.name(), topology.platform(), topology.kind()),
                (name, "tpu", kind)
            );
            assert_eq!(topology.devices().len(), devices, "{name}");
            assert_eq!(topology.devices_per_chip(), per_chip, "{name}");
            assert_eq!(topology.process_count(), processes, "{name}");
            let memory = topology.memory().unwrap() as f64 / (1u64 << 30) as f64;
            assert!((memory - gib).abs() < 0.1, "{name}: {memory}");
        }
        let topology = Topology::named("v5e:4x4").unwrap();
        assert_eq!(topology.coordinates(topology.devices().last().unwrap()), [3, 3, 0]);
        let error = Topology::named("v9:1x1").unwrap_err().to_string();
        assert!(
            error.contains("`v9:1x1` is not a topology") && error.contains("`v5p:2x2x1`"),
            "{error}"
        );
        assert!(Topology::of_slices("v5e:2x2", 0).unwrap_err().to_string().contains("0 slices"));
    }

    #[test]
    #[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
    fn report_serialize_and_debug() {
        let topology = Topology::named("v5e:1x1").unwrap();
        let square = jit(|x: Array| x.matmul(&x)).name("square");
        let x = Aval::new(DType::BF16, [1024, 1024]);
        let compiled = square.lower(&x).unwrap().compile_for(&topology).unwrap();
        let memory = compiled.report().memory_analysis().unwrap();
        assert_eq!((memory.arguments, memory.results), (2 << 20, 2 << 20));
        assert!(memory.total() >= memory.arguments + memory.results - memory.aliased);
        assert_eq!(compiled.report().cost_analysis().unwrap()["flops"], 2f64.powi(31));
        assert_eq!(oxidax::passes::cost(compiled.program().unwrap()).flops, 1 << 31);
        assert!(!compiled.report().optimized_hlo().unwrap().is_empty());
        assert_eq!(format!("{compiled:?}"), "Compiled(square for v5e:1x1)");
        let bytes = compiled.serialize().unwrap();
        let read = Compiled::<(Array,), Array>::deserialize(&bytes, &x, &x);
        let error = read.unwrap_err().to_string();
        assert!(error.contains("square: this program does not run here"), "{error}");
        assert!(error.contains("it was compiled for tpu: this host has no TPU"), "{error}");
    }

    /// Twelve layers whose activations are stored for the derivative.
    fn deep(w: Array, x: Array) -> Array {
        let loss = |w: &Array| (0..12).fold(x.clone(), |h, _| tanh(h.matmul(w))).mean();
        grad(loss)(&w)
    }

    #[test]
    #[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
    fn too_large_step_names_the_overrun_and_lines() {
        let topology = Topology::named("v5e:1x1").unwrap();
        let lowered = jit(deep).lower(f32s([4096, 4096]), f32s([1 << 18, 4096])).unwrap();
        let error = lowered.compile_for(&topology).unwrap_err();
        let Error::TooLarge { needed, available, .. } = error else { panic!("{error}") };
        assert!(needed > available && available > 15 << 30, "{error}");
        let error = error.to_string();
        assert!(
            error.starts_with("error[memory]: deep, for v5e:1x1: does not fit: it needs "),
            "{error}"
        );
        assert!(error.contains("GiB on a device, which has 15.75 GiB: "), "{error}");
        assert!(error.contains(" bytes) too many"), "{error}");
        assert!(
            error.contains("× f32[262144,4096]") && error.contains("topologies/mod.rs:"),
            "{error}"
        );
        assert!(error.contains("help: use a smaller batch, `bf16`, or `remat`"), "{error}");
    }

    #[test]
    #[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
    fn mesh_with_too_many_devices_is_an_error() {
        let topology = Topology::named("v5e:2x2").unwrap();
        let mesh = Mesh::without_devices([("data", 8)]).unwrap();
        let f = jit(|x: Array| tanh(&x)).in_shardings(mesh.sharding(p!["data"]).unwrap());
        let error = f.lower(f32s([8])).unwrap().compile_for(&topology).unwrap_err().to_string();
        assert!(error.contains("Mesh(data=8) has 8 devices, the topology 4"), "{error}");
        let own = topology.mesh([("data", 4)]).unwrap();
        let f = jit(|x: Array| tanh(&x)).in_shardings(own.sharding(p!["data"]).unwrap());
        let error = f.call(ones([8])).unwrap_err().error.to_string();
        assert!(error.contains("was made `without_devices`"), "{error}");
    }

    #[test]
    #[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
    fn callbacks_compile_for_tpus() {
        let topology = Topology::named("v5e:2x2").unwrap();
        callbacks_compile(&topology, &topology.mesh([("data", 4)]).unwrap());
    }

    #[test]
    #[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
    fn optimized_text_and_options_of_a_tpu_program() {
        let topology = Topology::named("v5e:1x1").unwrap();
        let f = jit(|x: Array| tanh(&x) * 2.0 + exp(&x));
        let lowered = f.lower(f32s([256, 256])).unwrap();
        let options = [("xla_tpu_scoped_vmem_limit_kib", 32_768)];
        let compiled = lowered.compile_for_with(&topology, options).unwrap();
        let text = compiled.as_text().unwrap();
        assert!(text.contains("ENTRY %") && text.contains("T(8,128)"), "{text}");
        let fusions = compiled.report().fusions().unwrap();
        let fusion = fusions.iter().find(|fusion| fusion.operations.contains(&"tanh".into()));
        let sources = &fusion.unwrap().sources;
        assert!(sources.iter().any(|line| line.file.ends_with("topologies/mod.rs")), "{sources:?}");
        let error = lowered.compile_for_with(&topology, [("xla_tpu_no_such_flag", true)]);
        let error = error.unwrap_err().to_string();
        assert!(error.contains("refuses the compiler option `xla_tpu_no_such_flag`"), "{error}");
    }
}
