//! Evaluation of incomplete gamma functions: a power series below the shape and a continued
//! fraction above it, each in a loop that ends when all elements have converged.

use super::gamma::{digamma, lgamma};
use crate::core::{Array, DType, LowerCtx, RuleResult};
use crate::primitives::arithmetic::{abs, add, div, mul, neg, sub};
use crate::primitives::comparison::{eq, gt, le, lt, ne};
use crate::primitives::composite::{lower_by, lower_while};
use crate::primitives::constant::{full, full_like, zeros_like};
use crate::primitives::convert::convert_element_type;
use crate::primitives::exponential::{exp, log};
use crate::primitives::logic::{bitwise_and, bitwise_not, bitwise_or};
use crate::primitives::reduce::reduce_or;
use crate::primitives::select::select;
use crate::primitives::shape::broadcast_to;
use crate::stablehlo::Value;

/// Limit of terms of a series or fraction. Near `x = a` about `9·√a` are needed in `f64`, so this
/// is enough up to `a ≈ 10⁸`.
const ITERATIONS: f64 = 1e5;

/// A function of `P(a, x)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantity {
    /// `P(a, x)`.
    Lower,
    /// `1 - P(a, x)`.
    Upper,
    /// `∂P/∂a`.
    ByShape,
    /// `-∂P/∂a / ∂P/∂x`.
    Sample,
}

/// Writes `body` for floats of at least 32 bits, with conversions around it for narrower ones.
pub(super) fn in_float(
    ctx: &mut LowerCtx<'_>,
    operands: &[Value],
    dtype: DType,
    body: impl FnOnce(&mut LowerCtx<'_>, &[Value]) -> RuleResult<Vec<Value>>,
) -> RuleResult<Vec<Value>> {
    if dtype.bits() >= 32 {
        return body(ctx, operands);
    }
    let convert = |ctx: &mut LowerCtx<'_>, x: &Value, dtype: DType| {
        let ty = x.ty().with_element(dtype.stablehlo());
        ctx.op_as("convert", std::slice::from_ref(x), "", &ty)
    };
    let wide: Vec<Value> = operands.iter().map(|x| convert(ctx, x, DType::F32)).collect();
    let results = body(ctx, &wide)?;
    Ok(results.iter().map(|y| convert(ctx, y, dtype)).collect())
}

/// Replaces zeros of `x` by a tiny number: denominators in Lentz's method must not vanish.
pub(super) fn away_from_zero(x: &Array) -> Array {
    let tiny = full_like(x, if x.dtype() == DType::F64 { 1e-300 } else { 1e-30 });
    select(&lt(abs(x), &tiny), &tiny, x)
}

/// Masks of the elements that need neither series nor fraction, and of those that need the
/// fraction.
struct Cases {
    /// `P` or its derivative is 0.
    zero: Array,
    /// `P` is 1.
    one: Array,
    nan: Array,
    /// The fraction is used, not the series.
    fraction: Array,
}

fn cases(a: &Array, x: &Array, quantity: Quantity) -> Cases {
    let is = |x: &Array, value: f64| eq(x, full_like(x, value));
    let inf = f64::INFINITY;
    let outside = bitwise_or(lt(a, zeros_like(a)), lt(x, zeros_like(x)));
    let outside = bitwise_or(outside, bitwise_or(ne(a, a), ne(x, x)));
    let one = full_like(x, 1.0);
    let fraction = bitwise_and(gt(x, a), bitwise_not(lt(x, one)));
    match quantity {
        Quantity::Lower | Quantity::Upper => {
            let both = |value| bitwise_and(is(a, value), is(x, value));
            Cases {
                zero: bitwise_or(is(x, 0.0), is(a, inf)),
                one: bitwise_or(is(x, inf), is(a, 0.0)),
                nan: bitwise_or(outside, bitwise_or(both(0.0), both(inf))),
                fraction,
            }
        }
        Quantity::ByShape | Quantity::Sample => Cases {
            zero: is(x, 0.0),
            one: full_like(&fraction, false),
            nan: bitwise_or(outside, le(a, zeros_like(a))),
            fraction,
        },
    }
}

/// Returns the operands of the fraction or of the series, replaced by harmless values where it is
/// not used.
fn harmless_operands(a: &Array, x: &Array, quantity: Quantity, fraction: bool) -> [Array; 2] {
    let cases = cases(a, x, quantity);
    let mine = if fraction { cases.fraction } else { bitwise_not(&cases.fraction) };
    let trivial = bitwise_or(bitwise_or(cases.zero, cases.one), cases.nan);
    let used = bitwise_and(mine, bitwise_not(&trivial));
    let harmless = |x: &Array, value: f64| select(&used, x, &full_like(x, value));
    // With these values only the first term is not zero.
    [harmless(a, 1.0), harmless(x, if fraction { 2.0 } else { 0.0 })]
}

