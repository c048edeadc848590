//! Elementwise functions and their derivatives at the points where conventions decide.

use num_complex::Complex32;
use oxidax::prelude::*;
use oxidax::primitives::{ComparisonDirection, compare_total, fill_of};
use std::f32::consts::{FRAC_PI_2, PI};

fn f32s(elements: &[f32]) -> Array {
    Array::from_slice(elements, [elements.len()]).unwrap()
}

fn i32s(elements: &[i32]) -> Array {
    Array::from_slice(elements, [elements.len()]).unwrap()
}

fn c64s(elements: &[(f32, f32)]) -> Array {
    let elements: Vec<Complex32> =
        elements.iter().map(|&(re, im)| Complex32::new(re, im)).collect();
    Array::from_slice(&elements, [elements.len()]).unwrap()
}

/// Asserts that arrays are equal bit for bit, except that all NaNs are equal.
#[track_caller]
fn exactly(x: &Array, expected: &[f32]) {
    let actual = x.to_vec::<f32>().unwrap();
    let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
    assert!(
        actual.len() == expected.len() && actual.iter().zip(expected).all(same),
        "{actual:?} is not {expected:?}"
    );
}

#[track_caller]
fn closely(x: &Array, expected: &[(f32, f32)]) {
    let actual = x.to_vec::<Complex32>().unwrap();
    assert_eq!(actual.len(), expected.len());
    for (a, &(re, im)) in actual.iter().zip(expected) {
        let b = Complex32::new(re, im);
        assert!((a - b).norm() <= 4e-7 * b.norm(), "{actual:?} is not {expected:?}");
    }
}

/// Returns the derivative of an elementwise function at every element.
fn slope(f: impl Fn(Array) -> Array, x: &Array) -> Array {
    grad(|x: &Array| reduce_sum(&f(x.clone()), &[0]))(x)
}

/// Returns the derivatives of an elementwise function of two operands.
fn slopes(f: impl Fn(&Array, &Array) -> Array, x: &Array, y: &Array) -> (Array, Array) {
    let total = |(x, y): &(Array, Array)| reduce_sum(&f(x, y), &[0]);
    grad(total)(&(x.clone(), y.clone()))
}

const INF: f32 = f32::INFINITY;
const NAN: f32 = f32::NAN;

mod on_cpu {
    use super::*;

    #[test]
    fn ties_round_where_the_function_says() {
        let x = f32s(&[-2.5, -1.5, -0.5, -0.0, 0.5, 1.5, 2.5, INF, NAN]);
        exactly(&round(&x), &[-2.0, -2.0, -0.0, -0.0, 0.0, 2.0, 2.0, INF, NAN]);
        exactly(&round_half_away(&x), &[-3.0, -2.0, -1.0, -0.0, 1.0, 2.0, 3.0, INF, NAN]);
        exactly(&floor(&x), &[-3.0, -2.0, -1.0, -0.0, 0.0, 1.0, 2.0, INF, NAN]);
        exactly(&ceil(&x), &[-2.0, -1.0, -0.0, -0.0, 1.0, 2.0, 3.0, INF, NAN]);
        assert_eq!(round(i32s(&[3])).to_vec::<i32>().unwrap(), [3]);
    }

    #[test]
    fn bit_operators_and_remainder_match_rust() {
        let (x, y) = (i32s(&[12, -7, 5]), i32s(&[10, 3, 0]));
        let actual = |x: Array| x.to_vec::<i32>().unwrap();
        assert_eq!(actual(&x & &y), [12 & 10, -7 & 3, 0]);
        assert_eq!(actual(&x | &y), [12 | 10, -7 | 3, 5]);
        assert_eq!(actual(&x ^ &y), [12 ^ 10, -7 ^ 3, 5]);
        assert_eq!(actual(!&x), [!12, !-7, !5]);
        // Where Rust would panic, the remainder by 0 is the dividend.
        assert_eq!(actual(&x % &y), [12 % 10, -7 % 3, 5]);
        assert_eq!(actual(&x << 2), [12 << 2, -7 << 2, 5 << 2]);
        assert_eq!(actual(&x >> 1), [12 >> 1, -7 >> 1, 5 >> 1]);
        let x = Array::from_slice(&[0x80u8, 3], [2]).unwrap();
        assert_eq!((&x >> 1).to_vec::<u8>().unwrap(), [0x40, 1]);
        exactly(&(f32s(&[-7.5, 7.5, 1.0]) % f32s(&[2.0, -2.0, 0.0])), &[-1.5, 1.5, NAN]);
    }

