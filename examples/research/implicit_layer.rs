//! Learns a regularizer, with the denoiser as an implicit layer.
//!
//! ```text
//! cargo run --release -p research --bin implicit_layer
//! ```
//!
//! The layer returns the minimum of an energy. Each step of the solver minimizes a quadratic bound
//! by conjugate gradients. The derivative follows from the implicit function theorem: one more
//! linear system. Domke: Generic methods for optimization-based modeling (2012). The losses are
//! those of `python-compat/research/implicit_layer.py`.

#![allow(clippy::print_stdout, reason = "an example shows its results")]

mod chart;

use oxidax::prelude::*;
use oxidax_scipy::sparse::linalg::{IterativeOptions, cg_with};

const STEPS: usize = 150;
const SOLVER_STEPS: i32 = 30;
const SMOOTHING: f64 = 0.01;
const SIGNALS: usize = 32;
const POINTS: usize = 64;
const FILTERS: usize = 4;
const F64: DType = DType::F64;

#[derive(Clone, Tree)]
struct Params {
    filters: Array,
    weights: Array,
}

/// Returns the responses of the filters to a signal `[n]`, `[filters, n - 2]`.
fn edges(z: &Array, p: &Params) -> Array {
    vmap(|f: &Array| convolve(z, f, ConvolveMode::Valid)).apply(&p.filters)
}

/// Returns the energy of a signal `z` `[n]` for noisy data `y` `[n]`.
fn energy(z: &Array, y: &Array, p: &Params) -> Array {
    let penalty = sqrt(edges(z, p).square() + SMOOTHING);
    (z - y).square().sum() / 2.0 + (softplus(&p.weights).expand_dims(1) * penalty).sum()
}

/// Returns a quadratic function that touches the energy at `near` and is nowhere below it.
fn bound(z: &Array, near: &Array, y: &Array, p: &Params) -> Array {
    let penalty = sqrt(edges(near, p).square() + SMOOTHING);
    let curvature = softplus(&p.weights).expand_dims(1) / penalty;
    (z - y).square().sum() / 2.0 + (curvature * edges(z, p).square()).sum() / 2.0
}

/// Returns the product of the inverse Hessian of `f` at `z` with `b`.
fn solve(f: impl Fn(&Array) -> Array, z: &Array, b: &Array) -> Array {
    let product = |v: &Array| jvp(grad(&f), z, v).1;
    cg_with(product, b, IterativeOptions { tol: 1e-12, maxiter: Some(100), ..Default::default() })
}

/// Returns the signal of least energy.
fn minimize(y: &Array, p: &Params) -> Array {
    fori_loop(0, SOLVER_STEPS, |_, z: Array| solve(|v| bound(v, &z, y, p), &z, y), y)
}

/// As [`minimize`], with the derivative of the implicit function theorem.
fn denoise(y: &Array, p: &Params) -> Array {
    let forward = |y: &Array, p: &Params| {
        let z = minimize(y, p);
        (z.clone(), (z, y.clone(), p.clone()))
    };
    let backward = |(z, y, p): (Array, Array, Params), cotangent: Array| {
        let u = solve(|z| energy(z, &y, &p), &z, &cotangent);
        let slope = |y: &Array, p: &Params| -grad(|z: &Array| energy(z, y, p))(&z);
        vjp(slope, (&y, &p)).1(&u)
    };
    custom_vjp(minimize, forward, backward)(y, p)
}

/// Returns a signal with a few jumps.
fn steps_of(key: random::Key) -> Array {
    let [k_where, k_size] = key.split();
    let places = random::uniform(k_where, ([4], F64), 0.0..POINTS as f64);
    let heights = random::normal(k_size, ([4], F64));
    let above = arange(POINTS).expand_dims(1).greater_equal(places);
    (heights * above).sum_axes(-1)
}

/// Returns the loss of each step, and the error on other signals.
pub fn train(steps: usize) -> Result<(Vec<f64>, f64), Error> {
    let [k_clean, k_noise, k_filters] = random::key(0).split();
    let clean = vmap(steps_of).apply(random::split(k_clean, 2 * SIGNALS));
    let noisy = &clean + 0.3 * random::normal(k_noise, (clean.shape(), F64));
    let filters = 0.5 * random::normal(k_filters, ([FILTERS, 3], F64));
    let mut params = Params { filters, weights: full(([FILTERS], F64), -3.0) };
    let adam = optim::adam(0.01);
    let mut state = adam.init(&params);

    let loss = |p: &Params, y: &Array, truth: &Array| {
        (vmap(|y: &Array| denoise(y, p)).apply(y) - truth).square().mean()
    };
    let [seen, unseen] =
        [i![..SIGNALS], i![SIGNALS..]].map(|part| (noisy.index(part.clone()), clean.index(part)));
    let step = jit(|params: Params, state: optim::State| {
        let (value, grads) = value_and_grad(loss)(&params, &seen.0, &seen.1);
        let (updates, state) = adam.update(&grads, &state, &params);
        (optim::apply_updates(&params, &updates), state, value)
    });
    let mut losses = Vec::new();
    for _ in 0..steps {
        let value;
        (params, state, value) = step.call(params, state)?;
        losses.push(value.item()?);
    }
    Ok((losses, loss(&params, &unseen.0, &unseen.1).item()?))
}

fn main() -> Result<(), Error> {
    let (losses, error) = train(STEPS)?;
    println!("loss      {:.4} -> {:.4}", losses[0], losses[STEPS - 1]);
    println!("unseen    {error:.4}");
    chart::save("Denoising: mean squared error", &[("loss", &losses)])
}
