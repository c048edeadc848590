//! Initializers, losses and optimizers against those of JAX and Optax.

use crate::fixtures::{Case, Suite};
use oxidax::nn::init;
use oxidax::nn::init::{Distribution, Fan, VarianceScaling};
use oxidax::optim::{Adam, Optimizer};
use oxidax::prelude::*;
use oxidax::random::Key;

fn suite() -> Suite {
    Suite::load("nn")
}

fn initial(case: Case<'_>) -> Array {
    let key = Key::from_data(case.input(0));
    let (shape, dtype) = (case.dims("shape"), case.dtype());
    match case.op() {
        "init_glorot_uniform" => init::glorot_uniform(key, shape, dtype),
        "init_glorot_normal" => init::glorot_normal(key, shape, dtype),
        "init_he_uniform" => init::he_uniform(key, shape, dtype),
        "init_he_normal" => init::he_normal(key, shape, dtype),
        "init_lecun_uniform" => init::lecun_uniform(key, shape, dtype),
        "init_lecun_normal" => init::lecun_normal(key, shape, dtype),
        "init_normal" => init::normal(key, shape, dtype, case.number("stddev")),
        "init_truncated_normal" => init::truncated_normal(key, shape, dtype, case.number("stddev")),
        "init_uniform" => init::uniform(key, shape, dtype, case.number("scale")),
        "init_variance_scaling" => {
            let numbers = VarianceScaling {
                scale: case.number("scale"),
                fan: Fan::Out,
                distribution: Distribution::Normal,
            };
            init::variance_scaling(key, shape, dtype, numbers)
        }
        "init_zeros" => zeros(shape, dtype),
        "init_ones" => ones(shape, dtype),
        other => panic!("no initializer for {other}"),
    }
}

/// The loss of a case as a function of its operands.
type Loss = Box<dyn Fn(&[Array]) -> Array>;

fn loss(case: Case<'_>) -> Loss {
    match case.op() {
        "softmax_cross_entropy_labels" | "softmax_cross_entropy" => {
            Box::new(|x| nn::softmax_cross_entropy(&x[0], &x[1]))
        }
        "mean(softmax_cross_entropy_labels)" => {
            Box::new(|x| nn::softmax_cross_entropy(&x[0], &x[1]).mean())
        }
        "softmax_cross_entropy_smoothed" => {
            let alpha = case.number("alpha");
            Box::new(move |x| {
                let classes = *x[1].shape().last().unwrap() as f64;
                let smooth = &x[1] * (1.0 - alpha) + alpha / classes;
                nn::softmax_cross_entropy(&x[0], &smooth)
            })
        }
        "sigmoid_binary_cross_entropy" => {
            Box::new(|x| nn::sigmoid_binary_cross_entropy(&x[0], &x[1]))
        }
        "squared_error" => Box::new(|x| nn::squared_error(&x[0], &x[1])),
        "mean(squared_error)" => Box::new(|x| nn::mse(&x[0], &x[1])),
        "l2_loss" => Box::new(|x| nn::squared_error(&x[0], &x[1]) * 0.5),
        "huber_loss" => {
            let delta = case.number("delta");
            Box::new(move |x| nn::huber(&x[0], &x[1], delta))
        }
        other => panic!("no loss for {other}"),
    }
}

fn check_loss(case: Case<'_>) -> Result<(), String> {
    let f = loss(case);
    let operands: Vec<Array> = (0..case.n_inputs()).map(|at| case.input(at)).collect();
    case.expect_outputs(&[f(&operands)])?;
    let wrt = case.wrt().expect("losses are recorded with derivatives");
    let of = |varied: &Vec<Array>| {
        let mut operands = operands.clone();
        for (&at, value) in wrt.iter().zip(varied) {
            operands[at] = value.clone();
        }
        f(&operands)
    };
    let primals: Vec<Array> = wrt.iter().map(|&at| operands[at].clone()).collect();
    let (_, tangent) = jvp(of, &primals, &case.grad_arrays("tangents"));
    case.expect_grad("jvp", &[tangent])?;
    let (_, pullback) = vjp(of, &primals);
    case.expect_grad("vjp", &pullback.apply(&case.grad_arrays("cotangents")[0]))
}

fn optimizer(case: Case<'_>) -> Optimizer {
    let rate = case.number("learning_rate");
    let adam = || Adam {
        b1: case.number("b1"),
        b2: case.number("b2"),
        eps: case.number("eps"),
        ..Adam::new(rate)
    };
    match case.op() {
        "optim_sgd" => optim::sgd(rate),
        "optim_momentum" => optim::momentum(rate, case.number("momentum")),
        "optim_nesterov" => optim::nesterov(rate, case.number("momentum")),
        "optim_adam" => adam().optimizer(),
        "optim_adamw" => Adam { weight_decay: case.number("weight_decay"), ..adam() }.optimizer(),
        other => panic!("no optimizer for {other}"),
    }
}

/// Row `at` of each array.
fn rows(arrays: &[Array], at: usize) -> Vec<Array> {
    let row = |x: &Array| {
        let (mut start, mut limit) = (vec![0; x.rank()], x.shape().to_vec());
        (start[0], limit[0]) = (at, at + 1);
        slice(x, &start, &limit, &vec![1; x.rank()]).reshape(&x.shape()[1..])
    };
    arrays.iter().map(row).collect()
}

fn check_optimizer(case: Case<'_>) -> Result<(), String> {
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
    let history: Vec<Array> = history.iter().map(|leaf| concatenate(leaf, 0)).collect();
    case.expect_outputs(&history)
}

/// What lies outside `nn` and `optim`: its functions are checked with the others of `ops`.
const ELSEWHERE: &[&str] = &["cosine_similarity", "layer_norm"];

fn is_loss(op: &str) -> bool {
    !op.starts_with("init_") && !op.starts_with("optim_") && !ELSEWHERE.contains(&op)
}

mod on_cpu {
    use super::*;

    #[test]
    fn initial_weights() {
        suite().check(|op| op.starts_with("init_"), |case| case.expect_outputs(&[initial(case)]));
    }

    #[test]
    fn losses_and_their_derivatives() {
        suite().check(is_loss, check_loss);
    }

    #[test]
    fn optimizers_step_by_step() {
        suite().check(|op| op.starts_with("optim_"), check_optimizer);
    }
}