    #[test]
    fn shifts_by_the_width_or_more_leave_nothing() {
        let (x, by) = (i32s(&[-7, 7, -7]), i32s(&[32, 32, 100]));
        assert_eq!(shift_left(&x, &by).to_vec::<i32>().unwrap(), [0, 0, 0]);
        assert_eq!(shift_right_logical(&x, &by).to_vec::<i32>().unwrap(), [0, 0, 0]);
        assert_eq!(shift_right_arithmetic(&x, &by).to_vec::<i32>().unwrap(), [-1, 0, -1]);
    }

    /// Outside of programs a constant is created on the host, which rounds and wraps like the
    /// compiler.
    #[test]
    fn eager_constants_equal_compiled_constants() {
        let values = [0.0, -0.0, 1.0, -1.5, 300.7, 0.1, 1e-42, 7e4, 1e39, f64::INFINITY, f64::NAN];
        let floats = values.map(Scalar::Float);
        let integers = [-1, 255, 1 << 31].map(Scalar::Int);
        let others = [Scalar::Bool(true), Scalar::Complex(0.1, -2.5)];
        let scalars: Vec<Scalar> = floats.into_iter().chain(integers).chain(others).collect();
        for dtype in DType::all() {
            let widest = (dtype.bits() == 64).then_some(Scalar::Int(i128::from(u64::MAX)));
            let scalars: Vec<Scalar> = scalars.iter().copied().chain(widest).collect();
            let all = move || -> Vec<Array> {
                let of = |scalar: &Scalar| fill_of(*scalar, &Aval::new(dtype, [2, 1]));
                scalars.iter().map(of).collect()
            };
            let inside = jit({
                let all = all.clone();
                move |_: ()| all()
            });
            for (outside, inside) in all().iter().zip(inside.call(()).unwrap()) {
                assert_eq!(outside.aval(), inside.aval());
                let (outside, inside) = (outside.to_bytes().unwrap(), inside.to_bytes().unwrap());
                assert_eq!(outside, inside, "{dtype}");
            }
        }
        assert_eq!(zeros([0, 3]).to_vec::<f32>().unwrap(), Vec::<f32>::new());
        // A constant so large that the device fills it.
        let large = full([300, 300], 0.5f32).to_vec::<f32>().unwrap();
        assert!(large.len() == 90_000 && large.iter().all(|&x| x == 0.5));
    }

    #[test]
    fn bits_are_counted() {
        let x = i32s(&[0, 1, -1, 255]);
        assert_eq!(population_count(&x).to_vec::<i32>().unwrap(), [0, 1, 32, 8]);
        assert_eq!(count_leading_zeros(&x).to_vec::<i32>().unwrap(), [32, 31, 0, 24]);
    }

    #[test]
    fn powers_at_the_edges() {
        let (x, y) = (f32s(&[0.0, 0.0, -1.0, -2.0, NAN]), f32s(&[0.0, -1.0, 0.5, 3.0, 0.0]));
        exactly(&pow(&x, &y), &[1.0, INF, NAN, -8.0, 1.0]);
        let (x, y) = (i32s(&[3, -2, 2, -1, -1]), i32s(&[4, 3, -1, -3, -2]));
        assert_eq!(pow(&x, &y).to_vec::<i32>().unwrap(), [81, -8, 0, -1, 1]);
        exactly(&pow(f32s(&[2.0, 0.0, NAN]), -2), &[0.25, INF, NAN]);
        exactly(&pow(f32s(&[0.0, NAN, INF]), 0), &[1.0, 1.0, 1.0]);
    }

    /// Compared with values of JAX 0.10.2.
    #[test]
    fn slopes_of_powers_at_base_zero() {
        let (x, y) = (f32s(&[0.0, 0.0, 0.0, 0.0, 2.0]), f32s(&[0.0, 1.0, 2.0, 0.5, 0.0]));
        let (dx, dy) = slopes(|x, y| pow(x, y), &x, &y);
        exactly(&dx, &[NAN, 1.0, 0.0, INF, 0.0]);
        exactly(&dy, &[0.0, 0.0, 0.0, 0.0, std::f32::consts::LN_2]);
        let n = i32s(&[0, 1, 2]);
        exactly(&slope(|x| pow(x, &n), &f32s(&[0.0; 3])), &[0.0, 1.0, 0.0]);
        for (n, expected) in [(0, 0.0), (1, 1.0), (2, 0.0)] {
            exactly(&slope(|x| integer_pow(&x, n), &f32s(&[0.0])), &[expected]);
        }
    }

