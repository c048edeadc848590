//! Functions of arrays: shapes, indexing, reductions and control flow.

use crate::cases::{Cases, case};
use anyhow::Result;
use oxidax::prelude::*;

pub fn write(cases: &mut Cases) -> Result<()> {
    let x = random::normal(random::key(0), [4, 6]);
    let y = random::normal(random::key(1), [4, 6]);
    let n = Array::from_slice(&[3_i32, 0, 5, 2], [4])?;
    let wide = random::normal(random::key(2), [3, 64]);

    case!(cases, vjp "elementwise", |x: &Array, y: &Array| {
        let z = sin(x) * y + exp(&(x * 0.5)) - tanh(y) / (square(x) + 1.0);
        where_(gt(x, y), &z, x) + log1p(&abs(y)) + maximum(x, y)
    }, (x, y));
    case!(cases, vjp "special_functions", |x: &Array| {
        erf(x) + asinh(x) + logistic(x) + lgamma(&(abs(x) + 1.5))
    }, (x), 1e-5);
    case!(
        cases,
        "inverse_functions",
        |x: &Array| {
            let inside = tanh(x);
            let circle = (asin(&inside), acos(&inside), atanh(&inside), erf_inv(&inside));
            let outside = abs(x) * 4.0 + 1.0;
            (circle, acosh(&outside), asinh(&(x * 4.0)), erfc(&(x * 2.0)), sinh(x), cosh(x))
        },
        (x),
        1e-5
    );
    case!(
        cases,
        "gamma_functions",
        |x: &Array| {
            let fraction = x + 0.25;
            (lgamma(&(x * 3.0)), lgamma(&(abs(x) * 40.0)), digamma(&(abs(&fraction) + 0.1)))
        },
        (x),
        1e-5
    );
    case!(
        cases,
        "integers",
        |n: &Array| {
            let shifted = bitwise_xor(&(n * 3 + 1), &shift_left(n, &full_like(n, 2)));
            (rem(&shifted, &full_like(n, 7)), population_count(n), n.astype(DType::I8), eq(n, 2))
        },
        (n)
    );
    case!(cases, "no_arguments", || (iota(DType::I32, 5), ones([2, 2])), ());
    case!(cases, "no_results", |_: &Array| (), (x));
    case!(cases, "scalar", |x: &Array| x.sum(), (x));
    case!(
        cases,
        "several_results",
        |x: &Array| { (x.sum_axes(0), vec![x.max(), x.min()], (), x.argmax_axis(1)) },
        (x)
    );
    case!(cases, vjp "reductions", |x: &Array| {
        (x.mean_axes(1), reduce_prod(&(x * 0.5), &[0]), logsumexp(x, 1), x.std())
    }, (x), 1e-5);
    case!(cases, vjp "softmax", |x: &Array| softmax(x, -1), (x));
    case!(cases, "sorting", |x: &Array| (sort(x, 1), argsort(x, 0), top_k(x, 3, 1)), (x));
    case!(
        cases,
        "cumulative",
        |x: &Array| { (cumsum(x, 1), cumprod(x, 0), cummax(x, 1), cumlogsumexp(x, 1)) },
        (x),
        1e-5
    );
    case!(cases, vjp "cumulative_sum", |x: &Array| cumsum(x, 1) * x, (x), 1e-5);
    case!(cases, vjp "shapes", |x: &Array| {
        let rows = concatenate([x.t(), x.t() * 2.0], 1);
        let padded = pad(&rows, [(1, 0), (0, 2)]);
        slice_in_dim(&rev(&padded, &[0]).reshape([70]), 7, 63, 2, 0)
    }, (x));
    case!(cases, vjp "taken_rows", |x: &Array, n: &Array| {
        take(x, &rem(n, &full_like(n, 4)), 0) * 3.0
    }, (x, n));
    case!(
        cases,
        "dynamic_slices",
        |x: &Array, n: &Array| {
            let start = n.index(i![0]);
            let part = dynamic_slice_in_dim(x, &start, 2, 0);
            dynamic_update_slice_in_dim(x, &(part * 10.0), &zeros_like(&start), 0)
        },
        (x, n)
    );
    case!(cases, vjp "scatter", |x: &Array, n: &Array| {
        x.at(i![rem(n, &full_like(n, 4))]).add(ones([4, 6])) * x
    }, (x, n));
    case!(
        cases,
        "while_loop",
        |x: &Array| {
            let body = |(x, n): (Array, Array)| (abs(&x) * 1.5 + 0.1, n + 1);
            let goes_on = |(x, _): (Array, Array)| lt(x.sum(), 100.0);
            while_loop(goes_on, body, (x.clone(), scalar(0_i32)))
        },
        (x)
    );
    case!(
        cases,
        "fori_loop",
        |x: &Array| { fori_loop(0, 5, |i, x: Array| sin(&x) + i.astype(DType::F32), x.clone()) },
        (x),
        1e-5
    );
    case!(cases, vjp "scan", |h: &Array, xs: &Array| {
        scan(|h: Array, x: Array| { let h = tanh(&(h * 0.5 + x)); (h.clone(), h) }, h.clone(), xs)
    }, (wide.index(i![0, ..6]), x), 1e-5);
    case!(cases, vjp "cond", |x: &Array| {
        cond(&gt(&x.sum(), 0.0), |x: &Array| sin(x), |x: &Array| cos(x), x)
    }, (x));
    case!(
        cases,
        "switch",
        |x: &Array, n: &Array| {
            let index = n.index(i![3]);
            switch(&index, (|x: Array| sin(&x), |x: Array| cos(&x), |x: Array| tanh(&x)), x)
        },
        (x, n)
    );
    case!(cases, vjp "einsum", |x: &Array, y: &Array| einsum("ij,kj->ik", [x, y]), (x, y));
    case!(
        cases,
        "vmapped",
        |x: &Array, y: &Array| { vmap(|a: Array, b: Array| (&a * &b).sum()).apply(x, y) },
        (x, y)
    );
    let kept = wide.t().index(i![..6]);
    case!(cases, "captured", |x: &Array| x.matmul(&kept), (x));
    Ok(())
}
