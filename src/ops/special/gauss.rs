//! Gauss's hypergeometric function.

use super::hypergeometric::{ends, hypergeometric, reciprocal_gamma};
use super::operands::{in_wide, real};
use crate::core::Array;
use crate::ops::stack;
use crate::primitives::{
    ArrayLike, abs, add, div, eq, exp, full_like, gt, log, lt, mul, neg, round, sub, where_,
    zeros_like,
};

/// From this argument on the function is computed from its behaviour at 1.
const NEAR_ONE: f64 = 0.97;

/// Where the two parts of the behaviour at 1 cancel, as `c - a - b` nears a whole number, they are computed at
/// so many places to each side of that number, and what they sum to, which is smooth, is interpolated.
const PLACES: i32 = 6;

/// How far those places lie apart: as near as the cancellation allows.
fn spacing(x: &Array) -> f64 {
    if x.dtype().bits() == 64 { 0.01 } else { 0.04 }
}

/// The quotient of gamma functions `Γ(above…)/Γ(below…)`, 0 where one below is infinite.
fn gammas(above: &[&Array], below: &[&Array]) -> Array {
    let mut factor = full_like(above[0], 1);
    let mut power = zeros_like(above[0]);
    for x in above {
        let (part, logarithm) = reciprocal_gamma(x);
        (factor, power) = (div(factor, part), sub(power, logarithm));
    }
    for x in below {
        let (part, logarithm) = reciprocal_gamma(x);
        (factor, power) = (mul(factor, part), add(power, logarithm));
    }
    mul(factor, exp(&power))
}

/// `F(a, b; c; 1 - s)/Γ(c)` for small `s`, where `c - a - b` is no whole number.
///
/// Reference: DLMF 15.8.4.
fn from_one(a: &Array, b: &Array, c: &Array, s: &Array) -> Array {
    let (ca, cb) = (sub(c, a), sub(c, b));
    let d = sub(&ca, b);
    let regular = hypergeometric(&[a, b], &[&sub(1.0, &d)], s);
    let other = hypergeometric(&[&ca, &cb], &[&add(&d, 1.0)], s);
    let regular = mul(gammas(&[&d], &[&ca, &cb]), regular);
    let other = mul(gammas(&[&neg(&d)], &[a, b]), other);
    add(regular, mul(other, exp(&mul(&d, log(s)))))
}

/// `F(a, b; c; 1 - s)` for any `c - a - b`: over `Γ(c)` it is smooth in `c`, so that it is interpolated across whole
/// numbers.
///
/// Reference: Lagrange's polynomials, DLMF 3.3.1.
fn near_one(a: &Array, b: &Array, c: &Array, s: &Array) -> Array {
    let d = sub(sub(c, a), b);
    let step = spacing(s);
    let offset = sub(&d, round(&d));
    let whole = lt(abs(&offset), 2.5 * step);
    let places: Vec<f64> = (-PLACES..=PLACES)
        .filter(|place| *place != 0)
        .map(|place| f64::from(place) * step)
        .collect();
    let (mut nodes, mut weights) = (Vec::new(), Vec::new());
    for (at, &place) in places.iter().enumerate() {
        let mut weight = full_like(c, 1);
        for &other in places.iter().filter(|other| **other != place) {
            weight = mul(weight, mul(sub(&offset, other), 1.0 / (place - other)));
        }
        let alone = full_like(c, if at == 0 { 1.0 } else { 0.0 });
        weights.push(where_(&whole, weight, alone));
        nodes.push(where_(&whole, add(sub(c, &offset), place), c));
    }
    let [a, b, s] = [a, b, s].map(|x| stack(vec![x; places.len()], 0));
    let values = from_one(&a, &b, &stack(nodes.iter().collect::<Vec<_>>(), 0), &s);
    let value = mul(values, stack(weights.iter().collect::<Vec<_>>(), 0)).sum_axes(0);
    mul(value, gammas(&[c], &[]))
}

