//! Small programs after public reports of slow JAX programs on CPUs.
//!
//! Each is rewritten after the description of the report. `python-compat/complaints_bench.py` has
//! the same programs in JAX, with the same numbers.

#![allow(clippy::ptr_arg, reason = "arguments of `value_and_grad` are trees, as vectors are")]

use oxidax::prelude::*;

/// A program of a list of arrays, with its arguments.
pub struct Program {
    /// The name, by which JAX's side knows it.
    pub name: &'static str,
    /// The description in the table.
    pub title: &'static str,
    /// The number of the issue in JAX's repository.
    pub issue: u32,
    pub function: fn(&Vec<Array>) -> Vec<Array>,
    pub arguments: Vec<Array>,
}

/// Returns the programs. A scale divides the numbers of steps.
pub fn programs(scale: usize) -> Result<[Program; 4], Error> {
    let (observations, rows) = (614 / scale, 2000 / scale);
    Ok([
        Program {
            name: "filters",
            title: "gradient of a scan over 60 scalars, 614 steps",
            issue: 40150,
            function: |x| gradients(filters, x),
            arguments: vec![wave32([30], 0.3)?, wave32([observations], 1.0)?],
        },
        Program {
            name: "factor",
            title: "scan over an f64 matrix of 3×3, 2,000 steps",
            issue: 36799,
            function: factor,
            arguments: vec![
                wave64([rows, 3], 0.3)?,
                wave64([rows, 3], 0.4)?,
                wave64([rows, 3, 3], 0.3)?,
            ],
        },
        Program {
            name: "history",
            title: "derivative of a scan that writes into its carry, 10,000 steps, batch 2",
            issue: 31282,
            function: history,
            arguments: vec![wave32([2, 10_000 / scale], 0.5)?],
        },
        Program {
            name: "neuron",
            title: "gradient of a neuron of 8 compartments in f64, 1,000 steps",
            issue: 26145,
            function: |x| gradients(neuron, x),
            arguments: vec![wave64([3], 0.1)?, wave64([1000 / scale], 1.0)?],
        },
    ])
}

fn wave32(shape: impl Into<Shape>, scale: f32) -> Result<Array, Error> {
    let shape = shape.into();
    let elements: Vec<f32> = (0..shape.size()).map(|at| scale * (at as f32 + 1.0).sin()).collect();
    Array::from_slice(&elements, shape)
}

/// Returns `scale * sin(1), scale * sin(2), …`.
fn wave64(shape: impl Into<Shape>, scale: f64) -> Result<Array, Error> {
    let shape = shape.into();
    let elements: Vec<f64> = (0..shape.size()).map(|at| scale * (at as f64 + 1.0).sin()).collect();
    Array::from_slice(&elements, shape)
}

fn gradients(loss: fn(&Vec<Array>) -> Array, x: &Vec<Array>) -> Vec<Array> {
    let (value, mut gradients) = value_and_grad(loss)(x);
    gradients.push(value);
    gradients
}

/// A chain of 30 Gaussian filters, each of which observes the mean of the one before. Every mean
/// and precision is a separate array.
fn filters(x: &Vec<Array>) -> Array {
    let n = 30;
    let start: Vec<Array> =
        (0..2 * n).map(|at| scalar(if at < n { 0.0f32 } else { 1.0 })).collect();
    let step = |state: &Vec<Array>, observed: Array| {
        let (means, precisions) = state.split_at(n);
        let (mut next, mut next_precisions) = (Vec::new(), Vec::new());
        let (mut input, mut surprise) = (observed, scalar(0.0f32));
        for at in 0..n {
            let expected = 1.0 / (1.0 / &precisions[at] + exp(x[0].index(i![at])));
            let error = &input - &means[at];
            surprise += (square(&error) * &expected - log(&expected)) * 0.5;
            let precision = expected + 1.0;
            input = &means[at] + error / &precision;
            next.push(input.clone());
            next_precisions.push(precision);
        }
        next.extend(next_precisions);
        (next, surprise)
    };
    scan(step, start, x[1].clone()).1.sum()
}