    #[test]
    fn powers_of_two_are_exact_at_integers() {
        let x: Vec<f32> = (-126..=127).map(|n| n as f32).collect();
        let expected: Vec<f32> = (-126..=127).map(|n| 2f32.powi(n)).collect();
        exactly(&exp2(f32s(&x)), &expected);
    }

    /// Compared with values of JAX 0.10.2.
    #[test]
    fn slopes_where_functions_bend_or_end() {
        exactly(&slope(abs, &f32s(&[-2.0, -0.0, 0.0, 2.0])), &[-1.0, 1.0, 1.0, 1.0]);
        exactly(&slope(sign, &f32s(&[-2.0, 0.0])), &[0.0, 0.0]);
        exactly(&slope(sqrt, &f32s(&[0.0, 4.0])), &[INF, 0.25]);
        exactly(&slope(cbrt, &f32s(&[0.0])), &[INF]);
        exactly(&slope(rsqrt, &f32s(&[0.0])), &[-INF]);
        exactly(&slope(asin, &f32s(&[1.0, -1.0])), &[INF, INF]);
        exactly(&slope(acos, &f32s(&[1.0, -1.0])), &[-INF, -INF]);
        exactly(&slope(acosh, &f32s(&[1.0])), &[INF]);
        exactly(&slope(atanh, &f32s(&[1.0, -1.0])), &[INF, INF]);
        exactly(&slope(log, &f32s(&[0.0])), &[INF]);
        exactly(&slope(log1p, &f32s(&[-1.0])), &[INF]);
        exactly(&slope(logistic, &f32s(&[-INF, INF])), &[0.0, 0.0]);
        exactly(&slope(tanh, &f32s(&[-INF, INF])), &[0.0, 0.0]);
        let (dy, dx) = slopes(|y, x| atan2(y, x), &f32s(&[0.0]), &f32s(&[0.0]));
        exactly(&dy, &[NAN]);
        exactly(&dx, &[NAN]);
    }

    #[test]
    fn operands_share_the_slope_of_an_extremum() {
        let (x, y) = (f32s(&[1.0, 1.0, NAN]), f32s(&[1.0, 2.0, 1.0]));
        let (dx, dy) = slopes(|x, y| maximum(x, y), &x, &y);
        exactly(&dx, &[0.5, 0.0, 0.0]);
        exactly(&dy, &[0.5, 1.0, 0.0]);
        let (dx, dy) = slopes(|x, y| minimum(x, y), &x, &y);
        exactly(&dx, &[0.5, 1.0, 0.0]);
        exactly(&dy, &[0.5, 0.0, 0.0]);
        let x = f32s(&[-1.0, 0.0, 0.5, 1.0, 2.0]);
        exactly(&slope(|x| clamp(0.0, x, 1.0), &x), &[0.0, 0.0, 1.0, 0.0, 0.0]);
    }

    #[test]
    fn slopes_near_the_ends_keep_their_digits() {
        // 1 - x² would be off by 7e-5: the square is rounded before it is subtracted.
        let x = 1.0f32 - 3.0 * 2f32.powi(-14);
        let expected = (1.0 / (1.0 - f64::from(x).powi(2))).sqrt() as f32;
        for (slope, expected) in
            [(slope(asin, &f32s(&[x])), expected), (slope(acos, &f32s(&[x])), -expected)]
        {
            let actual = slope.item::<f32>().unwrap();
            assert!(
                (actual - expected).abs() <= 3e-7 * expected.abs(),
                "{actual} is not {expected}"
            );
        }
    }

    #[test]
    fn selection_passes_no_nan_of_the_other_branch() {
        let x = f32s(&[-1.0, 4.0]);
        let safe = |x: Array| where_(gt(&x, 0.0), sqrt(where_(gt(&x, 0.0), &x, 1.0)), 0.0);
        exactly(&safe(x.clone()), &[0.0, 2.0]);
        exactly(&slope(safe, &x), &[0.0, 0.25]);
    }

    #[test]
    fn where_broadcasts_all_three() {
        let mask = Array::from_slice(&[true, false], [2, 1]).unwrap();
        let chosen = where_(&mask, i32s(&[1, 2, 3]), 0.5);
        assert_eq!(chosen.shape().dims(), [2, 3]);
        exactly(&chosen, &[1.0, 2.0, 3.0, 0.5, 0.5, 0.5]);
        exactly(&where_(i32s(&[2, 0]), 1.0f32, f32s(&[5.0, 6.0])), &[1.0, 6.0]);
    }

