//! The incomplete beta function.

use super::gamma::lgamma;
use super::incomplete::{away_from_zero, has_open_terms, in_float, unconverged};
use crate::core::{
    Array, Aval, DType, Exemplar, JvpResult, LowerCtx, RuleError, RuleResult, Sample, Tangent,
    bind1,
};
use crate::primitives::arithmetic::{add, div, mul, neg, sub};
use crate::primitives::comparison::{eq, ge, gt, lt, ne};
use crate::primitives::composite::{lower_by, lower_while};
use crate::primitives::constant::{full, full_like};
use crate::primitives::elementwise::{
    CostRule, Derivative, Dtypes, Elementwise, Lowering, TypeRule,
};
use crate::primitives::exponential::{exp, log, log1p};
use crate::primitives::logic::{bitwise_and, bitwise_not, bitwise_or};
use crate::primitives::promote::{ArrayLike, promote_inexact};
use crate::primitives::select::select;
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// Elementwise regularized incomplete beta function `Iₓ(a, b)`.
///
/// | | |
/// |-|-|
/// | operands   | `a, b, x: float[…]`, of one shape and dtype |
/// | result     | the same shape and dtype; from 0 at `x = 0` to 1 at `x = 1`; NaN for negative `a` or `b` and for `x` outside |
/// | lowering   | a continued fraction in a [`stablehlo.while`](https://openxla.org/stablehlo/spec#while) |
/// | derivative | `x^(a-1)·(1-x)^(b-1) / B(a, b)` in `x`; none in `a` and `b` |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RegularizedIncompleteBeta;

impl RegularizedIncompleteBeta {
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let [a, b, x] = [0, 1, 2].map(|index| &primals[index]);
        if !tangents[0].is_zero() || !tangents[1].is_zero() {
            return Err(RuleError::unsupported("has no derivative by its first two operands"));
        }
        let y = bind1(RegularizedIncompleteBeta, [a, b, x]);
        let dy = tangents[2].map(y.aval(), |dx| {
            let one = full_like(x, 1);
            let beta = sub(add(lgamma(a), lgamma(b)), lgamma(add(a, b)));
            let low = mul(sub(a, &one), log(x));
            let high = mul(sub(b, &one), log1p(neg(x)));
            mul(dx, exp(sub(add(low, high), beta)))
        });
        Ok((vec![y], vec![dy]))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        lower_betainc(ctx, operands, results[0].dtype)
    }
}

impl Elementwise for RegularizedIncompleteBeta {
    const NAME: &'static str = "regularized_incomplete_beta";
    const TYPE: TypeRule<RegularizedIncompleteBeta> = TypeRule::Same(3, Dtypes::Float);
    const DERIVATIVE: Derivative<RegularizedIncompleteBeta> =
        Derivative::Custom(RegularizedIncompleteBeta::jvp);
    const LOWERING: Lowering<RegularizedIncompleteBeta> =
        Lowering::Custom(RegularizedIncompleteBeta::lower);
    const COST: CostRule<RegularizedIncompleteBeta> = CostRule::Transcendental;
    fn exemplars() -> Vec<Exemplar> {
        let beta = || RegularizedIncompleteBeta;
        let exemplar = |dtype, shape: &[usize]| {
            let shapes = || Sample::uniform(dtype, shape, 0.5, 5.0);
            let x = Sample::uniform(dtype, shape, 0.1, 0.9);
            // The derivatives with respect to the shapes are not implemented. The derivative with
            // respect to `x` is tested below.
            Exemplar::new(beta(), [shapes(), shapes(), x]).without_derivative()
        };
        let inf = f64::INFINITY;
        let a = [0.0, 0.0, inf, 2.0, 1.0, 1.0, -1.0, f64::NAN];
        let b = [0.0, 2.0, 2.0, 0.0, 1.0, 2.0, 1.0, 1.0];
        let x = [0.5, 0.5, 0.5, 0.5, 0.0, 1.0, 0.5, 0.5];
        let listed = |list: &[f64]| Sample::listed(DType::F32, [8], list);
        vec![
            exemplar(DType::F32, &[2, 3]),
            exemplar(DType::F64, &[4]),
            exemplar(DType::BF16, &[]),
            exemplar(DType::F16, &[0, 2]),
            Exemplar::new(beta(), [listed(&a), listed(&b), listed(&x)]).without_derivative(),
        ]
    }
}

