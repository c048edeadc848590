//! Small programs without loops that are compiled as one kernel.

use oxidax::jit::{LoopForm, disable_loop_kernels};
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

/// Returns the reports of the program's loops as text.
fn reports(n: usize) -> Vec<String> {
    let state = (zeros([n]), eye(n));
    let lowered = jit(step).lower(&state, Aval::new(DType::F32, [])).unwrap();
    lowered.loops().unwrap().iter().map(ToString::to_string).collect()
}

mod on_cpu {
    use super::*;

    #[test]
    fn small_program_without_loops_is_one_kernel() {
        let reports = reports(4);
        let [report] = &reports[..] else { panic!("{reports:?}") };
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
        let kernel = f.call(&state(), scalar(0.7f32)).unwrap();
        let plain = disable_loop_kernels(|| f.call(&state(), scalar(0.7f32))).unwrap();
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
        let x = eye(3);
        let (zeros, kept, products) = f.call(&x, ones([2]), array![7.0f32, 8.0]).unwrap();
        assert_eq!(zeros.to_vec::<f32>().unwrap(), [32.0; 9]);
        assert_eq!(kept.to_vec::<f32>().unwrap(), [7.0, 8.0]);
        assert_eq!(products.diagonal().to_vec::<f32>().unwrap(), [0.5f32.powi(15); 3]);
    }

    #[test]
    fn larger_programs_and_those_that_fuse_are_not_kernels() {
        // Products of 64 × 64 are faster in the library.
        assert_eq!(reports(64), [""; 0]);
        let fused = jit(|x: Array| sin(&x) * 2.0 + cos(&x).sum());
        assert!(fused.lower(Aval::new(DType::F32, [8])).unwrap().loops().unwrap().is_empty());
        // A large argument that is only returned would be copied.
        let with_large = jit(|x: Array, large: Array| ((0..4).fold(x, |x, _| x.matmul(&x)), large));
        let [x, large] = [Aval::new(DType::F32, [3, 3]), Aval::new(DType::F32, [1 << 20])];
        assert!(with_large.lower(x, large).unwrap().loops().unwrap().is_empty());
        // A loop of the program is the kernel.
        let with_loop = jit(|x: Array| {
            let x = (0..4).fold(x, |x, _| x.matmul(&x));
            fori_loop(0, 9, |_, x: Array| sin(&x), x)
        });
        let loops = with_loop.lower(Aval::new(DType::F32, [3, 3])).unwrap().loops().unwrap();
        let forms: Vec<_> = loops.iter().map(|report| (report.name, &report.form)).collect();
        assert_eq!(forms, [("scan", &LoopForm::Kernel)]);
    }
}
