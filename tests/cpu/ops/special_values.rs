//! Special functions compared with published values, and at the edges of their domains.
//!
//! The values follow DLMF's definitions, computed with 40 digits. Comments state where JAX is less
//! accurate or returns another value.

use oxidax::prelude::*;

fn assert_rejected(dtype: DType, f: fn(&Array) -> Array, phrases: &[&str]) {
    let error = eval_shape(move |x: Array| f(&x), Aval::new(dtype, [3])).unwrap_err().to_string();
    for phrase in phrases.iter().chain(&["special_values.rs"]) {
        assert!(error.contains(phrase), "no `{phrase}` in\n{error}");
    }
}

#[test]
fn real_functions_reject_complex_operands() {
    let real = ["error[dtype]", "needs a real operand, got c64"];
    let of = |name: &'static str| [real[0], real[1], name];
    assert_rejected(DType::C64, |x| special::dawsn(x), &of("dawsn: "));
    assert_rejected(DType::C64, |x| special::expi(x), &of("expi: "));
    assert_rejected(DType::C64, |x| special::exp1(x), &of("exp1: "));
    assert_rejected(DType::C64, |x| special::expn(2, x), &of("expn: "));
    assert_rejected(DType::C64, |x| special::sici(x).0, &of("sici: "));
    assert_rejected(DType::C64, |x| special::fresnel(x).0, &of("fresnel: "));
    assert_rejected(DType::C64, |x| special::spence(x), &of("spence: "));
    assert_rejected(DType::C64, |x| special::owens_t(x, 1.0), &of("owens_t: "));
    assert_rejected(DType::C64, |x| special::hyp1f1(1.0, x, 1.0), &of("hyp1f1: "));
    assert_rejected(DType::C64, |x| special::hyp2f1(1.0, x, 1.0, 0.5), &of("hyp2f1: "));
    assert_rejected(DType::C64, |x| special::bessel_jn(x, 1, 50), &of("bessel_jn: "));
}

#[test]
fn special_functions_reject_invalid_orders_and_dtypes() {
    assert_rejected(
        DType::F32,
        |x| special::bessel_jn(x, 9, 9),
        &["bessel_jn: order 9 is not reached from 9 downwards"],
    );
    let floats = |x: &Array| special::sph_harm_y(x, 1, x, x, 3);
    assert_rejected(DType::F32, floats, &["sph_harm_y: takes integers", "got f32 and f32"]);
    let narrow = |x: &Array| special::sph_harm_y(2, 1, x, x, 3);
    assert_rejected(DType::BF16, narrow, &["sph_harm_y", "f32 or f64 angles", "bf16"]);
}