    #[test]
    fn the_total_order_tells_zeros_and_nans_apart() {
        let ascending = f32s(&[-NAN, -INF, -1.0, -0.0, 0.0, 1.0, INF, NAN]);
        let (low, high) = (slice_of(&ascending, 0..7), slice_of(&ascending, 1..8));
        let less = compare_total(ComparisonDirection::Lt, &low, &high);
        assert_eq!(less.to_vec::<bool>().unwrap(), [true; 7]);
        let less = lt(&low, &high).to_vec::<bool>().unwrap();
        assert_eq!(less, [false, true, true, false, true, true, false]);
    }

    fn slice_of(x: &Array, range: std::ops::Range<usize>) -> Array {
        f32s(&x.to_vec::<f32>().unwrap()[range])
    }

    #[test]
    fn complex_sines_are_accurate_near_zero_and_far_out() {
        let small = c64s(&[(1e-4, 1e-4), (0.0, 1e-3)]);
        closely(&sin(&small), &[(1e-4, 1e-4), (0.0, 1.000_000_2e-3)]);
        closely(&sinh(&small), &[(1e-4, 1e-4), (0.0, 9.999_998e-4)]);
        // A factor that overflows does not turn a part that is 0 into NaN.
        let far = c64s(&[(0.0, 1000.0)]);
        assert_eq!(sin(&far).to_vec::<Complex32>().unwrap(), [Complex32::new(0.0, INF)]);
        assert_eq!(cos(&far).to_vec::<Complex32>().unwrap(), [Complex32::new(INF, 0.0)]);
        let far = c64s(&[(1000.0, 0.0)]);
        assert_eq!(sinh(&far).to_vec::<Complex32>().unwrap(), [Complex32::new(INF, 0.0)]);
        assert_eq!(cosh(&far).to_vec::<Complex32>().unwrap(), [Complex32::new(INF, 0.0)]);
    }

    /// Gradients of real functions of complex numbers are not conjugated, as in JAX.
    #[test]
    fn gradients_through_the_parts_of_complex_numbers() {
        let z = c64s(&[(3.0, 4.0), (0.0, 0.0)]);
        closely(&slope(abs, &z), &[(0.6, -0.8), (0.0, 0.0)]);
        closely(&slope(real, &z), &[(1.0, 0.0); 2]);
        closely(&slope(imag, &z), &[(0.0, -1.0); 2]);
        closely(&slope(|z| real(&(conj(&z) * z)), &z), &[(6.0, -8.0), (0.0, 0.0)]);
        let (re, im) = (f32s(&[3.0]), f32s(&[4.0]));
        let (dre, dim) = slopes(|re, im| abs(complex(re, im)), &re, &im);
        exactly(&dre, &[0.6]);
        exactly(&dim, &[0.8]);
        exactly(&angle(c64s(&[(0.0, 2.0), (-1.0, 0.0)])), &[FRAC_PI_2, PI]);
        exactly(&angle(f32s(&[2.0, -2.0, 0.0])), &[0.0, PI, 0.0]);
    }

    #[test]
    fn the_slope_of_acosh_follows_its_branch() {
        let z = Complex32::new(-2.0, 1.0);
        let one = c64s(&[(1.0, 0.0)]);
        let (_, actual) = jvp(acosh, c64s(&[(z.re, z.im)]), &one);
        let expected = 1.0 / ((z - 1.0).sqrt() * (z + 1.0).sqrt());
        closely(&actual, &[(expected.re, expected.im)]);
    }

    #[test]
    fn signs_and_neighbours() {
        exactly(&sign(f32s(&[-3.0, -0.0, 0.0, INF, NAN])), &[-1.0, -0.0, 0.0, 1.0, NAN]);
        let x = Array::from_slice(&[0u8, 1, 200], [3]).unwrap();
        assert_eq!(sign(&x).to_vec::<u8>().unwrap(), [0, 1, 1]);
        let tiny = f32::from_bits(1);
        let next = nextafter(f32s(&[1.0, 0.0, 2.5]), f32s(&[2.0, -1.0, 2.5]));
        exactly(&next, &[1.0 + f32::EPSILON, -tiny, 2.5]);
    }
}