/// The Cholesky factor of a quasi-separable matrix. A matrix of 3×3 is carried from row to row.
fn factor(x: &Vec<Array>) -> Vec<Array> {
    let step = |carried: Array, (p, q, a): (Array, Array, Array)| {
        let carried = a.matmul(&carried).matmul(&a.t());
        let projected = carried.matmul(&p);
        let diagonal = sqrt(2.0 - p.matmul(&projected));
        let row = (q - projected) / &diagonal;
        (carried + outer(&row, &row), (diagonal, row))
    };
    let start = zeros(([3, 3], DType::F64));
    let (diagonal, rows) = scan(step, start, (x[0].clone(), x[1].clone(), x[2].clone())).1;
    vec![diagonal, rows]
}

/// Applies the derivative of a loop over `[n]` that reads an earlier element and writes the next.
/// The position is part of the carry, so under `vmap` each example has its own.
fn history(x: &Vec<Array>) -> Vec<Array> {
    let [batch, n] = x[0].dims();
    let derivative = move |position: Array, x: Array| {
        let run = move |x: &Array| {
            let step = |(position, x): (Array, Array), ()| {
                let earlier = floor_divide(&position * 7, 11);
                let new = tanh(x.index(i![&earlier]) * 0.9 + x.index(i![&position])) * 2.0;
                let x = x.at(i![&position]).set(new);
                ((position + 1, x), ())
            };
            scan(step, (position.clone(), x.clone()), n).0.1
        };
        let (_, derivative) = linearize(run, &x);
        derivative(&ones_like(&x))
    };
    let positions = zeros(([batch], DType::I32));
    vec![vmap(derivative).apply(&positions, &x[0])]
}

/// The mean square of the voltages of eight compartments with the channels of Hodgkin and Huxley
/// (1952), as a function of the logarithms of three conductances and of the injected current.
fn neuron(x: &Vec<Array>) -> Array {
    let n = 8;
    let step_size = 0.025;
    let conductance = |at: usize, most: f64| exp(x[0].index(i![at])) * most;
    let [sodium, potassium, leak] =
        [conductance(0, 120.0), conductance(1, 36.0), conductance(2, 0.3)];
    let start = |value: f64| full(([n], DType::F64), value);
    let step = |(v, m, h, k): (Array, Array, Array, Array), current: Array| {
        // One step of the exponential Euler method for a gate.
        let gate = |gate: Array, opens: Array, closes: Array| {
            let rate = &opens + closes;
            let end = opens / &rate;
            &end + (gate - &end) * exp(rate * -step_size)
        };
        // `u / (1 - exp(-u))`
        let ramp = |u: Array| &u / (1.0 - exp(-&u));
        let m = gate(m, ramp((&v + 40.0) / 10.0), exp((&v + 65.0) / -18.0) * 4.0);
        let h = gate(h, exp((&v + 65.0) / -20.0) * 0.07, 1.0 / (exp((&v + 35.0) / -10.0) + 1.0));
        let opens = ramp((&v + 55.0) / 10.0) * 0.1;
        let k = gate(k, opens, exp((&v + 65.0) / -80.0) * 0.125);
        let ions = &sodium * &m * &m * &m * &h * (&v - 50.0)
            + &potassium * square(square(&k)) * (&v + 77.0)
            + &leak * (&v + 54.4);
        // Neighbours exchange current. The first compartment gets the injected one.
        let left = concatenate([v.index(i![0..1]), v.index(i![0..n - 1])], 0);
        let right = concatenate([v.index(i![1..n]), v.index(i![n - 1..n])], 0);
        let injected = zeros(([n], DType::F64)).at(i![0]).set((current + 1.0) * 20.0);
        let v = &v + (injected + (left + right - &v * 2.0) * 2.0 - ions) * step_size;
        let mean = square(&v).mean();
        ((v, m, h, k), mean)
    };
    let start = (start(-65.0), start(0.05), start(0.6), start(0.32));
    scan(step, start, x[1].clone()).1.mean()
}
