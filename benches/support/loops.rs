//! Small programs that are loops: the gradients of a neuron's cable, a Kalman filter, an LSTM and a
//! neural differential equation, and a sampler by Hamiltonian Monte Carlo.
//!
//! `python-compat/loops_bench.py` has the same programs in JAX, with the same numbers; `loops.c`
//! has four in C.

#![allow(clippy::ptr_arg, reason = "arguments of `value_and_grad` are trees, as vectors are")]

use oxidax::prelude::*;
use oxidax::random::{self, Key};

/// A program of a list of arrays, with its arguments.
pub struct Program {
    /// The name, by which JAX's side knows it.
    pub name: &'static str,
    /// True if `loops.c` has it.
    pub is_in_c: bool,
    /// The description in the table.
    pub title: &'static str,
    pub function: fn(&Vec<Array>) -> Vec<Array>,
    pub arguments: Vec<Array>,
}

/// Returns the programs.
pub fn programs() -> Result<Vec<Program>, Error> {
    Ok(vec![
        Program {
            name: "cable",
            is_in_c: true,
            title: "neuron: 24 scalars, 1,000 steps, gradient",
            function: |x| gradients(cable, x),
            arguments: vec![wave([4], 0.3)?],
        },
        Program {
            name: "kalman",
            is_in_c: true,
            title: "Kalman filter 4×4, 1,000 steps, gradient",
            function: |x| gradients(kalman, x),
            arguments: vec![wave([4, 4], 0.1)?, wave([4], 1.0)?, wave([1000], 1.0)?],
        },
        Program {
            name: "lstm",
            is_in_c: true,
            title: "LSTM of 32 units, batch 1, 500 steps, gradient",
            function: |x| gradients(lstm, x),
            arguments: vec![
                wave([32, 128], 0.1)?,
                wave([32, 128], 0.1)?,
                wave([128], 0.1)?,
                wave([500, 1, 32], 1.0)?,
            ],
        },
        Program {
            name: "ode",
            is_in_c: true,
            title: "neural ODE 2-32-32-2, RK4, 200 steps, gradient",
            function: |x| gradients(ode, x),
            arguments: vec![
                wave([2, 32], 0.2)?,
                wave([32, 32], 0.2)?,
                wave([32, 2], 0.2)?,
                wave([2], 1.0)?,
            ],
        },
        Program {
            name: "hmc",
            is_in_c: false,
            title: "HMC: 64 chains of 8 dimensions, 100 × 8 steps",
            function: hmc,
            arguments: vec![wave([8, 8], 0.1)?, wave([64, 8], 1.0)?],
        },
    ])
}

/// Returns true if a program has this name.
pub fn is_name(word: &str) -> bool {
    ["cable", "kalman", "lstm", "ode", "hmc"].contains(&word)
}

/// Returns `scale * sin(1), scale * sin(2), …`.
fn wave(shape: impl Into<Shape>, scale: f32) -> Result<Array, Error> {
    let shape = shape.into();
    let elements: Vec<f32> = (0..shape.size()).map(|at| scale * (at as f32 + 1.0).sin()).collect();
    Array::from_slice(&elements, shape)
}

fn gradients(loss: fn(&Vec<Array>) -> Array, x: &Vec<Array>) -> Vec<Array> {
    let (value, mut gradients) = value_and_grad(loss)(x);
    gradients.push(value);
    gradients
}

/// Twelve coupled FitzHugh-Nagumo compartments with two scalars each.
fn cable(x: &Vec<Array>) -> Array {
    let parameter = |at: usize| x[0].index(i![at]);
    let [diffusion, rate, offset, current] = [0, 1, 2, 3].map(parameter);
    let n = 12;
    let start: Vec<Array> = (0..2 * n).map(|at| scalar(0.05 * at as f32 - 0.6)).collect();
    let step = |state: &Vec<Array>, ()| {
        let (v, w) = state.split_at(n);
        let mut next = Vec::with_capacity(2 * n);
        for at in 0..n {
            let (left, right) = (&v[at.saturating_sub(1)], &v[(at + 1).min(n - 1)]);
            let flow = &diffusion * (left + right - &v[at] * 2.0);
            let cubic = &v[at] * &v[at] * &v[at] * (1.0 / 3.0);
            next.push(&v[at] + (&v[at] - cubic - &w[at] + flow + &current) * 0.01);
        }
        for at in 0..n {
            next.push(&w[at] + &rate * (&v[at] + &offset - &w[at] * 0.8) * 0.01);
        }
        (next, ())
    };
    let (end, ()) = scan(step, start, 1000);
    end.iter().skip(1).fold(square(&end[0]), |sum, x| sum + square(x))
}

