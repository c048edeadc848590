//! Pooling, cells, attention, metrics and helpers of training loops, compared with Flax.
//! `python-compat/recorder/flax_functions_suite.py` records the fixture.

#![allow(clippy::unwrap_used, reason = "a case without its parameters fails")]

use oxidax::nn::LossScale;
use oxidax::optim;
use oxidax::prelude::*;
use oxidax::primitives::Window;
use oxidax_flax::training::{
    Accuracy, EarlyStopping, MultiMetric, RunningMetric, Welford, pad_shard_unpad,
};
use oxidax_parity::Suite;
use serde_json::Value;
use std::path::Path;

fn pools(op: &str, x: &Array) -> Option<Array> {
    Some(match op {
        "avg_pool" => avg_pool(x, &[2, 3], &[2, 1], Padding::Same),
        "avg_pool_inside" | "avg_pool_inside_narrow" => {
            let options = AvgPoolOptions { count_include_pad: false };
            avg_pool_with(x, &[2, 2], &[1, 2], Padding::Same, options)
        }
        "avg_pool_explicit" => {
            avg_pool(x, &[2, 2], &[1, 1], Padding::Explicit(vec![(1, 0), (0, 1)]))
        }
        "min_pool" => min_pool(x, &[2, 2], &[2, 2], Padding::Same),
        "max_pool" => max_pool(x, &[3, 2], &[1, 2], Padding::Valid),
        "pool" => {
            let window = Window {
                dimensions: vec![1, 2, 2, 1],
                strides: vec![1, 2, 2, 1],
                padding: Padding::Valid,
                ..Window::default()
            };
            reduce_window(x, 0.0, |a, b| a + b, &window)
        }
        _ => return None,
    })
}

fn attention(x: &[Array]) -> Array {
    let heads = |at: usize| {
        let [n_in, n, h] = x[at].dims();
        nn::Linear { weight: x[at].reshape([n_in, n * h]), bias: Some(x[at + 1].reshape([n * h])) }
    };
    let [n, h, n_out] = x[7].dims();
    let out = nn::Linear { weight: x[7].reshape([n * h, n_out]), bias: Some(x[8].clone()) };
    nn::MultiHeadAttention::with_projections(2, heads(1), heads(3), heads(5), out).forward(&x[0])
}

fn layers(op: &str, x: &[Array]) -> Vec<Array> {
    if op.contains("attention") {
        return vec![attention(x)];
    }
    let state = nn::LstmState { c: x[1].clone(), h: x[2].clone() };
    let [input, recurrent, bias] = [3, 4, 5].map(|at| x[at].clone());
    let next = nn::LstmCell { input, recurrent, bias }.forward(&state, &x[0]);
    vec![next.c, next.h]
}

fn row(x: &Array, at: usize) -> Array {
    x.index(i![at as isize])
}

fn metrics(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    let average = |values: &Array| {
        (0..values.shape()[0])
            .fold(nn::Average::new(), |metric, at| metric.update(&row(values, at)))
    };
    Some(match op {
        "accuracy" => {
            let mask = gt(row(&x[2], 0), 0);
            let first = Accuracy::new().update_masked(&row(&x[0], 0), &row(&x[1], 0), &mask);
            vec![first.update((&row(&x[0], 1), &row(&x[1], 1))).compute()]
        }
        "accuracy_threshold" => {
            let metric = (0..2).fold(Accuracy::with_threshold(0.3), |metric, at| {
                metric.update((&row(&x[0], at), &row(&x[1], at)))
            });
            vec![metric.compute()]
        }
        "average" => vec![average(&x[0]).compute()],
        "welford" => {
            let metric = (0..3).fold(Welford::new(), |metric, at| metric.update(&row(&x[0], at)));
            let found = metric.compute();
            vec![found.mean, found.standard_error_of_mean, found.standard_deviation]
        }
        "multi_metric" => {
            let metrics = MultiMetric::new(["loss", "norm"], nn::Average::new());
            let metrics = (0..2).fold(metrics, |metrics, at| {
                let (loss, norm) = (row(&x[0], at), row(&x[1], at));
                metrics.update(&[("loss", &loss), ("norm", &norm)])
            });
            let found = metrics.compute();
            vec![found["loss"].clone(), found["norm"].clone()]
        }
        _ => return None,
    })
}

fn early_stopping() -> Array {
    let mut state = EarlyStopping { min_delta: 0.1, patience: 1, ..EarlyStopping::default() };
    let mut history = Vec::new();
    for metric in [3.0, 2.5, 2.45, 2.6, 1.0, 0.95, 0.92, 0.1] {
        state = state.update(metric);
        let flags = [state.should_stop, state.has_improved].map(|flag| f32::from(u8::from(flag)));
        history.extend([state.best_metric as f32, state.patience_count as f32]);
        history.extend(flags);
    }
    Array::from_slice(&history, [8, 4]).unwrap()
}

fn scales(x: &Array) -> Vec<Array> {
    // Flax counts the finite steps before the one that doubles the factor.
    let mut scale = LossScale { period: 3, ..LossScale::dynamic(1024.0) };
    let mut found: [Vec<Array>; 3] = Default::default();
    for at in 0..x.shape()[0] {
        let of_loss = |x: &Array| scale.scale(&x.square().sum());
        let (value, gradient) = value_and_grad(of_loss)(&row(x, at));
        let (value, gradient) = (scale.unscale(&value), scale.unscale(&gradient));
        scale = scale.adjust(&isfinite(&gradient).all());
        for (list, x) in found.iter_mut().zip([value, gradient, scale.factor.clone()]) {
            list.push(x);
        }
    }
    found.map(|list| stack(&list, 0)).to_vec()
}

fn schedules() -> Vec<Array> {
    // A boundary of Flax is the last step before the new rate.
    let factors = [(10, 0.5), (20, 0.2), (30, 0.1)];
    let stepped = optim::piecewise_constant_schedule(0.4, factors);
    let cosine = optim::cosine_decay_schedule(0.4, 40, 0.0);
    [stepped, cosine]
        .map(|schedule| {
            let rates = [0, 9, 10, 11, 20, 21, 35].map(|step| schedule.value(&scalar(step)));
            stack(rates.to_vec(), 0)
        })
        .to_vec()
}

fn helpers(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    Some(match op {
        "early_stopping" => vec![early_stopping()],
        "dynamic_scale" => scales(&x[0]),
        "schedules" => schedules(),
        "pad_shard_unpad" => vec![pad_shard_unpad(&x[0], 1, 8, |x| x.cumsum_axis(1))],
        _ => return None,
    })
}

fn one_case(op: &str, params: &Value, x: &[Array]) -> Vec<Array> {
    let found = match params["family"].as_str().unwrap() {
        "pools" => pools(op, &x[0]).map(|y| vec![y]),
        "layers" => Some(layers(op, x)),
        "metrics" => metrics(op, x),
        _ => helpers(op, x),
    };
    found.unwrap_or_else(|| panic!("no function is called {op}"))
}

fn apply(op: &str, params: &Value, x: &[Array]) -> Vec<Array> {
    if params["vmap"] != true {
        return one_case(op, params, x);
    }
    vmap(|x: Vec<Array>| one_case(op, params, &x)).apply(x.to_vec())
}

mod on_cpu {
    use super::*;

    #[test]
    fn functions_match_flax() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python-compat/fixtures");
        let suite = Suite::open(folder, "flax_functions").unwrap_or_else(|e| panic!("{e}"));
        suite.expect_equal(apply);
    }
}
