//! Hypergeometric series with derivatives of every order, by the argument and by the parameters.
//!
//! A term is the one before times factors that are linear in each variable, or the inverse of such. So the
//! derivatives of a term follow from those of the one before, also where a parameter is a whole number
//! that ends the series, and one loop sums them all.

use crate::control_flow::{custom_jvp, while_loop};
use crate::core::Array;
use crate::primitives::{
    abs, add, div, eq, floor, full_like, go_on, le, lgamma, lt, mul, neg, rem, round, sin,
    still_open, sub, where_, zeros, zeros_like,
};
use std::f64::consts::PI;

/// How often the sum is differentiated by each of its variables: the parameters above, those below,
/// the argument.
#[derive(Clone, Debug)]
struct Orders(Vec<usize>);

impl Orders {
    /// How many derivatives there are of these orders and lower ones.
    fn size(&self) -> usize {
        self.0.iter().map(|order| order + 1).product()
    }

    /// How far derivatives lie apart whose orders by `variable` differ by 1.
    fn stride(&self, variable: usize) -> usize {
        self.0[variable + 1..].iter().map(|order| order + 1).product()
    }

    /// The order by `variable` of the derivative at `place`.
    fn at(&self, place: usize, variable: usize) -> usize {
        place / self.stride(variable) % (self.0[variable] + 1)
    }

    fn raised(&self, variable: usize) -> Orders {
        let mut raised = self.clone();
        raised.0[variable] += 1;
        raised
    }

    /// The derivatives of a product with a factor that is linear in `variable`.
    fn times(&self, term: &[Array], variable: usize, factor: &Array) -> Vec<Array> {
        let part = |place: usize| {
            let product = mul(&term[place], factor);
            match self.at(place, variable) {
                0 => product,
                order => add(product, mul(&term[place - self.stride(variable)], order as f64)),
            }
        };
        (0..term.len()).map(part).collect()
    }

    /// The derivatives of a quotient by such a factor.
    fn over(&self, term: &[Array], variable: usize, factor: &Array) -> Vec<Array> {
        let mut quotients: Vec<Array> = Vec::with_capacity(term.len());
        for (place, term) in term.iter().enumerate() {
            quotients.push(match self.at(place, variable) {
                0 => div(term, factor),
                order => {
                    let lower = &quotients[place - self.stride(variable)];
                    div(sub(term, mul(lower, order as f64)), factor)
                }
            });
        }
        quotients
    }
}

/// The highest of the derivatives, by a loop until none of a term's matters beside its sum.
fn summed(n_above: usize, orders: &Orders, variables: &[Array]) -> Array {
    let argument = variables.len() - 1;
    let x = &variables[argument];
    let mut first = vec![zeros_like(x); orders.size()];
    first[0] = full_like(x, 1);
    let step = |(k, open, term, sum): (Array, Array, Vec<Array>, Vec<Array>)| {
        let following = add(&k, 1.0);
        let mut next = orders.times(&term, argument, x);
        for part in &mut next {
            *part = div(&*part, &following);
        }
        for (variable, parameter) in variables[..argument].iter().enumerate() {
            let factor = add(parameter, &k);
            next = match variable < n_above {
                true => orders.times(&next, variable, &factor),
                false => orders.over(&next, variable, &factor),
            };
        }
        let add_open = |(sum, term): (&Array, &Array)| where_(&open, add(sum, term), sum);
        let sum: Vec<Array> = sum.iter().zip(&next).map(add_open).collect();
        let k = following;
        let mut going = still_open(&open, &next.iter().zip(&sum).collect::<Vec<_>>());
        // Before a negative parameter below is passed, terms may grow again.
        for below in &variables[n_above..argument] {
            going = going | (&open & lt(&k, neg(below)));
        }
        (k, going, next, sum)
    };
    let more = |(k, open, _, _): (Array, Array, Vec<Array>, Vec<Array>)| go_on(&k, &open);
    let open = full_like(&eq(x, x), true);
    let state = (zeros([], x.dtype()), open, first.clone(), first);
    let (_, _, _, mut sums) = while_loop(more, step, state);
    sums.pop().expect("there is the function itself")
}

fn differentiated(n_above: usize, orders: Orders, variables: &Vec<Array>) -> Array {
    let f = |variables: &Vec<Array>| summed(n_above, &orders, variables);
    let held = orders.clone();
    let rule = move |variables: &Vec<Array>, changes: &Vec<Array>| {
        let value = differentiated(n_above, held.clone(), variables);
        let mut total = zeros_like(&value);
        for (variable, change) in changes.iter().enumerate() {
            let slope = differentiated(n_above, held.raised(variable), variables);
            total = add(total, mul(slope, change));
        }
        (value, total)
    };
    custom_jvp(f, rule)(variables)
}

/// `Σ (a₁)ₖ(a₂)ₖ…/((b₁)ₖ…) xᵏ/k!` with the parameters `above` and `below`, all of one float dtype and shape.
///
/// Where no parameter above ends it the series must converge, or, as an asymptotic one, reach the dtype's
/// precision. A parameter below must not be a whole number of 0 and less, unless one above ends the series first.
///
/// Reference: DLMF 16.2.1.
pub(super) fn hypergeometric(above: &[&Array], below: &[&Array], x: &Array) -> Array {
    let variables: Vec<Array> = above.iter().chain(below).copied().chain([x]).cloned().collect();
    let orders = Orders(vec![0; variables.len()]);
    differentiated(above.len(), orders, &variables)
}

/// Whether a parameter is a whole number of 0 and less.
pub(super) fn ends(parameter: &Array) -> Array {
    eq(parameter, floor(parameter)) & le(parameter, 0.0)
}

/// `1/Γ(x)` as a factor and the logarithm of another one. The factor vanishes at the poles and is smooth there.
///
/// Reference: DLMF 5.5.3.
pub(super) fn reciprocal_gamma(x: &Array) -> (Array, Array) {
    let low = lt(x, 0.5);
    let whole = round(x);
    let sign = sub(1.0, mul(abs(&rem(&whole, 2.0)), 2.0));
    let wave = mul(sign, sin(&mul(sub(x, &whole), PI)));
    let one = full_like(x, 1);
    let reflected = lgamma(&where_(&low, sub(1.0, x), x));
    let factor = where_(&low, mul(wave, 1.0 / PI), &one);
    (factor, where_(&low, &reflected, neg(&reflected)))
}
