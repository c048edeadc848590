//! Taylor mode, passes as functions, and reports of residuals.

use super::{close, f32s, value};
use oxidax::control_flow::Residual;
use oxidax::prelude::*;

#[test]
fn residuals_follow_the_policy() {
    let f = |x: &Array| sin(checkpoint_name(tanh(sin(x)), "t")).sum();
    let stored = |policy: Policy| {
        let options = RematOptions { policy, prevent_cse: false };
        let x = Array::from_slice(&[1.0f32; 3], [3]).unwrap();
        saved_residuals(remat_with(f, options), &x).len()
    };
    assert_eq!(stored(Policy::Nothing), 1);
    assert_eq!(stored(Policy::Everything), 4);
    assert_eq!(stored(Policy::any_names_but(["t"])), 1);
    assert_eq!(stored(Policy::any_names_but(["u"])), 2);
    assert_eq!(stored(Policy::Dots.or(Policy::names(["t"]))), 2);
    let tanh_only = |op: &dyn oxidax::core::Primitive, _: &[Aval]| match op.name() {
        "tanh" => Residual::Save,
        _ => Residual::Recompute,
    };
    assert_eq!(stored(Policy::custom(tanh_only)), 2);
}

mod on_cpu {
    use super::*;

    /// Returns the derivatives of orders 0 to 4 at 0.7.
    fn derivatives(f: impl Fn(&Array) -> Array) -> Vec<f32> {
        let series = [ones([]), zeros([]), zeros([]), zeros([])];
        let (y, series) = jet(|x: &Array| f(x), &f32s(&[0.7], &[]), series);
        std::iter::once(y).chain(series).map(|y| value(&y)).collect()
    }

    fn expect(found: Vec<f32>, expected: [f64; 5]) {
        for (found, expected) in found.into_iter().zip(expected) {
            let tolerance = 1e-5 * (1.0 + expected.abs());
            assert!((f64::from(found) - expected).abs() <= tolerance, "{found}, not {expected}");
        }
    }

    #[test]
    fn jet_equals_closed_forms() {
        let x = 0.7f64;
        let (s, c) = x.sin_cos();
        expect(derivatives(|x| sin(x)), [s, c, -s, -c, s]);
        expect(
            derivatives(|x| exp(&(x * 2.0))),
            [1.0, 2.0, 4.0, 8.0, 16.0].map(|k| k * (2.0 * x).exp()),
        );
        expect(
            derivatives(|x| log(x)),
            [x.ln(), 1.0 / x, -1.0 / x.powi(2), 2.0 / x.powi(3), -6.0 / x.powi(4)],
        );
        expect(
            derivatives(|x| 1.0 / (x + 1.0)),
            [1.0, -1.0, 2.0, -6.0, 24.0]
                .into_iter()
                .enumerate()
                .map(|(k, factor)| factor / (1.0 + x).powi(k as i32 + 1))
                .collect::<Vec<f64>>()
                .try_into()
                .unwrap(),
        );
        expect(derivatives(|x| integer_pow(x, 3)), [x.powi(3), 3.0 * x * x, 6.0 * x, 6.0, 0.0]);
        let t = x.tanh();
        let d = 1.0 - t * t;
        expect(
            derivatives(|x| tanh(x)),
            [t, d, -2.0 * t * d, d * (6.0 * t * t - 2.0), d * (16.0 * t - 24.0 * t.powi(3))],
        );
        let w = f32s(&[1.0, 2.0, 3.0, 4.0], &[2, 2]);
        expect(
            derivatives(|x| {
                let v = broadcast_to(x, [2]);
                w.matmul(&v).matmul(&v)
            }),
            [10.0 * x * x, 20.0 * x, 20.0, 0.0, 0.0],
        );
    }

    #[test]
    fn jet_of_a_curve_with_curvature() {
        // sin(t²) at 0: the second derivative is 2.
        let series = [zeros([]), full([], 2.0)];
        let (_, derivatives) = jet(|x: &Array| sin(x), &zeros([]), series);
        close(value(&derivatives[0]), 0.0);
        close(value(&derivatives[1]), 2.0);
    }

    #[test]
    fn passes_are_compiled_one_by_one() {
        let (forward, backward) = fwd_and_bwd(|x: &Array, w: &Array| sin(x) * w);
        let (forward, backward) = (jit(forward), jit(backward));
        for w in [2.0f32, 3.0] {
            let (y, pullback) = forward.call((zeros([3]), full([3], w))).unwrap();
            let (dx, dw) = backward.call(pullback, ones_like(&y)).unwrap();
            assert_eq!(dx.to_vec::<f32>().unwrap(), [w; 3]);
            assert_eq!(dw.to_vec::<f32>().unwrap(), [0.0; 3]);
        }
        assert_eq!((forward.stats().compiles, backward.stats().compiles), (1, 1));
    }

    #[test]
    fn second_derivatives_of_trees_are_trees_of_trees() {
        let pair = (f32s(&[1.0, 2.0], &[2]), f32s(&[3.0], &[]));
        let f = |(x, y): &(Array, Array)| (x * x * y).sum();
        let ((xx, xy), (yx, yy)) = hessian(f)(&pair);
        assert_eq!(xx.to_vec::<f32>().unwrap(), [6.0, 0.0, 0.0, 6.0]);
        assert_eq!(xy.to_vec::<f32>().unwrap(), [2.0, 4.0]);
        assert_eq!(yx.to_vec::<f32>().unwrap(), [2.0, 4.0]);
        close(value(&yy), 0.0);
        let both = |(x, y): &(Array, Array)| ((x * y, vec![x.sum()]), y.clone());
        for (jacobian, aux) in [jacfwd_aux(both)(&pair), jacrev_aux(both)(&pair)] {
            assert_eq!(jacobian.0.0.to_vec::<f32>().unwrap(), [3.0, 0.0, 0.0, 3.0]);
            assert_eq!(jacobian.0.1.to_vec::<f32>().unwrap(), [1.0, 2.0]);
            assert_eq!(jacobian.1[0].0.to_vec::<f32>().unwrap(), [1.0, 1.0]);
            close(value(&aux), 3.0);
        }
    }

    #[test]
    fn unrolled_loops_equal_rolled_ones() {
        for unroll in [Unroll::Steps(1), Unroll::Steps(4), Unroll::All] {
            let options = ForiLoopOptions { unroll };
            let power = |x: &Array| fori_loop_with(0, 5, |_: Array, y: Array| y * x, 1.0, options);
            close(value(&grad(power)(&f32s(&[2.0], &[]))), 80.0);
        }
    }
}
