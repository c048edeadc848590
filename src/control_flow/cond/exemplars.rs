//! Exemplars of `cond` for the law tests.

use super::Cond;
use crate::core::{Array, Aval, DType, Exemplar, Sample};
use crate::primitives::{cos, sin, zeros_of};
use crate::transforms::staging::trace_rules;

pub(in crate::control_flow) fn exemplars() -> Vec<Exemplar> {
    let f64s = || Aval::new(DType::F64, [2]);
    let branch = |body: fn(&[Array]) -> Vec<Array>| trace_rules([f64s(), f64s()], body);
    let three = Cond::new([
        branch(|x| vec![sin(&x[0]) * &x[1], x[1].clone()]),
        branch(|x| vec![x[0].clone(), cos(&(&x[0] * &x[1]))]),
        branch(|x| vec![zeros_of(x[0].aval()), &x[0] * &x[0]]),
    ]);
    let counts = Aval::new(DType::I32, [2]);
    let integers = Cond::new([
        trace_rules([counts.clone()], |x| vec![x[0].clone()]),
        trace_rules([counts.clone()], |x| vec![&x[0] + 1]),
    ]);
    let floats = || Sample::uniform(DType::F64, [2], -1.0, 1.0);
    let linear = Cond::new([branch(|x| vec![&x[0] * 2.0 - &x[1]]), branch(|x| vec![-&x[1]])]);
    vec![
        // A different branch in each example of a batch, and numbers out of range.
        Exemplar::new(
            three.clone(),
            [Sample::uniform(DType::I32, [], 0.0, 3.0), floats(), floats()],
        ),
        Exemplar::new(three.clone(), [Sample::listed(DType::I32, [], &[-1.0]), floats(), floats()]),
        Exemplar::new(three, [Sample::listed(DType::I32, [], &[1.0]), floats(), floats()]),
        Exemplar::new(linear, [Sample::listed(DType::I32, [], &[0.0]), floats(), floats()]),
        Exemplar::new(
            integers,
            [Sample::uniform(DType::I32, [], 0.0, 2.0), Sample::uniform(DType::I32, [2], 0.0, 9.0)],
        ),
    ]
}
