//! Initializers, losses and optimizers compared with JAX and Optax.

use crate::fixtures::Case;
#[cfg(test)]
use crate::fixtures::Suite;
use crate::verify::Computation;
use oxidax::nn::init;
use oxidax::nn::init::{Distribution, Fan, VarianceScaling};
use oxidax::optim::{AdamOptions, AdamWOptions, Optimizer};
use oxidax::prelude::*;
use oxidax::random::Key;
use serde_json::Value;

#[cfg(test)]
fn suite() -> Suite {
    Suite::load("nn")
}

fn initial(case: Case<'_>) -> Array {
    let key = Key::from_data(case.input(0));
    let (shape, dtype) = (case.dims("shape"), case.dtype());
    match case.op() {
        "init_glorot_uniform" => init::glorot_uniform(key, (shape, dtype)),
        "init_glorot_normal" => init::glorot_normal(key, (shape, dtype)),
        "init_he_uniform" => init::he_uniform(key, (shape, dtype)),
        "init_he_normal" => init::he_normal(key, (shape, dtype)),
        "init_lecun_uniform" => init::lecun_uniform(key, (shape, dtype)),
        "init_lecun_normal" => init::lecun_normal(key, (shape, dtype)),
        "init_normal" => init::normal(key, (shape, dtype), case.number("stddev")),
        "init_truncated_normal" => {
            init::truncated_normal(key, (shape, dtype), case.number("stddev"))
        }
        "init_uniform" => init::uniform(key, (shape, dtype), case.number("scale")),
        "init_variance_scaling" => {
            let numbers = VarianceScaling {
                scale: case.number("scale"),
                fan: Fan::Out,
                distribution: Distribution::Normal,
            };
            init::variance_scaling(key, (shape, dtype), numbers)
        }
        "init_zeros" => zeros((shape, dtype)),
        "init_ones" => ones((shape, dtype)),
        other => panic!("no initializer for {other}"),
    }
}

fn loss(op: &str, params: &Value, x: &[Array]) -> Vec<Array> {
    let number = |name: &str| params[name].as_f64().unwrap();
    let (x, y, more) = (&x[0], &x[1], &x[2..]);
    vec![match op {
        "softmax_cross_entropy_labels" => nn::softmax_cross_entropy_with_integer_labels(x, y),
        "softmax_cross_entropy" => nn::softmax_cross_entropy(x, y),
        "mean(softmax_cross_entropy_labels)" => {
            nn::softmax_cross_entropy_with_integer_labels(x, y).mean()
        }
        "softmax_cross_entropy_smoothed" => {
            nn::softmax_cross_entropy(x, &nn::smooth_labels(y, number("alpha")))
        }
        "sigmoid_binary_cross_entropy" => nn::sigmoid_binary_cross_entropy(x, y),
        "squared_error" => nn::squared_error(x, y),
        "mean(squared_error)" => nn::mean_squared_error(x, y),
        "l2_loss" => nn::l2_loss(x, y),
        "huber_loss" => nn::huber_loss_with(x, y, nn::HuberLossOptions { delta: number("delta") }),
        "cosine_similarity" => nn::cosine_similarity(x, y),
        "layer_norm" => nn::LayerNorm {
            scale: Some(y.clone()),
            bias: Some(more[0].clone()),
            epsilon: 1e-5.into(),
        }
        .forward(x),
        other => panic!("no loss for {other}"),
    }]
}

fn optimizer(case: Case<'_>) -> Optimizer {
    let rate = case.number("learning_rate");
    let (b1, b2, eps) = (|| case.number("b1"), || case.number("b2"), || case.number("eps"));
    match case.op() {
        "optim_sgd" => optim::sgd(rate),
        "optim_momentum" => optim::momentum(rate, case.number("momentum")),
        "optim_nesterov" => optim::nesterov(rate, case.number("momentum")),
        "optim_adam" => {
            let options = AdamOptions { b1: b1(), b2: b2(), eps: eps(), ..AdamOptions::default() };
            optim::adam_with(rate, options)
        }
        "optim_adamw" => {
            let options = AdamWOptions {
                b1: b1(),
                b2: b2(),
                eps: eps(),
                weight_decay: case.number("weight_decay"),
                ..AdamWOptions::default()
            };
            optim::adamw_with(rate, options)
        }
        other => panic!("no optimizer for {other}"),
    }
}

/// Returns row `at` of each array.
fn rows(arrays: &[Array], at: usize) -> Vec<Array> {
    let row = |x: &Array| {
        let (mut start, mut limit) = (vec![0; x.rank()], x.shape().to_vec());
        (start[0], limit[0]) = (at, at + 1);
        slice(x, &start, &limit, &vec![1; x.rank()]).reshape(&x.shape()[1..])
    };
    arrays.iter().map(row).collect()
}

/// Returns the leaves after every step of an optimizer.
fn optimized(case: Case<'_>) -> Result<Vec<Array>, String> {
    let optimizer = optimizer(case);
    let mut parameters: Vec<Array> = (0..3).map(|at| case.input(at)).collect();
    let gradients: Vec<Array> = (3..6).map(|at| case.input(at)).collect();
    let mut state = optimizer.init(&parameters);
    let step = jit(move |parameters: Vec<Array>, state: optim::State, gradients: Vec<Array>| {
        let (updates, state) = optimizer.update(&gradients, &state, &parameters);
        (optim::apply_updates(&parameters, &updates), state)
    });
    let steps = case.integer("steps") as usize;
    let mut history: Vec<Vec<Array>> = vec![Vec::new(); 3];
    for at in 0..steps {
        let gradients = rows(&gradients, at);
        (parameters, state) =
            step.call(&parameters, state, gradients).map_err(|error| error.to_string())?;
        for (leaf, value) in history.iter_mut().zip(&parameters) {
            leaf.push(value.reshape([&[1][..], value.shape()].concat()));
        }
    }
    assert_eq!(state.count().item::<i32>().unwrap(), steps as i32);
    assert_eq!(step.stats().compiles, 1, "the state keeps its types from the first step on");
    Ok(history.iter().map(|leaf| concatenate(leaf, 0)).collect())
}

pub(crate) fn computation(op: &str) -> Computation {
    match op {
        _ if op.starts_with("init_") => Computation::Alone(|case| Ok(vec![initial(case)])),
        _ if op.starts_with("optim_") => Computation::Alone(optimized),
        _ => Computation::Joined(loss),
    }
}

#[cfg(test)]
mod on_cpu {
    use super::*;

    #[test]
    fn initial_weights() {
        suite().check(|op| op.starts_with("init_"), |case| case.expect_outputs(&[initial(case)]));
    }

    #[test]
    fn losses_and_their_derivatives() {
        let is_loss = |op: &str| !op.starts_with("init_") && !op.starts_with("optim_");
        suite().check_ops(is_loss, loss);
    }

    #[test]
    fn optimizers_step_by_step() {
        suite().check(|op| op.starts_with("optim_"), |case| case.expect_outputs(&optimized(case)?));
    }
}