/// Returns the regularized incomplete beta function `Iₓ(a, b)`, with promotion and broadcasting:
/// the probability that a beta variable of shapes `a` and `b` is below `x`. Integers become floats.
/// See [`RegularizedIncompleteBeta`] for its rules.
/// [`RegularizedIncompleteBeta`] for its rules.
///
/// Reference: DLMF, section 8.17, continued fraction 8.17.22 and symmetry 8.17.4; Thompson and
/// Barnett, "Coulomb and Bessel functions of complex arguments and order", 1986, for its
/// evaluation.
///
/// ```
/// use oxidax::prelude::*;
/// let p = eval_shape(|x: Array| betainc(2.0, 3.0, &x), Aval::new(DType::F32, [3]))?;
/// assert_eq!(p.aval().to_string(), "f32[3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn betainc(a: impl ArrayLike, b: impl ArrayLike, x: impl ArrayLike) -> Array {
    let [a, b, x] = promote_inexact("betainc", [a.like(), b.like(), x.like()]);
    bind1(RegularizedIncompleteBeta, [&a, &b, &x])
}

/// Masks of the elements that need no fraction.
struct Cases {
    zero: Array,
    one: Array,
    nan: Array,
}

fn cases(a: &Array, b: &Array, x: &Array) -> Cases {
    let is = |x: &Array, value: f64| eq(x, full_like(x, value));
    let nan = |x: &Array| ne(x, x);
    // The whole weight is at 0, or at 1.
    let at_zero = bitwise_or(is(a, 0.0), is(b, f64::INFINITY));
    let at_one = bitwise_or(is(b, 0.0), is(a, f64::INFINITY));
    let (low, high) = (is(x, 0.0), is(x, 1.0));
    let below = |x: &Array| lt(x, full_like(x, 0.0));
    let outside = bitwise_or(bitwise_or(below(a), below(b)), below(x));
    let outside = bitwise_or(outside, gt(x, full_like(x, 1.0)));
    let outside = bitwise_or(outside, bitwise_or(bitwise_or(nan(a), nan(b)), nan(x)));
    Cases {
        zero: bitwise_or(bitwise_and(&at_one, bitwise_not(&high)), bitwise_and(&at_zero, &low)),
        one: bitwise_or(bitwise_and(&at_zero, bitwise_not(&low)), bitwise_and(&at_one, &high)),
        nan: bitwise_or(outside, bitwise_and(at_zero, at_one)),
    }
}

/// Returns the operands of the fraction: exchanged where it converges faster for the other tail,
/// and harmless where the result is known. The last array is true where they are exchanged.
fn harmless_operands(a: &Array, b: &Array, x: &Array) -> [Array; 4] {
    let Cases { zero, one, nan } = cases(a, b, x);
    let trivial = bitwise_or(bitwise_or(zero, one), nan);
    let harmless = |x: &Array, value: f64| select(&trivial, &full_like(x, value), x);
    let (a, b, x) = (harmless(a, 1.0), harmless(b, 1.0), harmless(x, 0.0));
    let mean = div(add(&a, full_like(&a, 1.0)), add(add(&a, &b), full_like(&a, 2.0)));
    let exchanged = ge(&x, mean);
    let other = sub(full_like(&x, 1.0), &x);
    [
        select(&exchanged, &b, &a),
        select(&exchanged, &a, &b),
        select(&exchanged, &other, &x),
        exchanged,
    ]
}

