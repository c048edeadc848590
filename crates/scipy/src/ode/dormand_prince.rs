//! Adaptive steps of Dormand and Prince.

use super::OdeOptions;
use oxidax::prelude::*;

/// The times of the stages, as parts of a step.
const TIMES: [f64; 6] = [1.0 / 5.0, 3.0 / 10.0, 4.0 / 5.0, 8.0 / 9.0, 1.0, 1.0];

/// The weights of the earlier slopes in each stage. The last row is that of the solution.
const WEIGHTS: [&[f64]; 6] = [
    &[1.0 / 5.0],
    &[3.0 / 40.0, 9.0 / 40.0],
    &[44.0 / 45.0, -56.0 / 15.0, 32.0 / 9.0],
    &[19372.0 / 6561.0, -25360.0 / 2187.0, 64448.0 / 6561.0, -212.0 / 729.0],
    &[9017.0 / 3168.0, -355.0 / 33.0, 46732.0 / 5247.0, 49.0 / 176.0, -5103.0 / 18656.0],
    &[35.0 / 384.0, 0.0, 500.0 / 1113.0, 125.0 / 192.0, -2187.0 / 6784.0, 11.0 / 84.0],
];

/// The weights of the solution without those of the embedded method of order 4.
const ERROR_WEIGHTS: [f64; 7] = [
    35.0 / 384.0 - 1951.0 / 21600.0,
    0.0,
    500.0 / 1113.0 - 22642.0 / 50085.0,
    125.0 / 192.0 - 451.0 / 720.0,
    -2187.0 / 6784.0 + 12231.0 / 42400.0,
    11.0 / 84.0 - 649.0 / 6300.0,
    -1.0 / 60.0,
];

/// The weights of the value in the middle of a step.
const MIDDLE_WEIGHTS: [f64; 7] = [
    6025192743.0 / 30085553152.0 / 2.0,
    0.0,
    51252292925.0 / 65400821598.0 / 2.0,
    -2691868925.0 / 45128329728.0 / 2.0,
    187940372067.0 / 1594534317056.0 / 2.0,
    -1776094331.0 / 19743644256.0 / 2.0,
    11237099.0 / 235043384.0 / 2.0,
];

type Slope<'a> = &'a dyn Fn(&Array, &Array) -> Array;

/// Returns the sum of arrays with weights.
fn weighted(weights: &[f64], slopes: &[Array]) -> Array {
    let terms = weights.iter().zip(slopes).filter(|(weight, _)| **weight != 0.0);
    let terms: Vec<Array> = terms.map(|(weight, slope)| slope * *weight).collect();
    terms.iter().skip(1).fold(terms[0].clone(), |sum, term| sum + term)
}

/// The end of a step, its error, and the slopes of its stages.
struct Step {
    y: Array,
    error: Array,
    slopes: Vec<Array>,
}

fn step(f: Slope<'_>, y: &Array, slope: &Array, t: &Array, dt: &Array) -> Step {
    let length = dt.astype(y.dtype());
    let mut slopes = vec![slope.clone()];
    let mut end = y.clone();
    for (time, weights) in TIMES.iter().zip(WEIGHTS) {
        end = y + weighted(weights, &slopes) * &length;
        slopes.push(f(&end, &(t + dt * *time)));
    }
    Step { y: end, error: weighted(&ERROR_WEIGHTS, &slopes) * &length, slopes }
}

/// Returns the coefficients, `[5, n]`, of the polynomial of order 4 through both ends and the
/// middle of a step, with the slopes at its ends. The highest power comes first.
fn interpolant(y: &Array, step: &Step, dt: &Array) -> Array {
    let dt = dt.astype(y.dtype());
    let middle = y + weighted(&MIDDLE_WEIGHTS, &step.slopes) * &dt;
    let (start_slope, end_slope) = (&step.slopes[0] * &dt, &step.slopes[6] * &dt);
    let end = &step.y;
    let fourth = (&end_slope - &start_slope) * 2.0 - (y + end) * 8.0 + &middle * 16.0;
    let third = &start_slope * 5.0 - &end_slope * 3.0 + y * 18.0 + end * 14.0 - &middle * 32.0;
    let second = &start_slope * -4.0 + &end_slope - y * 11.0 - end * 5.0 + middle * 16.0;
    stack([fourth, third, second, start_slope, y.clone()], 0)
}

fn norm(x: &Array) -> Array {
    sqrt((abs(x) * abs(x)).sum())
}