fn gauss(a: &Array, b: &Array, c: &Array, x: &Array) -> Array {
    let one = full_like(x, 1);
    // A parameter that ends the series stands first; of two, the one that ends it first.
    let swap = ends(b) & (!ends(a) | gt(b, a));
    let (a, b) = (where_(&swap, b, a), where_(&swap, a, b));
    let finite = ends(&a);
    let infinite = full_like(x, f64::INFINITY);
    let pole = ends(c) & !(&finite & gt(&a, c));
    let c = where_(&pole, add(add(abs(&a), abs(&b)), 1.5), c);
    let d = sub(sub(&c, &a), &b);
    let (end, beyond) = (eq(x, 1.0) & !&finite, gt(x, 1.0) & !&finite);
    // A polynomial is flipped for its derivatives by parameters, which are none.
    let flip = lt(x, where_(&finite, full_like(x, -1), zeros_like(x)));
    // Of a negative argument and the rest to 1 both are kept, as the one cancels from the other.
    let usual = !(&end | &beyond);
    let safe = where_(&usual, x, full_like(x, 0.5));
    let rest = where_(&flip, sub(1.0, &safe), &one);
    let z = div(where_(&flip, neg(&safe), &safe), &rest);
    let s = where_(&flip, div(1.0, &rest), sub(1.0, &safe));
    let b = where_(&flip, sub(&c, &b), &b);
    let far = gt(&z, NEAR_ONE) & !&finite & !ends(&b);
    let near = hypergeometric(&[&a, &b], &[&c], &where_(&far, full_like(x, 0.5), &z));
    let choose = |mask: &Array, x: &Array, value: f64| where_(mask, x, full_like(x, value));
    let [a_far, b_far, c_far] = [(&a, 0.3), (&b, 0.4), (&c, 1.2)].map(|(x, v)| choose(&far, x, v));
    let distant = near_one(&a_far, &b_far, &c_far, &choose(&far, &s, 0.05));
    let value = where_(&far, distant, near);
    let value = mul(value, exp(&neg(&mul(&a, log(&rest)))));
    // At 1 itself Gauss's sum is there, where it converges.
    let converges = &end & gt(&d, 0.0);
    let [a, b, c] = [(&a, 0.3), (&b, 0.4), (&c, 1.2)].map(|(x, v)| choose(&converges, x, v));
    let d = sub(sub(&c, &a), &b);
    let sum = gammas(&[&c, &d], &[&sub(&c, &a), &sub(&c, &b)]);
    let value = where_(&end, where_(&converges, sum, &infinite), value);
    let value = where_(&(pole | beyond), &infinite, value);
    where_(&eq(x, 0.0), &one, value)
}

/// Gauss's hypergeometric function `₂F₁(a, b; c; x) = Σ (a)ₖ(b)ₖ/(c)ₖ xᵏ/k!` and its continuation to all `x` below 1, with
/// promotion and broadcasting; integers become floats.
///
/// It has derivatives by all four operands, of every order. Infinite for `x` above 1, at 1 unless
/// `c - a - b` is positive, and where `c` is a whole number of 0 and less; polynomials, for which `a` or `b` is
/// such a number, are finite, unless `c` ends them first. Throws `Op` (dtype) for complex operands.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| special::hyp2f1(1.0, 1.0, 2.0, &x), Aval::new(DType::F32, [3]))?;
/// assert_eq!(y.aval().to_string(), "f32[3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// DLMF 15.2.1, 15.8.1 for negative `x`, 15.8.4 near 1, 15.4.20 at 1.
#[track_caller]
pub fn hyp2f1(a: impl ArrayLike, b: impl ArrayLike, c: impl ArrayLike, x: impl ArrayLike) -> Array {
    let operands = real("hyp2f1", [a.like(), b.like(), c.like(), x.like()]);
    let [y] = in_wide(operands, |[a, b, c, x]| [gauss(&a, &b, &c, &x)]);
    y
}
