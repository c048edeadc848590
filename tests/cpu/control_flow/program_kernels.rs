//! Small programs without loops that are compiled as one kernel on request.

use oxidax::jit::{LoopForm, LoopReport, disable_loop_kernels, enable_program_kernels};
use oxidax::prelude::*;

/// A step of a Kalman filter with a state of `n` dimensions: its mean and covariance.
fn step(state: &(Array, Array), observed: &Array) -> (Array, Array) {
    let (mean, p) = state;
    let n = mean.size();
    let transition = eye(n) * 0.95 + eye_with(n, EyeOptions { offset: 1 }) * 0.1;
    let mean = transition.matmul(mean);
    let p = transition.matmul(p).matmul(&transition.t()) + eye(n) * 0.1;
    let ph = p.sum_axes(-1);
    let gain = &ph / (ph.sum() + 0.5);
    let error = observed - mean.sum();
    (mean + &gain * error, p - outer(&gain, &ph))
}

/// Returns the report of the program's filter with `n` dimensions as text.
fn report(n: usize) -> String {
    let state = (zeros([n]), eye(n));
    let lowered = jit(step).lower(&state, Aval::new(DType::F32, [])).unwrap();
    only(lowered.loops()).to_string()
}

/// Returns the report of a program that has no loops.
fn only(reports: Result<Vec<LoopReport>, Error>) -> LoopReport {
    let reports = reports.unwrap();
    let [report] = &reports[..] else { panic!("{reports:?}") };
    report.clone()
}

mod on_cpu {
    use super::*;

    #[test]
    fn small_program_without_loops_is_one_kernel() {
        let report = enable_program_kernels(|| report(4));
        assert!(report.ends_with(": program: one kernel"), "{report}");
        assert!(report.contains("program_kernels.rs:"), "{report}");
    }

    #[test]
    fn kernel_of_a_program_computes_what_its_operations_do() {
        let f = jit(step);
        let state = || {
            let mean = Array::from_slice(&[1.0f32, -2.0, 0.5, 3.0], [4]).unwrap();
            (mean, eye(4) * 2.0)
        };
        let call = || f.call(state(), scalar(0.7f32)).unwrap();
        let (kernel, plain) = (enable_program_kernels(call), call());
        assert_eq!(f.stats().compiles, 2, "the scope is part of the key");
        for (kernel, plain) in [(kernel.0, plain.0), (kernel.1, plain.1)] {
            assert_eq!(kernel.aval(), plain.aval());
            let [kernel, plain] = [kernel, plain].map(|x| x.to_vec::<f32>().unwrap());
            for (kernel, plain) in kernel.iter().zip(&plain) {
                assert!((kernel - plain).abs() <= 1e-5 * plain.abs().max(1.0));
            }
        }
    }

    #[test]
    fn arguments_that_a_kernel_ignores_or_returns_do_not_end_the_process() {
        let f = jit(|x: Array, ignored: Array, kept: Array| {
            let products = (0..4).fold(x, |x, _| x.matmul(&x) * 0.5);
            (&products * 0.0 + ignored.dtype().bits() as f32, kept, products)
        });
        let call = || f.call(eye(3), ones([2]), array![7.0f32, 8.0]).unwrap();
        let (zeros, kept, products) = enable_program_kernels(call);
        assert_eq!(zeros.to_vec::<f32>().unwrap(), [32.0; 9]);
        assert_eq!(kept.to_vec::<f32>().unwrap(), [7.0, 8.0]);
        assert_eq!(products.diagonal().to_vec::<f32>().unwrap(), [0.5f32.powi(15); 3]);
    }

    #[test]
    fn programs_that_would_gain_little_report_the_reason() {
        enable_program_kernels(|| {
            // Products of 64 × 64 are faster in the library.
            let large = report(64);
            assert!(large.contains("operation by operation: a product of [64,64] and"), "{large}");
            let fused = jit(|x: Array| sin(&x) * 2.0 + cos(&x).sum());
            let fused = only(fused.lower(Aval::new(DType::F32, [8])).unwrap().loops());
            let reason = "1 products, reductions and decompositions, fewer than 4";
            assert_eq!(fused.form, LoopForm::Operations(reason.into()));
            // An argument that is only returned would be copied.
            let with_large = |x: Array, large: Array| ((0..4).fold(x, |x, _| x.matmul(&x)), large);
            let [x, large] = [Aval::new(DType::F32, [3, 3]), Aval::new(DType::F32, [1 << 20])];
            let report = only(jit(with_large).lower(x, large).unwrap().loops()).to_string();
            assert!(report.contains("f32[1048576] has 4194304 bytes, more than"), "{report}");
        });
    }

    #[test]
    fn programs_are_not_kernels_unless_asked_and_not_if_they_have_loops() {
        let [x, state] = [Aval::new(DType::F32, [3, 3]), Aval::new(DType::F32, [4])];
        let products = |x: Array| (0..4).fold(x, |x, _| x.matmul(&x));
        assert_eq!(jit(products).lower(&x).unwrap().loops().unwrap(), []);
        let neither = || disable_loop_kernels(|| jit(products).lower(&x).unwrap().loops().unwrap());
        assert_eq!(enable_program_kernels(neither), []);
        // A loop of the program is the kernel.
        let with_loop =
            jit(move |x: Array, y: Array| (products(x), fori_loop(0, 9, |_, y: Array| sin(&y), y)));
        let loops = enable_program_kernels(|| with_loop.lower(x, state).unwrap().loops().unwrap());
        let forms: Vec<_> = loops.iter().map(|report| (report.name, &report.form)).collect();
        assert_eq!(forms, [("scan", &LoopForm::Kernel)]);
    }
}
