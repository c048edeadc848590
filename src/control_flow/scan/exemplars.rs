//! Exemplars of `scan` for the law tests.

use super::Scan;
use crate::core::{Array, Aval, DType, Exemplar, Sample};
use crate::primitives::{cos, sin};
use crate::transforms::staging::trace_rules;
use std::sync::Arc;

/// Creates a scan whose body takes `n_consts` constants and carries `n_carry` values.
fn exemplar(
    (length, reverse, unroll): (usize, bool, usize),
    (n_consts, n_carry): (usize, usize),
    avals: &[Aval],
    body: impl FnOnce(&[Array]) -> Vec<Array>,
) -> Exemplar {
    let body = Arc::new(trace_rules(avals.to_vec(), body));
    let scan = Scan { length, reverse, unroll, n_consts, n_carry, body };
    let samples = avals.iter().enumerate().map(|(index, aval)| {
        let is_scanned = index >= n_consts + n_carry;
        let shape = if is_scanned { aval.shape.insert(0, length) } else { aval.shape.clone() };
        Sample::uniform(aval.dtype, shape, -1.0, 1.0)
    });
    Exemplar::new(scan, samples)
}

pub(in crate::control_flow) fn exemplars() -> Vec<Exemplar> {
    let f64s = |shape: &[usize]| Aval::new(DType::F64, shape);
    // A constant, a carry and an element, all differentiable, and an output.
    let recurrence = |inputs: &[Array]| {
        let [w, h, x] = inputs else { unreachable!("three inputs") };
        let next = sin(&(w * h + x));
        vec![next.clone(), &next * &cos(w)]
    };
    // The second carry depends on the first; the third is a counter.
    let chain = |inputs: &[Array]| {
        let [a, b, n] = inputs else { unreachable!("three inputs") };
        vec![sin(a), b + a * 0.5, n + 1, a * b]
    };
    let accumulate = |inputs: &[Array]| {
        let sum = &inputs[0] + &inputs[1];
        vec![sum.clone(), sum]
    };
    let counter = Aval::new(DType::I32, []);
    let three = [f64s(&[2]), f64s(&[2]), f64s(&[2])];
    vec![
        exemplar((3, false, 1), (1, 1), &three, recurrence),
        exemplar((5, true, 2), (1, 1), &[f64s(&[]), f64s(&[]), f64s(&[])], recurrence),
        exemplar((2, false, 2), (0, 3), &[f64s(&[2]), f64s(&[2]), counter], chain),
        exemplar((0, false, 1), (0, 1), &[f64s(&[2]), f64s(&[2])], accumulate),
        exemplar((1, false, 1), (0, 1), &[f64s(&[1]), f64s(&[1])], accumulate),
        exemplar(
            (3, true, 1),
            (0, 1),
            &[Aval::new(DType::I32, [2]), Aval::new(DType::I32, [2])],
            accumulate,
        ),
        exemplar((2, false, 1), (0, 0), &[f64s(&[2])], |inputs| vec![sin(&inputs[0])]),
    ]
}
