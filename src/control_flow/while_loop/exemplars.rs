//! Exemplars of `while_loop` for the law tests.

use super::WhileLoop;
use crate::core::{Aval, DType, Exemplar, Sample};
use crate::primitives::{lt, mul, sin};
use crate::transforms::staging::trace_rules;
use std::sync::Arc;

pub(in crate::control_flow) fn exemplars() -> Vec<Exemplar> {
    let scalar = |dtype| Aval::new(dtype, []);
    let f64s = || Aval::new(DType::F64, [2]);
    // Runs while a counter, different in each example of a batch, is below a limit.
    let below = trace_rules([scalar(DType::I32), scalar(DType::I32), f64s()], |inputs| {
        vec![lt(&inputs[1], &inputs[0])]
    });
    let step = trace_rules([f64s(), scalar(DType::I32), f64s()], |inputs| {
        vec![&inputs[1] + 1, sin(&inputs[2]) * &inputs[0]]
    });
    let counted = WhileLoop {
        n_cond_consts: 1,
        n_body_consts: 1,
        cond: Arc::new(below),
        body: Arc::new(step),
    };
    // Runs while a float is below 4, sampled away from where the number of steps changes.
    let small = trace_rules([scalar(DType::F64)], |inputs| vec![lt(&inputs[0], 4.0)]);
    let double = trace_rules([scalar(DType::F64)], |inputs| vec![mul(&inputs[0], 2.0)]);
    let doubling = WhileLoop {
        n_cond_consts: 0,
        n_body_consts: 0,
        cond: Arc::new(small),
        body: Arc::new(double),
    };
    vec![
        Exemplar::new(
            counted,
            [
                Sample::uniform(DType::I32, [], 1.0, 5.0),
                Sample::uniform(DType::F64, [2], -1.0, 1.0),
                Sample::uniform(DType::I32, [], 0.0, 2.0),
                Sample::uniform(DType::F64, [2], -1.0, 1.0),
            ],
        )
        .forward_only(),
        Exemplar::new(doubling, [Sample::uniform(DType::F64, [], 0.55, 0.95)]).forward_only(),
    ]
}