/// Computes two levels of the fraction `1 + d₁/(1 + d₂/(1 + …))` by Lentz's method: the levels of
/// `d₂ₘ₊₁` and `d₂ₘ₊₂`. The state is `m`, the mask of elements that have not converged, `C`, `D`,
/// the value so far, and the operands.
fn two_levels(state: &[Array]) -> Vec<Array> {
    let [m, open, c, d, value, a, b, x] = [0, 1, 2, 3, 4, 5, 6, 7].map(|index| &state[index]);
    let one = full_like(x, 1.0);
    let level = crate::primitives::shape::broadcast_to(m, x.shape());
    let next = add(&level, &one);
    let twice = add(&level, &level);
    let base = add(a, &twice);
    // -(a+m)(a+b+m)x / ((a+2m)(a+2m+1)), then (m+1)(b-m-1)x / ((a+2m+1)(a+2m+2)).
    let above = add(&base, &one);
    let odd = mul(mul(add(a, &level), add(add(a, b), &level)), x);
    let odd = neg(div(div(odd, &base), &above));
    let even = mul(mul(&next, sub(b, &next)), x);
    let even = div(div(even, &above), add(&above, &one));
    let (mut c, mut d, mut both) = (c.clone(), d.clone(), one.clone());
    let mut steps = Vec::new();
    for numerator in [odd, even] {
        d = div(&one, away_from_zero(&add(&one, mul(&numerator, &d))));
        c = away_from_zero(&add(&one, div(&numerator, &c)));
        let factor = mul(&c, &d);
        both = mul(&both, &factor);
        steps.push(sub(factor, &one));
    }
    let value = select(open, &mul(value, &both), value);
    let open = unconverged(open, &[(&steps[0], &one), (&steps[1], &one)]);
    let count = add(m, full_like(m, 1.0));
    vec![count, open, c, d, value, a.clone(), b.clone(), x.clone()]
}