/// Returns the first step size.
///
/// Reference: Hairer, Nørsett and Wanner, "Solving ordinary differential equations I" (1993),
/// section II.4.
fn first_step(f: Slope<'_>, y: &Array, slope: &Array, t: &Array, options: OdeOptions) -> Array {
    let scale = (abs(y) * options.rtol + options.atol).astype(y.dtype());
    let (d0, d1) = (norm(&(y / &scale)), norm(&(slope / &scale)));
    let is_small = bitwise_or(lt(&d0, 1e-5), lt(&d1, 1e-5));
    let h0 = where_(&is_small, 1e-6, &d0 * 0.01 / where_(&is_small, 1.0, &d1));
    let moved = y + slope * h0.astype(y.dtype());
    let change = f(&moved, &(t + h0.astype(t.dtype()))) - slope;
    let d2 = norm(&(change / &scale)) / &h0;
    let is_flat = bitwise_and(le(&d1, 1e-15), le(&d2, 1e-15));
    let largest = maximum(&d1, &d2);
    let by_order = pow(0.01 / where_(&is_flat, 1.0, largest), 0.2);
    let h1 = where_(&is_flat, maximum(&h0 * 1e-3, 1e-6), by_order);
    minimum(h0 * 100.0, h1).astype(t.dtype())
}

/// The state of the integration.
#[derive(Tree)]
struct Progress {
    y: Array,
    slope: Array,
    t: Array,
    dt: Array,
    /// The start of the last step.
    last_t: Array,
    /// The polynomial of the last step.
    interpolant: Array,
}

/// Returns the values at all times: `[n]` and `[times]` to `[times, n]`.
pub(super) fn integrate(f: Slope<'_>, y0: &Array, ts: &Array, options: OdeOptions) -> Array {
    let bounded = |dt: Array| match options.hmax {
        Some(hmax) => clip(&dt, 0.0, hmax),
        None => maximum(dt, 0.0),
    };
    let t0 = ts.index(i![0]);
    let slope = f(y0, &t0);
    let dt = bounded(first_step(f, y0, &slope, &t0, options));
    let start = Progress {
        y: y0.clone(),
        slope,
        t: t0.clone(),
        dt,
        last_t: t0,
        interpolant: stack([y0; 5], 0),
    };
    let advance = |(progress, n): &(Progress, Array)| {
        let Progress { y, slope, t, dt, .. } = progress;
        let step = step(f, y, slope, t, dt);
        let tolerance = maximum(abs(y), abs(&step.y)) * options.rtol + options.atol;
        let ratio = abs(&step.error) / tolerance;
        let ratio = sqrt((&ratio * &ratio).mean()).astype(t.dtype());
        let next = Progress {
            interpolant: interpolant(y, &step, dt),
            slope: step.slopes[6].clone(),
            y: step.y,
            t: t + dt,
            dt: dt.clone(),
            last_t: t.clone(),
        };
        // A step that is too inaccurate is repeated, by at least a fifth.
        let least = where_(lt(&ratio, 1.0), 1.0, 0.2);
        let factor = minimum(maximum(pow(&ratio, -0.2) * 0.9, least), 10.0);
        let factor = where_(eq(&ratio, 0.0), 10.0, factor).astype(t.dtype());
        let is_accepted = le(&ratio, 1.0);
        let chosen = tree::zip_map(&next, progress, |x, y| where_(&is_accepted, x, y));
        (Progress { dt: bounded(dt * factor), ..chosen }, n + 1)
    };
    let to_time = |progress: Progress, target: Array| {
        let is_open = |(progress, n): &(Progress, Array)| {
            let is_before = bitwise_and(lt(&progress.t, &target), gt(&progress.dt, 0.0));
            match options.mxstep {
                Some(mxstep) => bitwise_and(is_before, lt(n, mxstep)),
                None => is_before,
            }
        };
        let start = (progress, scalar(0).astype(DType::I32));
        let (progress, _) = while_loop(is_open, advance, start);
        let width = &progress.t - &progress.last_t;
        let part = (&target - &progress.last_t) / width;
        let part = part.astype(progress.y.dtype());
        let power = |k: isize| progress.interpolant.index(i![k]);
        let value = (1..5).fold(power(0), |sum, k| sum * &part + power(k));
        (progress, value)
    };
    let rest = slice_in_dim(ts, 1, ts.size() as isize, 1, 0);
    let (_, ys) = scan(to_time, start, rest);
    concatenate([&y0.expand_dims(0), &ys], 0)
}
