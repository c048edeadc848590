//! The reverse derivative of an integration, by the adjoint equation.

use super::OdeOptions;
use super::dormand_prince::integrate;
use oxidax::prelude::*;
use std::sync::Arc;

/// The right-hand side of an equation of vectors.
pub(super) type Dynamics = Arc<dyn Fn(&Array, &Array, &[Array]) -> Array + Send + Sync>;

/// The order of reverse derivatives: gradients of gradients. The rules of each order are traced
/// with those before it.
pub(super) const REVERSE_ORDER: usize = 2;

/// Integrates an equation, with reverse derivatives up to an order.
pub(super) fn solve(
    dynamics: Dynamics,
    options: OdeOptions,
    y0: &Array,
    ts: &Array,
    args: Vec<Array>,
    order: usize,
) -> Array {
    let (forward, backward) = (dynamics.clone(), dynamics.clone());
    let run = move |dynamics: &Dynamics, (y0, ts, args): &(Array, Array, Vec<Array>)| {
        integrate(&|y, t| dynamics(y, t, args), y0, ts, options)
    };
    let inputs = (y0.clone(), ts.clone(), args);
    if order == 0 {
        return run(&dynamics, &inputs);
    }
    let integrated = custom_vjp(
        move |inputs: &(Array, Array, Vec<Array>)| run(&dynamics, inputs),
        move |inputs: &(Array, Array, Vec<Array>)| {
            let (y0, ts, args) = inputs;
            // An outer derivative passes through these values, too.
            let ys = solve(forward.clone(), options, y0, ts, args.clone(), order - 1);
            (ys.clone(), (ys, ts.clone(), args.clone()))
        },
        move |residuals: &(Array, Array, Vec<Array>), cts: &Array| {
            pull_back(&backward, options, residuals, cts, order - 1)
        },
    );
    integrated(&inputs)
}

/// The state of the adjoint equation: the solution, the cotangents of the solution, of the first
/// time, and of the arguments that are floats.
type Augmented = (Array, Array, Array, Vec<Array>);

/// Returns the cotangents of the first value, of the times and of the arguments.
fn pull_back(
    dynamics: &Dynamics,
    options: OdeOptions,
    (ys, ts, args): &(Array, Array, Vec<Array>),
    cts: &Array,
    order: usize,
) -> (Array, Array, Vec<Array>) {
    let n = ts.size();
    let at = |x: &Array, i: &Array| {
        dynamic_index_in_dim_with(x, i, 0, DynamicIndexOptions { keepdims: false })
    };
    let floats: Vec<usize> = (0..args.len()).filter(|&i| args[i].dtype().is_inexact()).collect();
    let chosen: Vec<Array> = floats.iter().map(|&i| args[i].clone()).collect();
    let zero_bars: Vec<Array> = chosen.iter().map(zeros_like).collect();
    let last = n as isize - 1;
    let template: Augmented =
        (ys.index(i![last]), cts.index(i![last]), zeros_like(&ts.index(i![0])), zero_bars.clone());
    let augmented = augmented(dynamics.clone(), floats, &template);
    let back = |(y_bar, t0_bar, bars): (Array, Array, Vec<Array>), i: Array| {
        let (y, t, ct) = (at(ys, &i), at(ts, &i), at(cts, &i));
        // The effect of moving the time of this observation.
        let slope = dynamics(&y, &t, args);
        let t_bar = real((&slope * &ct).sum()).astype(ts.dtype());
        let t0_bar = t0_bar - &t_bar;
        let (flat, unravel) = tree::ravel(&(y, y_bar, t0_bar, bars));
        let times = -stack([t, at(ts, &(&i - 1))], 0);
        let states = solve(augmented.clone(), options, &flat, &times, args.clone(), order);
        let (_, y_bar, t0_bar, bars) = unravel(&states.index(i![1]));
        ((y_bar + at(cts, &(i - 1)), t0_bar, bars), t_bar)
    };
    let start = (template.1.clone(), template.2.clone(), zero_bars);
    let order_of_times = n as i32 - 1 - iota(DType::I32, n - 1);
    let ((y_bar, t0_bar, bars), t_bars) = scan(back, start, order_of_times);
    let ts_bar = concatenate([&t0_bar.expand_dims(0), &flip(&t_bars, 0)], 0);
    let mut bars = bars.into_iter();
    let args_bar = args.iter().map(|x| {
        if x.dtype().is_inexact() { bars.next().expect("one per float") } else { zeros_like(x) }
    });
    (y_bar, ts_bar, args_bar.collect())
}

/// Returns the adjoint equation in negative time, for vectors like the raveled `template`.
fn augmented(dynamics: Dynamics, floats: Vec<usize>, template: &Augmented) -> Dynamics {
    let (_, unravel) = tree::ravel(template);
    Arc::new(move |state: &Array, t: &Array, args: &[Array]| {
        let (y, y_bar, _, _) = unravel(state);
        let chosen: Vec<Array> = floats.iter().map(|&i| args[i].clone()).collect();
        let slope = |(y, t, chosen): &(Array, Array, Vec<Array>)| {
            let mut args = args.to_vec();
            for (&i, x) in floats.iter().zip(chosen) {
                args[i] = x.clone();
            }
            dynamics(y, t, &args)
        };
        let (value, pullback) = vjp(slope, &(y, -t, chosen));
        let (y_change, t_change, args_change) = pullback.apply(&y_bar);
        let changes: Augmented = (-value, y_change, t_change, args_change);
        tree::ravel(&changes).0.astype(state.dtype())
    })
}