type Named = (&'static str, fn(&Array) -> Array);

/// The functions of one variable.
const SINGLE: [Named; 9] = [
    ("erfcx", |x| special::erfcx(x)),
    ("dawsn", |x| special::dawsn(x)),
    ("expi", |x| special::expi(x)),
    ("exp1", |x| special::exp1(x)),
    ("expn", |x| special::expn(3, x)),
    ("si", |x| special::sici(x).0),
    ("fresnel", |x| special::fresnel(x).1),
    ("spence", |x| special::spence(x)),
    ("loggamma", |x| special::loggamma(x)),
];

#[test]
fn integers_become_floats_and_floats_keep_their_dtype() {
    for (name, f) in SINGLE {
        let pairs =
            [(DType::I32, DType::F32), (DType::BF16, DType::BF16), (DType::F64, DType::F64)];
        for (given, expected) in pairs {
            let y = eval_shape(|x: Array| f(&x), Aval::new(given, [2])).unwrap();
            assert_eq!(y.aval(), &Aval::new(expected, [2]), "{name} of {given}");
        }
    }
    let of = |x: Array| special::wofz(&x);
    let complex = |given| eval_shape(of, Aval::new(given, [2])).unwrap().dtype();
    assert_eq!(
        [DType::I32, DType::F16, DType::F64].map(complex),
        [DType::C64, DType::C64, DType::C128]
    );
}

mod on_cpu {
    use super::*;

    fn list(values: &[f64]) -> Array {
        Array::from_slice(values, [values.len()]).unwrap()
    }

    /// Compares the result of `f`, as one compiled program, element by element.
    fn close(f: fn(&Array) -> Array, points: &[f64], expected: &[f64], room: f64) {
        let y = jit(move |x: Array| f(&x)).call(list(points)).unwrap().to_vec::<f64>().unwrap();
        assert_eq!(y.len(), expected.len());
        for (at, (y, e)) in y.iter().zip(expected).enumerate() {
            let same = y == e || (y.is_nan() && e.is_nan()) || (y - e).abs() <= room * e.abs();
            assert!(same, "element {at} for {points:?}: {y} against {e}");
        }
    }

    const INF: f64 = f64::INFINITY;
    const NAN: f64 = f64::NAN;

    /// JAX's product of the exponential and `erfc` loses one digit at 5 and three digits at 25.
    #[test]
    fn scaled_error_functions() {
        let points = [-1.5, 0.25, 3.0, 1000.0, 0.0, INF, NAN];
        let values = [18.653886256262734, 0.7703465477309968, 0.17900115118138996];
        let values = [&values[..], &[0.0005641893014533876, 1.0, 0.0, NAN]].concat();
        close(|x| special::erfcx(x), &points, &values, 1e-15);
        close(|x| special::erfcx(x), &[-30.0, -INF], &[INF, INF], 0.0);
        let points = [-2.0, 0.01, 0.5, 7.5, -0.0, INF, -INF, NAN];
        let values = [-0.30134038892379195, 0.009999333359999238, 0.4244363835020223];
        let values = [&values[..], &[0.06727581164463062, 0.0, 0.0, 0.0, NAN]].concat();
        close(|x| special::dawsn(x), &points, &values, 1e-15);
    }

    /// JAX's sum of 32 terms is exact to 3e-13, and NaN at infinity.
    #[test]
    fn faddeeva_function() {
        let z = complex(list(&[0.5, 2.0, INF]), list(&[0.25, -0.5, 0.0]));
        let w = special::wofz(&z);
        let found = [real(&w), imag(&w)].map(|part| part.to_vec::<f64>().unwrap());
        let expected = [
            [0.6383373967914265, -0.12293249482276238, 0.0],
            [0.3258148398263451, 0.32755513633331257, 0.0],
        ];
        for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
            assert!((found - expected).abs() < 1e-15, "{found} against {expected}");
        }
    }

    /// At 0, JAX returns `1/n` for `Eₙ` and NaN for `Ei`.
    #[test]
    fn exponential_integrals() {
        let points = [-1.5, 0.5, 25.0, 60.0, 712.0, 0.0, INF, -INF, NAN];
        let values = [-0.10001958240663265, 0.4542199048631736, 3005950906.5255485];
        let more = [1.9361822139292765e24, 2.3216800841052115e306, -INF, INF, 0.0, NAN];
        close(|x| special::expi(x), &points, &[&values[..], &more].concat(), 3e-15);
        let points = [0.001, 1.0, 1.5, 30.0, 0.0, -1.0, INF, NAN];
        let first = [6.331539364136149, 0.21938393439552029, 0.10001958240663265];
        let more = [3.0215520106888124e-15, INF, NAN, 0.0, NAN];
        close(|x| special::exp1(x), &points, &[&first[..], &more].concat(), 3e-15);
        let third = [0.4990039154364529, 0.10969196719776014, 0.056739490170354276];
        let more = [2.8430743281403273e-15, 0.5, NAN, 0.0, NAN];
        close(|x| special::expn(3, x), &points, &[&third[..], &more].concat(), 1e-14);
        let high = [0.00016652781018133036, 6.131323849181106e-5, 3.718525970358152e-5];
        close(|x| special::expn(6000, x), &points[..3], &high, 1e-14);
        close(|n| special::expn(n, 1.0), &[-1.0, 0.5, 0.0], &[NAN, NAN, (-1f64).exp()], 1e-15);
    }

    #[test]
    fn sine_and_fresnel_integrals() {
        let points = [-3.0, 0.5, 2.5, 1000.0, 0.0, INF, -INF, NAN];
        let half = std::f64::consts::FRAC_PI_2;
        let si = [-1.8486525279994683, 0.4931074180430667, 1.7785201734438267, 1.5702331219687713];
        close(
            |x| special::sici(x).0,
            &points,
            &[&si[..], &[0.0, half, -half, NAN]].concat(),
            1e-15,
        );
        let ci = [0.11962978600800032, -0.1777840788066129, 0.2858711963653835];
        let ci = [&ci[..], &[0.0008263155110906822, -INF, 0.0, NAN, NAN]].concat();
        close(|x| special::sici(x).1, &points, &ci, 5e-15);
        let points = [-0.5, 1.0, 2.5, 100.25, 0.0, INF, -INF, NAN];
        let s = [-0.06473243285999927, 0.43825914739035476, 0.6191817558195929];
        let s = [&s[..], &[0.5031598815391497, 0.0, 0.5, -0.5, NAN]].concat();
        close(|x| special::fresnel(x).0, &points, &s, 1e-15);
        let c = [-0.4923442258714464, 0.7798934003768229, 0.45741300964177706];
        let c = [&c[..], &[0.49968887988441507, 0.0, 0.5, -0.5, NAN]].concat();
        close(|x| special::fresnel(x).1, &points, &c, 1e-15);
    }

    #[test]
    fn dilogarithms_and_bernoulli_numbers() {
        let points = [0.001, 0.25, 1.75, 40.0, 1.0, 0.0, -1.0, INF, NAN];
        let values = [1.6370226052761176, 0.9784693929303061, -0.6427612688399789];
        let at_zero = std::f64::consts::PI.powi(2) / 6.0;
        let more = [-8.330297527721036, 0.0, at_zero, NAN, -INF, NAN];
        close(|x| special::spence(x), &points, &[&values[..], &more].concat(), 1e-15);
        // At 1, JAX returns 0 for the slope, and in reverse mode NaN elsewhere.
        let slopes = grad(|x: &Array| special::spence(x).sum())(&list(&[1.0, 0.5, 3.0]));
        let known = [-1.0, 2.0 * 0.5f64.ln(), -0.5 * 3f64.ln()];
        for (slope, known) in slopes.to_vec::<f64>().unwrap().iter().zip(known) {
            assert!((slope - known).abs() < 1e-15, "{slope}");
        }
        let numbers = special::bernoulli(60, DType::F64).to_vec::<f64>().unwrap();
        let places = [0, 1, 2, 3, 4, 20, 60];
        let sixth = 1.0 / 6.0;
        let known =
            [1.0, -0.5, sixth, 0.0, -0.2 * sixth, -529.1242424242424, -2.1399949257225335e34];
        for (place, known) in places.iter().zip(known) {
            let found = numbers[*place];
            assert!((found - known).abs() <= 1e-14 * known.abs(), "{place}: {found}");
        }
        assert_eq!(special::bernoulli(0, DType::F32).to_vec::<f32>().unwrap(), [1.0]);
    }

    /// JAX's quadrature, whose nodes do not follow the integrand, is accurate to 1e-10 at 6.
    #[test]
    fn owens_t_function() {
        let places = list(&[0.5, 6.0, 1.25, 2.0, 20.0, 0.0, 0.0, INF, -1.25, NAN]);
        let slopes = list(&[0.25, 0.5, 3.0, 1.0, 0.5, 1.0, INF, 1.0, -3.0, 1.0]);
        let found = special::owens_t(&places, &slopes).to_vec::<f64>().unwrap();
        let values = [0.03432021712709421, 4.92241860913174e-10, 0.05282372285081024];
        let more = [0.011116281722259822, 1.3768120593031169e-89, 0.125, 0.25, 0.0];
        let expected = [&values[..], &more, &[-0.05282372285081024]].concat();
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found - expected).abs() <= 3e-15 * expected.abs(), "{found}, {expected}");
        }
        assert!(found[9].is_nan());
    }

    #[test]
    fn logarithms_of_gamma() {
        let z = complex(list(&[-2.5, -7.25, 0.75, -2.0]), list(&[0.5, -60.0, 3.0, 0.0]));
        let value = special::loggamma(&z);
        let (re, im) =
            (real(&value).to_vec::<f64>().unwrap(), imag(&value).to_vec::<f64>().unwrap());
        let expected = [-0.9350856212982774, -125.08136638848497, -3.5196814852226224];
        let turns = [-8.87096288524746, -172.98854700380463, 0.6920138434918668];
        for at in 0..3 {
            assert!((re[at] - expected[at]).abs() < 1e-12 * expected[at].abs(), "{}", re[at]);
            assert!((im[at] - turns[at]).abs() < 1e-12 * turns[at].abs(), "{}", im[at]);
        }
        assert!(re[3].is_nan() && im[3].is_nan());
        // On the negative axis the sign of zero selects the side.
        let sides = complex(list(&[-2.5, -2.5]), list(&[0.0, -0.0]));
        let turns = imag(special::loggamma(&sides)).to_vec::<f64>().unwrap();
        let turn = 3.0 * std::f64::consts::PI;
        assert!((turns[0] + turn).abs() < 1e-12 && (turns[1] - turn).abs() < 1e-12, "{turns:?}");
        close(|x| special::loggamma(x), &[-0.5, 0.0, 1.0, INF], &[NAN, NAN, 0.0, INF], 0.0);
    }

    /// JAX divides by 0 at 0, and in `f32` overflows near it.
    #[test]
    fn bessel_functions_of_small_and_negative_numbers() {
        let j = special::bessel_jn(list(&[0.0, 0.001, -10.0]), 3, 50).to_vec::<f64>().unwrap();
        let small = [0.9999997500000156, 0.0004999999375000026, 1.2499998958333365e-7];
        let large = [-0.24593576445134835, -0.04347274616886144, 0.2546303136851206];
        for order in 0..3 {
            assert_eq!(j[3 * order], if order == 0 { 1.0 } else { 0.0 });
            for (found, known) in [(j[3 * order + 1], small), (j[3 * order + 2], large)] {
                let known = known[order];
                assert!((found - known).abs() < 3e-15 * known.abs(), "{found}, {known}");
            }
        }
        let narrow = special::bessel_jn(Array::from_slice(&[0.1f32], [1]).unwrap(), 0, 50);
        assert!((narrow.to_vec::<f32>().unwrap()[0] - 0.997_501_55).abs() < 1e-6);
    }

    /// JAX ends its series after 250 terms, does not reflect negative numbers, and is infinite for
    /// polynomials beyond 1.
    #[test]
    fn hypergeometric_functions() {
        let kummer =
            [(0.5, 1.5, -40.0), (1.25, 2.5, 150.0), (1.25, -2.5, -300.0), (-3.0, 0.5, 2.0)];
        let special_cases = [(0.0, 0.0, 3.0), (2.0, 2.0, 1.5), (1.0, -2.0, 1.0), (-1.0, -2.0, 1.0)];
        let all = [kummer, special_cases].concat();
        let column =
            |pick: fn(&(f64, f64, f64)) -> f64| list(&all.iter().map(pick).collect::<Vec<_>>());
        let found = special::hyp1f1(column(|t| t.0), column(|t| t.1), column(|t| t.2));
        let expected = [
            0.14012478040994822,
            3.8856388967081953e62,
            -0.002883712834104381,
            0.7333333333333333,
            1.0,
            1.5f64.exp(),
            INF,
            1.5,
        ];
        for (found, known) in found.to_vec::<f64>().unwrap().iter().zip(expected) {
            assert!(
                *found == known || (found - known).abs() < 2e-14 * known.abs(),
                "{found} {known}"
            );
        }
        let gauss = [
            (1.0, 1.0, 2.0, 0.999, 6.914669948931068),
            (0.5, 0.5, 1.0, -30.0, 0.3568033958610016),
            (0.3, 0.4, 1.9, 0.99, 1.1112416744262714),
            (-2.0, 3.0, 4.0, 1.5, 0.1),
            (0.5, 1.0, 3.0, 1.0, 4.0 / 3.0),
            (0.5, 1.0, 1.5, 1.0, INF),
            (0.5, 1.0, 2.5, 1.5, INF),
            (0.5, 1.0, -2.0, 0.5, INF),
            (0.5, 1.0, -2.0, 0.0, 1.0),
        ];
        let column = |pick: fn(&(f64, f64, f64, f64, f64)) -> f64| {
            list(&gauss.iter().map(pick).collect::<Vec<_>>())
        };
        let found =
            special::hyp2f1(column(|t| t.0), column(|t| t.1), column(|t| t.2), column(|t| t.3));
        for (found, case) in found.to_vec::<f64>().unwrap().iter().zip(gauss) {
            let same = *found == case.4 || (found - case.4).abs() < 2e-13 * case.4.abs();
            assert!(same, "{case:?}: {found}");
        }
    }

    /// Differentiates twice with respect to the first parameter, reverse over reverse, at the
    /// integer 0, where JAX's first derivative is 0. The expected value is the logarithm's series.
    #[test]
    fn hypergeometric_functions_have_every_derivative() {
        // F(a, 1; 1; x) = (1 - x)^-a.
        let f = |a: &Array| special::hyp2f1(a, 1.0, 1.0, 0.25).sum();
        let logarithm = -(0.75f64.ln());
        let first = grad(f)(&list(&[0.0])).to_vec::<f64>().unwrap()[0];
        assert!((first - logarithm).abs() < 1e-15, "{first}");
        let second = grad(move |a: &Array| grad(f)(a).sum())(&list(&[0.0]));
        let second = second.to_vec::<f64>().unwrap()[0];
        assert!((second - logarithm * logarithm).abs() < 1e-15, "{second}");
    }

    #[test]
    fn spherical_harmonics_of_invalid_orders_are_zero() {
        let angle = list(&[0.3, 1.0]);
        let y = special::sph_harm_y(1, 2, &angle, &angle, 3);
        assert_eq!(real(&y).to_vec::<f64>().unwrap(), [0.0, 0.0]);
        // A degree above the largest is clamped.
        let (high, last) = (special::sph_harm_y(9, 2, &angle, &angle, 3), 3);
        let low = special::sph_harm_y(last, 2, &angle, &angle, 3);
        assert_eq!(imag(&high).to_vec::<f64>().unwrap(), imag(&low).to_vec::<f64>().unwrap());
        // At a pole the derivative is finite.
        let pole = |theta: &Array| real(special::sph_harm_y(2, 1, theta, 0.0, 2)).sum();
        let slope = grad(pole)(&list(&[0.0])).to_vec::<f64>().unwrap()[0];
        let known = -(15.0 / (8.0 * std::f64::consts::PI)).sqrt();
        assert!((slope - known).abs() < 1e-15, "{slope}");
    }

    /// For small means JAX ends its sum at 20, and from 100 on it ends the series after one term.
    /// Its derivative is NaN.
    #[test]
    fn entropies_of_counts() {
        let entropy = |mu: &Array| oxidax::stats::Poisson::new(mu).entropy();
        let values = [
            0.6911439590927789,
            2.5352656561779754,
            3.715652400561341,
            3.923698756980677,
            0.0,
            NAN,
        ];
        let found = entropy(&list(&[0.3, 9.5, 99.0, 150.0, 0.0, -1.0])).to_vec::<f64>().unwrap();
        for (found, known) in found.iter().zip(values) {
            let same = (found - known).abs() <= 1e-11 * known || found.is_nan() && known.is_nan();
            assert!(same, "{found} against {known}");
        }
        let slope = grad(move |mu: &Array| entropy(mu).sum())(&list(&[9.5]));
        assert!((slope.to_vec::<f64>().unwrap()[0] - 0.05368382070546051).abs() < 1e-14);
    }

    #[test]
    fn narrow_floats_are_computed_in_wider_ones() {
        for (name, f) in SINGLE {
            let x = Array::from_slice(&[half::bf16::from_f64(0.75)], [1]).unwrap();
            let narrow = f(&x).to_vec::<half::bf16>().unwrap()[0].to_f64();
            let wide = f(&list(&[0.75])).to_vec::<f64>().unwrap()[0];
            assert!((narrow - wide).abs() <= wide.abs() / 256.0, "{name}: {narrow}, {wide}");
        }
    }
}