fn scalar(x: &Array, value: f64) -> Array {
    convert_element_type(&full([], value), x.dtype())
}

/// Returns true if some element has not converged and terms are left.
pub(crate) fn has_open_terms(count: &Array, open: &Array) -> Array {
    let axes: Vec<isize> = (0..open.rank() as isize).collect();
    bitwise_and(reduce_or(open, &axes), lt(count, full_like(count, ITERATIONS)))
}

/// Returns the elements of `open` with a step that still changes the total.
///
/// Converged elements do not change any more: further steps only add rounding errors, which grow in
/// some fractions.
pub(crate) fn unconverged(open: &Array, steps: &[(&Array, &Array)]) -> Array {
    let epsilon = |x: &Array| full_like(x, x.dtype().epsilon());
    let matters = |(step, total): &(&Array, &Array)| gt(abs(step), mul(abs(total), epsilon(step)));
    let any = steps.iter().map(matters).reduce(|a, b| bitwise_or(a, b));
    bitwise_and(open, any.expect("there is at least one step"))
}

/// Writes `Σ xⁿ / ((a+1)…(a+n))` and, if needed, its derivative with respect to `a`. The term after
/// `c` is `c·x/(a+n)`. The logarithmic derivative of a term is `-h`, the negative sum of `1/(a+k)`.
///
/// Reference: DLMF 8.7.1.
fn lower_series(
    ctx: &mut LowerCtx<'_>,
    operands: &[Value],
    quantity: Quantity,
) -> RuleResult<Vec<Value>> {
    let slope = matches!(quantity, Quantity::ByShape | Quantity::Sample);
    let begin = lower_by(ctx, operands, |operands| {
        let [a, x] = harmless_operands(&operands[0], &operands[1], quantity, false);
        let (zero, one) = (zeros_like(&x), full_like(&x, 1.0));
        let open = full_like(&eq(&x, &x), true);
        vec![scalar(&x, 0.0), open, one.clone(), zero.clone(), one, zero, a, x]
    })?;
    let next = |state: &[Array]| {
        let [n, open, term, h, sum, by_a, a, x] =
            [0, 1, 2, 3, 4, 5, 6, 7].map(|index| &state[index]);
        let n = add(n, full_like(n, 1.0));
        let place = add(a, broadcast_to(&n, a.shape()));
        let term = mul(term, div(x, &place));
        let sum = select(open, &add(sum, &term), sum);
        let one = full_like(x, 1.0);
        let h = add(h, div(one, place));
        let step = neg(mul(&term, &h));
        let by_a = select(open, &add(by_a, &step), by_a);
        let open = if slope {
            unconverged(open, &[(&term, &sum), (&step, &by_a)])
        } else {
            unconverged(open, &[(&term, &sum)])
        };
        vec![n, open, term, h, sum, by_a, a.clone(), x.clone()]
    };
    let end = lower_while(ctx, &begin, |state| has_open_terms(&state[0], &state[1]), next)?;
    Ok(vec![end[4].clone(), end[5].clone()])
}