fn lower_betainc(
    ctx: &mut LowerCtx<'_>,
    operands: &[Value],
    dtype: DType,
) -> RuleResult<Vec<Value>> {
    in_float(ctx, operands, dtype, |ctx, operands| {
        let begin = lower_by(ctx, operands, |operands| {
            let [a, b, x, _] = harmless_operands(&operands[0], &operands[1], &operands[2]);
            let one = full_like(&x, 1.0);
            let m = crate::primitives::convert_element_type(&full([], 0.0), x.dtype());
            let open = full_like(&eq(&x, &x), true);
            // Before the first level C is 1 and D is 0, so that the first denominator of D is 1.
            vec![m, open, one.clone(), full_like(&x, 0.0), one, a, b, x]
        })?;
        let more = |state: &[Array]| has_open_terms(&state[0], &state[1]);
        let fraction = lower_while(ctx, &begin, more, two_levels)?;
        let mut all = operands.to_vec();
        all.push(fraction[4].clone());
        lower_by(ctx, &all, |operands| {
            let [a, b, x] = [0, 1, 2].map(|index| &operands[index]);
            let Cases { zero, one, nan } = cases(a, b, x);
            let [p, q, y, exchanged] = harmless_operands(a, b, x);
            let unit = full_like(x, 1.0);
            // a·Γ(a) is Γ(a + 1), even where a approaches 0.
            let beta = sub(add(lgamma(add(&p, &unit)), lgamma(&q)), lgamma(add(&p, &q)));
            let power = add(mul(&p, log(&y)), mul(&q, log1p(neg(&y))));
            let part = div(exp(sub(power, beta)), &operands[3]);
            let value = select(&exchanged, &sub(&unit, &part), &part);
            let value = select(&zero, &full_like(x, 0.0), &value);
            let value = select(&one, &unit, &value);
            vec![select(&nan, &full_like(x, f64::NAN), &value)]
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::snapshot::error_of;
    use expect_test::expect;

    #[test]
    fn rejects_invalid_operands() {
        let avals = ["a", "b", "x"].map(|_| Aval::new(DType::I32, [3]));
        expect![[r#"
            error[dtype]: regularized_incomplete_beta: needs a float operand, got i32
              operand 0: i32[3]
              operand 1: i32[3]
              operand 2: i32[3]"#]]
        .assert_eq(&error_of(RegularizedIncompleteBeta, avals));
    }

    mod on_cpu {
        use super::*;
        use crate::prelude::{grad, reduce_sum};

        fn f64s(elements: &[f64]) -> Array {
            Array::from_slice(elements, [elements.len()]).unwrap()
        }

        fn close(result: &Array, expected: &[f64], tolerance: f64) {
            for (result, expected) in result.to_vec::<f64>().unwrap().iter().zip(expected) {
                let same = result == expected || result.is_nan() && expected.is_nan();
                let near = (result - expected).abs() <= tolerance * expected.abs();
                assert!(same || near, "{result} against {expected}");
            }
        }

        /// For `b = 1` the function is `x^a`, for `a = 1` it is `1 - (1-x)^b`.
        #[test]
        fn known_shapes() {
            let x = [1e-8, 0.2, 0.5, 0.75, 0.999];
            let powers: Vec<f64> = x.iter().map(|x: &f64| x.powf(2.5)).collect();
            close(&betainc(2.5, 1.0, f64s(&x)), &powers, 1e-13);
            let powers: Vec<f64> = x.iter().map(|x: &f64| -(3.5 * (-x).ln_1p()).exp_m1()).collect();
            close(&betainc(1.0, 3.5, f64s(&x)), &powers, 1e-13);
            // Half of them did not converge in f32, where C and D are rounded differently.
            let x: Vec<f32> = (1..200).map(|i| i as f32 / 200.0).collect();
            let y = betainc(70.0, 2.0, Array::from_slice(&x, [199]).unwrap());
            let expected = x.iter().map(|x| f64::from(*x)).map(|x| x.powi(70) * (71.0 - 70.0 * x));
            for (y, expected) in y.to_vec::<f32>().unwrap().iter().zip(expected) {
                assert!((f64::from(*y) - expected).abs() < 2e-5, "{y} against {expected}");
            }
            // Symmetric, far from the ends, and steep.
            close(&betainc(5e3, 5e3, f64s(&[0.5])), &[0.5], 1e-11);
        }

        #[test]
        fn edges() {
            let (inf, nan) = (f64::INFINITY, f64::NAN);
            let a = f64s(&[0.0, 0.0, inf, 2.0, 1.0, 1.0, -1.0, nan, 1.0, inf]);
            let b = f64s(&[0.0, 2.0, 2.0, 0.0, 1.0, 2.0, 1.0, 1.0, 1.0, inf]);
            let x = f64s(&[0.5, 0.5, 0.5, 0.5, 0.0, 1.0, 0.5, 0.5, 1.5, 0.5]);
            let expected = [nan, 1.0, 0.0, 0.0, 0.0, 1.0, nan, nan, nan, nan];
            close(&betainc(a, b, x), &expected, 0.0);
        }

        #[test]
        fn slopes_are_differences() {
            let (a, b) = (f64s(&[0.5, 2.0, 5.0]), f64s(&[3.0, 2.0, 0.5]));
            let (x, step) = (f64s(&[0.1, 0.6, 0.9]), 1e-6);
            let slopes = grad(|x: &Array| reduce_sum(&betainc(&a, &b, x), &[0]))(&x);
            let above = betainc(&a, &b, add(&x, step)).to_vec::<f64>().unwrap();
            let below = betainc(&a, &b, add(&x, -step)).to_vec::<f64>().unwrap();
            let differences: Vec<f64> = above
                .iter()
                .zip(below)
                .map(|(above, below)| (above - below) / (2.0 * step))
                .collect();
            close(&slopes, &differences, 1e-6);
        }
    }
}
