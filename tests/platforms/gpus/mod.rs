//! Programs compiled for GPU topologies without a GPU.
//!
//! The tests need the CUDA plugin (`oxidax plugin install cuda`); `cargo xtask ci` installs it and
//! runs them.

mod gpu {
    mod kernels;

    use crate::callbacks::callbacks_compile;
    use crate::memory_kinds::{programs_take_and_return_host_memory, residuals_are_offloaded};
    use crate::ragged::slices_of_different_sizes_compile;
    use oxidax::doctor::{Topic, examine};
    use oxidax::prelude::*;

    #[test]
    #[ignore = "needs the CUDA plugin: `cargo xtask gpu` runs it"]
    fn values_are_stored_in_host_memory() {
        let topology = Topology::named("h100:8").unwrap();
        let mesh = topology.mesh([("data", 8)]).unwrap();
        programs_take_and_return_host_memory(&topology, &mesh);
        residuals_are_offloaded(&topology);
    }

    #[test]
    #[ignore = "needs the CUDA plugin: `cargo xtask gpu` runs it"]
    fn step_on_eight_gpus_is_compiled_and_examined() {
        let topology = Topology::named("h100:8").unwrap();
        assert_eq!((topology.platform(), topology.devices().len()), ("cuda", 8));
        assert_eq!(topology.kind(), "NVIDIA H100 80GB HBM3");
        let mesh = topology.mesh([("data", 8)]).unwrap();
        let step = jit(|w: Array, x: Array| {
            let loss = |w: &Array| tanh(x.matmul(w)).mean();
            let (loss, slope) = value_and_grad(loss)(&w);
            (&w - slope * 0.1, loss)
        });
        let (whole, rows) = (mesh.replicated(), mesh.sharding(p!["data"]).unwrap());
        let step = step.in_shardings((&whole, &rows)).out_shardings(&whole);
        let (w, x) = (Aval::new(DType::F32, [512, 512]), Aval::new(DType::F32, [1024, 512]));
        let report = examine(&step.lower(w, x).unwrap(), &topology).unwrap();
        assert!(report.fits && report.devices == 8, "{report}");
        assert!(report.collectives.as_ref().unwrap().contains("all-reduce"), "{report}");
        let prediction = report.prediction.as_ref().unwrap();
        assert_eq!(prediction.device.name, "h100");
        assert!(report.advice.iter().any(|advice| advice.topic == Topic::Float32), "{report}");
    }

    /// Rematerialized layers in a loop of Rust keep their arguments only.
    #[test]
    #[ignore = "needs the CUDA plugin: `cargo xtask gpu` runs it"]
    fn remat_reduces_memory() {
        let topology = Topology::named("h100:1").unwrap();
        let temporaries = |is_remat: bool| {
            let layer =
                |x: &Array, w: &Array| (0..4).fold(x.clone(), |x, _| sin(tanh(x.matmul(w)) * 2.0));
            let step = jit(move |weights: Vec<Array>, x: Array| {
                let loss = |weights: &Vec<Array>| {
                    let step = |x: Array, w: &Array| match is_remat {
                        true => remat(layer)(&x, w),
                        false => layer(&x, w),
                    };
                    weights.iter().fold(x.clone(), step).sum()
                };
                grad(loss)(&weights)
            });
            let weights = vec![zeros([256, 256]); 12];
            let lowered = step.lower(&weights, Aval::new(DType::F32, [4096, 256])).unwrap();
            let compiled = lowered.compile_for(&topology).unwrap();
            compiled.report().memory_analysis().unwrap().temporaries
        };
        let (plain, rematerialized) = (temporaries(false), temporaries(true));
        assert!(2 * rematerialized < plain, "{rematerialized} and {plain} bytes");
    }

    #[test]
    #[ignore = "needs the CUDA plugin: `cargo xtask gpu` runs it"]
    fn slices_of_different_sizes_are_exchanged() {
        let topology = Topology::named("h100:8").unwrap();
        let mesh = topology.mesh([("data", 8)]).unwrap();
        use DType::{BF16, Bool, C64, F8E4M3FN, F32, I4, I64};
        let dtypes = [Bool, I4, I64, F8E4M3FN, BF16, F32, C64];
        slices_of_different_sizes_compile(&topology, &mesh, &dtypes);
    }

    #[test]
    #[ignore = "needs the CUDA plugin: `cargo xtask gpu` runs it"]
    fn unknown_kind_is_an_error() {
        let error = Topology::named("rtx:1").unwrap_err().to_string();
        assert!(error.contains("`rtx:1` is not a topology"), "{error}");
        assert!(error.contains("describes no GPU `rtx`") && error.contains("h100"), "{error}");
    }

    #[test]
    #[ignore = "needs the CUDA plugin: `cargo xtask gpu` runs it"]
    fn callbacks_compile_for_gpus() {
        let topology = Topology::named("h100:4").unwrap();
        callbacks_compile(&topology, &topology.mesh([("data", 4)]).unwrap());
        let lowered = jit(|x: Array| x + 1.0).lower(Aval::new(DType::F32, [4])).unwrap();
        let error = lowered.compile_for_with(&topology, [("xla_gpu_no_such_flag", true)]);
        let error = error.unwrap_err().to_string();
        assert!(error.contains("refuses the compiler option `xla_gpu_no_such_flag`"), "{error}");
    }
}