/// Writes the fraction `x+1-a - 1(1-a)/(x+3-a - 2(2-a)/(x+5-a - …))` by Lentz's method and, if
/// needed, its logarithmic derivative with respect to `a`, from the derivatives of its factors.
///
/// Reference: DLMF 8.9.2; Thompson and Barnett, "Coulomb and Bessel functions of complex arguments
/// and order", 1986.
fn lower_fraction(
    ctx: &mut LowerCtx<'_>,
    operands: &[Value],
    quantity: Quantity,
) -> RuleResult<Vec<Value>> {
    let slope = matches!(quantity, Quantity::ByShape | Quantity::Sample);
    let begin = lower_by(ctx, operands, |operands| {
        let [a, x] = harmless_operands(&operands[0], &operands[1], quantity, true);
        let one = full_like(&x, 1.0);
        let first = add(sub(&x, &a), &one);
        let log_slope = neg(div(&one, &first));
        let (zero, minus) = (zeros_like(&x), neg(&one));
        // C starts as the first denominator, whose derivative is -1, D as zero.
        let begin = [first.clone(), minus, zero.clone(), zero, first, log_slope];
        let mut state = vec![scalar(&x, 0.0), full_like(&eq(&x, &x), true)];
        state.extend(begin);
        state.extend([a, x]);
        state
    })?;
    let next = |state: &[Array]| {
        let [k, open, c, dc, d, dd, value, by_a, a, x] =
            [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map(|index| &state[index]);
        let k = add(k, full_like(k, 1.0));
        let level = broadcast_to(&k, a.shape());
        let one = full_like(x, 1.0);
        // With respect to a, the numerator k(a-k) has derivative k, the denominator x+2k+1-a has
        // derivative -1.
        let numerator = mul(&level, sub(a, &level));
        let denominator = add(sub(x, a), add(add(&level, &level), &one));
        let next_c = away_from_zero(&add(&denominator, div(&numerator, c)));
        let below = away_from_zero(&add(&denominator, mul(&numerator, d)));
        let next_d = div(&one, below);
        let factor = mul(&next_c, &next_d);
        let next_value = select(open, &mul(value, &factor), value);
        let step = sub(&factor, &one);
        // C' = -1 + k/C - n·C'/C², and D' = -D²·(-1 + k·D + n·D').
        let quotient = div(sub(&level, mul(&numerator, div(dc, c))), c);
        let next_dc = sub(quotient, &one);
        let inner = sub(add(mul(&level, d), mul(&numerator, dd)), &one);
        let next_dd = neg(mul(mul(&next_d, &next_d), inner));
        let log_step = add(div(&next_dc, &next_c), div(&next_dd, &next_d));
        let next_by_a = select(open, &add(by_a, &log_step), by_a);
        let open = if slope {
            unconverged(open, &[(&step, &one), (&log_step, &next_by_a)])
        } else {
            unconverged(open, &[(&step, &one)])
        };
        vec![k, open, next_c, next_dc, next_d, next_dd, next_value, next_by_a, a.clone(), x.clone()]
    };
    let end = lower_while(ctx, &begin, |state| has_open_terms(&state[0], &state[1]), next)?;
    Ok(vec![end[6].clone(), end[7].clone()])
}

/// Writes one of the functions of `P(a, x)`.
pub(super) fn lower_incomplete(
    ctx: &mut LowerCtx<'_>,
    quantity: Quantity,
    operands: &[Value],
    dtype: DType,
) -> RuleResult<Vec<Value>> {
    in_float(ctx, operands, dtype, |ctx, operands| {
        let mut all = operands.to_vec();
        all.extend(lower_series(ctx, operands, quantity)?);
        all.extend(lower_fraction(ctx, operands, quantity)?);
        lower_by(ctx, &all, |operands| vec![finished(operands, quantity)])
    })
}

/// Combines series and fraction, each with its derivative.
fn finished(operands: &[Array], quantity: Quantity) -> Array {
    let [a, x, sum, sum_by_a, fraction, log_by_a] =
        [0, 1, 2, 3, 4, 5].map(|index| &operands[index]);
    let Cases { zero, one, nan, fraction: above } = cases(a, x, quantity);
    // x^a·exp(-x) / Γ(a).
    let scale = exp(sub(sub(mul(a, log(x)), x), lgamma(a)));
    let value = |value: f64| full_like(x, value);
    let (low, high, from_series, from_fraction) = match quantity {
        Quantity::Lower | Quantity::Upper => {
            let lower = div(mul(&scale, sum), a);
            let upper = div(&scale, fraction);
            let other = |part: &Array| sub(value(1.0), part);
            match quantity {
                Quantity::Lower => (0.0, 1.0, lower, other(&upper)),
                _ => (1.0, 0.0, other(&lower), upper),
            }
        }
        Quantity::ByShape | Quantity::Sample => {
            // The derivative of the sum S with respect to a is S·(log x - ψ(a+1)) + S', times the
            // scale. That of the reciprocal F of the fraction is F·(log x - ψ(a) - the fraction's
            // logarithmic derivative).
            let above_shape = digamma(add(a, value(1.0)));
            let series = add(mul(sum, sub(log(x), above_shape)), sum_by_a);
            let tail = sub(sub(log(x), digamma(a)), log_by_a);
            let tail = neg(div(tail, fraction));
            match quantity {
                Quantity::ByShape => (0.0, 0.0, div(mul(&scale, series), a), mul(&scale, tail)),
                _ => (0.0, 0.0, neg(div(mul(series, x), a)), neg(mul(tail, x))),
            }
        }
    };
    let y = select(&above, &from_fraction, &from_series);
    let y = select(&zero, &value(low), &y);
    let y = select(&one, &value(high), &y);
    select(&nan, &value(f64::NAN), &y)
}
