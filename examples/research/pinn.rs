//! Solves Burgers' equation with a network, trained by L-BFGS.
//!
//! ```text
//! cargo run --release -p research --bin pinn
//! ```
//!
//! Raissi, Perdikaris, Karniadakis: Physics-informed neural networks (2019), example 1: the loss is
//! the mean square of the equation's residual inside the domain, and of the error at its border.
//! The losses are those of `python-compat/research/pinn.py`.

#![allow(clippy::print_stdout, reason = "an example shows its results")]

mod chart;

use oxidax::optim::UpdateOptions;
use oxidax::prelude::*;
use std::f64::consts::PI;

const STEPS: usize = 60;
const INSIDE: usize = 512;
const BORDER: usize = 128;
const VISCOSITY: f64 = 0.05;
const SIZES: [usize; 5] = [2, 16, 16, 16, 1];
const F64: DType = DType::F64;

/// Draws weights `[in, out]` and biases of all layers.
fn init(key: random::Key) -> nn::Mlp {
    let layer = |(key, n): (random::Key, &[usize])| {
        let scale = (2.0 / (n[0] + n[1]) as f64).sqrt();
        let weight = scale * random::normal(key, ([n[0], n[1]], F64));
        nn::Linear { weight, bias: Some(zeros(([n[1]], F64))) }
    };
    let keys = random::split(key, SIZES.len() - 1);
    let layers = keys.into_iter().zip(SIZES.windows(2)).map(layer).collect();
    nn::Mlp { layers, activation: nn::Activation::Tanh }
}

/// Returns the velocity at a time and place, both scalars.
fn u(params: &nn::Mlp, t: &Array, x: &Array) -> Array {
    params.forward(&array![t, x]).index(i![0])
}

/// Returns the violation of the equation.
fn residual(params: &nn::Mlp, t: &Array, x: &Array) -> Array {
    let u_t = grad(|t: &Array| u(params, t, x))(t);
    let u_x = grad(|x: &Array| u(params, t, x));
    let u_xx = grad(&u_x)(x);
    u_t + u(params, t, x) * u_x(x) - VISCOSITY * u_xx
}

/// Returns the loss of each step, and the velocity at a point.
pub fn train(steps: usize) -> Result<(Vec<f64>, f64), Error> {
    let [k_net, k_t, k_x, k_start, k_border] = random::key(0).split();
    let times = random::uniform(k_t, ([INSIDE], F64), 0.0..1.0);
    let places = random::uniform(k_x, ([INSIDE], F64), -1.0..1.0);
    let x_start = random::uniform(k_start, ([BORDER], F64), -1.0..1.0);
    let t_border = random::uniform(k_border, ([BORDER], F64), 0.0..1.0);
    let at_border = move |x: f64| full(([BORDER], F64), x);

    let loss = move |params: &nn::Mlp| {
        let velocity = vmap(|t: &Array, x: &Array| u(params, t, x));
        let equation = vmap(|t: &Array, x: &Array| residual(params, t, x)).apply(&times, &places);
        let start = velocity.apply(at_border(0.0), &x_start) + sin(PI * &x_start);
        let left = velocity.apply(&t_border, at_border(-1.0));
        let right = velocity.apply(&t_border, at_border(1.0));
        [start, left, right].iter().fold(equation.square().mean(), |s, e| s + e.square().mean())
    };
    let mut params = init(k_net);
    let lbfgs = optim::lbfgs();
    let mut state = lbfgs.init(&params);
    let step = jit(|params: nn::Mlp, state: optim::State| {
        let (value, grads) = optim::value_and_grad_from_state(&loss, &params, &state);
        let options = UpdateOptions {
            value: Some(&value),
            gradient: Some(&grads),
            value_fn: Some(&loss),
            ..Default::default()
        };
        let (updates, state) = lbfgs.update_with(&grads, &state, &params, options);
        (optim::apply_updates(&params, &updates), state, value)
    });
    let mut losses = Vec::new();
    for _ in 0..steps {
        let value;
        (params, state, value) = step.call(params, state)?;
        losses.push(value.item()?);
    }
    let half = full(([], F64), 0.5);
    Ok((losses, u(&params, &half, &half).item()?))
}

fn main() -> Result<(), Error> {
    let (losses, velocity) = train(STEPS)?;
    println!("loss      {:.5} -> {:.5}", losses[0], losses[STEPS - 1]);
    println!("velocity  {velocity:.4}");
    chart::save("Burgers' equation: squared residual", &[("loss", &losses)])
}
