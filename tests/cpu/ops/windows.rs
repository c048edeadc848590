//! Pooling, windows and convolution of vectors compared with plain loops.

use crate::arrays::scattered;
use crate::ops::support::{assert_close, counting, f32s, f64s, vector};
use oxidax::prelude::*;
use oxidax::primitives::Window;

mod on_cpu {
    use super::*;

    #[test]
    fn pooling_reduces_windows() {
        let x = counting(&[1, 4, 4, 1]);
        assert_eq!(f32s(&max_pool(&x, &[2, 2], &[2, 2], Padding::Valid)), [5.0, 7.0, 13.0, 15.0]);
        assert_eq!(f32s(&min_pool(&x, &[2, 2], &[2, 2], Padding::Valid)), [0.0, 2.0, 8.0, 10.0]);
        let mean = avg_pool(&x, &[2, 2], &[2, 2], Padding::Valid);
        assert_eq!(f32s(&mean), [2.5, 4.5, 10.5, 12.5]);
    }

    #[test]
    fn avg_pool_includes_or_excludes_padding() {
        let x = Array::from_slice(&[2.0f32, 4.0, 6.0], [1, 3, 1]).unwrap();
        let mean = |count_include_pad| {
            let options = AvgPoolOptions { count_include_pad };
            f32s(&avg_pool_with(&x, &[3], &[], Padding::Same, options))
        };
        assert_eq!(mean(true), [2.0, 4.0, 10.0 / 3.0]);
        assert_eq!(mean(false), [3.0, 4.0, 5.0]);
    }

    /// The gradient of each window goes to its largest element.
    #[test]
    fn max_pool_gradient_goes_to_the_maximum() {
        let x = counting(&[1, 3, 3, 1]);
        let total = |x: &Array| max_pool(x, &[2, 2], &[], Padding::Valid).sum();
        let expected = [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0];
        assert_eq!(f32s(&grad(total)(&x)), expected);
    }

    #[test]
    fn reduce_window_accepts_any_function() {
        let x = vector(&[0.0, 1.0, 2.0, 3.0]);
        let window = Window {
            dimensions: vec![3],
            padding: Padding::Explicit(vec![(2, 0)]),
            ..Window::default()
        };
        let log = reduce_window(&x, f32::NEG_INFINITY, |a, b| logaddexp(a, b), &window);
        let exps: Vec<f64> = (0..4).map(|i| f64::from(i).exp()).collect();
        let expected = [exps[0], exps[0] + exps[1], exps[..3].iter().sum(), exps[1..].iter().sum()];
        let found: Vec<f64> = f32s(&log).into_iter().map(f64::from).collect();
        assert_close(&found, &expected.map(f64::ln), 1e-6);
        // Not commutative: the earlier element wins.
        let firsts = reduce_window(&x, 9.0, |a, _| a.clone(), &window);
        assert_eq!(f32s(&firsts), [9.0; 4]);
    }

    #[test]
    fn convolve_and_correlate() {
        let (x, y) = (scattered(&[7], 1), scattered(&[3], 2));
        let (a, b) = (f64s(&x), f64s(&y));
        let full: Vec<f64> = (0..9)
            .map(|k| (0..7).filter(|i| k >= *i && k - i < 3).map(|i| a[i] * b[k - i]).sum())
            .collect();
        assert_close(&f64s(&convolve(&x, &y, ConvolveMode::Full)), &full, 1e-12);
        assert_close(&f64s(&convolve(&y, &x, ConvolveMode::Same)), &full[1..8], 1e-12);
        assert_close(&f64s(&convolve(&x, &y, ConvolveMode::Valid)), &full[2..7], 1e-12);
        let turned = rev(&y, &[0]);
        assert_close(&f64s(&correlate(&x, &turned, ConvolveMode::Full)), &full, 1e-12);
    }

    /// The tangent of `y = a·y + b` with respect to both operands, compared with a loop.
    #[test]
    fn linear_recurrence_equals_a_loop() {
        let (a, b) = (scattered(&[6], 3), scattered(&[6], 4));
        let (x, y) = (f64s(&a), f64s(&b));
        let mut state = 0.0;
        let expected: Vec<f64> = x
            .iter()
            .zip(&y)
            .map(|(a, b)| {
                state = a * state + b;
                state
            })
            .collect();
        let found = linear_recurrence(&a, &b, 0);
        assert_close(&f64s(&found), &expected, 1e-12);
    }
}

#[test]
fn errors_name_operands_that_do_not_fit() {
    let line = |error: Error| error.to_string().lines().next().unwrap_or_default().to_string();
    let image = Aval::new(DType::F32, [4, 4, 1]);
    let flat = eval_shape(|x: Array| max_pool(&x, &[2, 2], &[], Padding::Same), image).unwrap_err();
    assert_eq!(
        line(flat),
        "error[shape]: max_pool: a window over 2 axes with 0 strides needs an operand with axes \
         batch, 2 spatial ones and channels, got f32[4,4,1]"
    );
    let empty = (Aval::new(DType::F32, [0]), Aval::new(DType::F32, [3]));
    let error = eval_shape(|x: Array, y: Array| convolve(&x, &y, ConvolveMode::Full), empty);
    assert_eq!(
        line(error.unwrap_err()),
        "error[shape]: convolve: takes two vectors with at least one element, got f32[0] and f32[3]"
    );
    let scalar = Aval::new(DType::F32, []);
    let error = eval_shape(|x: Array| cumulative_sum(&x, 0), scalar).unwrap_err();
    assert_eq!(
        line(error),
        "error[shape]: cumulative_sum: needs an array with an axis, got a scalar"
    );
}
