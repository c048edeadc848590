//! Fits the Kalman filter of a damped oscillator to noisy measurements of its position.
//!
//! ```text
//! cargo run --release -p research --bin kalman
//! ```
//!
//! Kalman: A new approach to linear filtering and prediction problems (1960). The likelihood of the
//! measurements is that of their one-step predictions, and Adam climbs its gradient through the
//! filter. The losses are those of `python-compat/research/kalman.py`.

#![allow(clippy::print_stdout, reason = "an example shows its results")]

mod chart;

use oxidax::prelude::*;

const STEPS: usize = 300;
const SERIES: usize = 16;
const TIMES: usize = 100;
const F64: DType = DType::F64;

/// Frequency, damping, and the logarithms of the deviations of process and measurements.
type Params = [Array; 4];

/// Returns parameters as arrays.
fn params([frequency, damping, process, noise]: [f64; 4]) -> Params {
    [frequency, damping, process, noise].map(|value| full(([], F64), value))
}

/// Returns the matrix of one time step of the oscillator, `[2, 2]`.
fn transition([frequency, damping, ..]: &Params) -> Array {
    let (c, s) = (cos(frequency), sin(frequency));
    exp(-damping) * array![[&c, &s], [&-&s, &c]]
}

/// Returns the measurements `[t]` of an oscillator that noise drives.
fn simulate(p: &Params, key: random::Key) -> Array {
    let [_, _, process, noise] = p;
    let [k_start, k_process, k_noise] = key.split();
    let shocks = exp(process) * random::normal(k_process, ([TIMES, 2], F64));
    let step = |x: Array, shock: Array| {
        let x = transition(p).matmul(&x) + shock;
        (x.clone(), x.index(i![0]))
    };
    let positions = scan(step, random::normal(k_start, ([2], F64)), shocks).1;
    positions + exp(noise) * random::normal(k_noise, ([TIMES], F64))
}

/// Returns the log density of the measurements `[t]`, divided by their number.
fn log_likelihood(p: &Params, measured: &Array) -> Array {
    let (a, h) = (transition(p), array![1.0f64, 0.0]);
    let (q, r) = (exp(2.0 * &p[2]) * eye((2, F64)), exp(2.0 * &p[3]));
    let step = |(mean, cov): (Array, Array), y: Array| {
        let (mean, cov) = (a.matmul(&mean), a.matmul(&cov).matmul(&a.t()) + &q);
        let (variance, error) = (h.matmul(&cov).matmul(&h) + &r, y - h.matmul(&mean));
        let gain = cov.matmul(&h) / &variance;
        let (mean, cov) = (mean + &gain * &error, &cov - outer(&gain, &h.matmul(&cov)));
        ((mean, cov), stats::Normal::new(0.0, sqrt(variance)).logpdf(error))
    };
    scan(step, (zeros(([2], F64)), eye((2, F64))), measured).1.mean()
}

/// Returns the loss of each step, and the fitted frequency.
pub fn train(steps: usize) -> Result<(Vec<f64>, f64), Error> {
    let truth = params([0.5, 0.05, 0.1f64.ln(), 0.3f64.ln()]);
    let keys = random::split(random::key(0), SERIES);
    let measured = vmap(|key: random::Key| simulate(&truth, key)).apply(keys);
    let mut fitted = params([0.7, 0.0, 0.0, 0.0]);
    let adam = optim::adam(0.02);
    let mut state = adam.init(&fitted);

    let loss =
        move |p: &Params| -vmap(|series: &Array| log_likelihood(p, series)).apply(&measured).mean();
    let step = jit(|params: Params, state: optim::State| {
        let (value, grads) = value_and_grad(&loss)(&params);
        let (updates, state) = adam.update(&grads, &state, &params);
        (optim::apply_updates(&params, &updates), state, value)
    });
    let mut losses = Vec::new();
    for _ in 0..steps {
        let value;
        (fitted, state, value) = step.call(fitted, state)?;
        losses.push(value.item()?);
    }
    Ok((losses, fitted[0].item()?))
}

fn main() -> Result<(), Error> {
    let (losses, frequency) = train(STEPS)?;
    println!("loss      {:.4} -> {:.4}", losses[0], losses[STEPS - 1]);
    println!("frequency {frequency:.4}");
    chart::save("Kalman filter: negative log likelihood per measurement", &[("loss", &losses)])
}