/// The negative log-likelihood of scalar observations of a state of four dimensions.
fn kalman(x: &Vec<Array>) -> Array {
    let (noise, h) = (&x[0], &x[1]);
    let transition = eye(4) * 0.95 + eye_with(4, EyeOptions { offset: 1 }) * 0.1;
    let noise = noise.matmul(&noise.t()) + eye(4) * 0.1;
    let step = |(mean, p): (Array, Array), y: Array| {
        let mean = transition.matmul(&mean);
        let p = transition.matmul(&p).matmul(&transition.t()) + &noise;
        let ph = p.matmul(h);
        let s = h.matmul(&ph) + 0.5;
        let error = y - h.matmul(&mean);
        let gain = &ph / &s;
        let mean = mean + &gain * &error;
        let p = p - outer(&gain, &ph);
        ((mean, p), log(&s) + square(&error) / &s)
    };
    scan(step, (zeros([4]), eye(4)), x[2].clone()).1.sum()
}

fn lstm(x: &Vec<Array>) -> Array {
    let step = |(c, h): (Array, Array), input: Array| {
        let gates = input.matmul(&x[0]) + h.matmul(&x[1]) + &x[2];
        let gate = |at: usize| gates.index(i![.., 32 * at..32 * (at + 1)]);
        let c = logistic(gate(0)) * c + logistic(gate(1)) * tanh(gate(2));
        let h = logistic(gate(3)) * tanh(&c);
        ((c, h.clone()), h)
    };
    square(&scan(step, (zeros([1, 32]), zeros([1, 32])), x[3].clone()).1).sum()
}

fn ode(x: &Vec<Array>) -> Array {
    let field = |y: &Array| tanh(tanh(y.matmul(&x[0])).matmul(&x[1])).matmul(&x[2]);
    let step = |y: &Array, ()| {
        let h = 0.05;
        let k1 = field(y);
        let k2 = field(&(y + &k1 * (h / 2.0)));
        let k3 = field(&(y + &k2 * (h / 2.0)));
        let k4 = field(&(y + &k3 * h));
        (y + (k1 + (k2 + k3) * 2.0 + k4) * (h / 6.0), ())
    };
    square(&scan(step, x[3].clone(), 200).0).sum()
}

fn hmc(x: &Vec<Array>) -> Vec<Array> {
    let precision = x[0].matmul(&x[0].t()) + eye(8);
    let energy = |q: &Array| (q.matmul(&precision) * q).sum_axes([1]) * 0.5;
    let kinetic = |p: &Array| square(p).sum_axes([1]) * 0.5;
    let sample = |q: Array, key: Key| {
        let [of_momentum, of_choice] = key.split();
        let p = random::normal(of_momentum, [64, 8]);
        let leapfrog = |_: Array, (q, p): (Array, Array)| {
            let p = p - q.matmul(&precision) * 0.05;
            let q = q + &p * 0.1;
            let p = p - q.matmul(&precision) * 0.05;
            (q, p)
        };
        let (new, momentum) = fori_loop(0, 8, leapfrog, (q.clone(), p.clone()));
        let change = energy(&q) + kinetic(&p) - energy(&new) - kinetic(&momentum);
        let uniform = random::uniform(of_choice, [64], 0.0..1.0);
        let accepted = lt(log(&uniform), &change);
        let next = where_(expand_dims(&accepted, &[1]), &new, &q);
        (next.clone(), next.mean())
    };
    let keys = random::split(random::key(0), 100);
    let (q, means) = scan(sample, x[1].clone(), keys);
    vec![q, means]
}
