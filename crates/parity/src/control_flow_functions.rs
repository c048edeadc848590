//! The functions of the suite `control_flow`.

use oxidax::prelude::*;

/// A function from operands to results.
pub(crate) type Function = fn(&[Array]) -> Vec<Array>;

pub(crate) fn function(name: &str) -> Function {
    match name {
        "running_sum" => running_sum,
        "running_product_back" => running_product_back,
        "rnn" => rnn,
        "lstm" => lstm,
        "nested" => nested,
        "powers" => powers,
        "unrolled" => unrolled,
        "counted" => counted,
        "carried_weights" => carried_weights,
        "no_steps" => no_steps,
        "weak_start" => weak_start,
        "van_der_pol" => van_der_pol,
        "streamed_logsumexp" => streamed_logsumexp,
        "choice" => choice,
        "choice_of_pairs" => choice_of_pairs,
        "switched" => switched,
        "choice_in_scan" => choice_in_scan,
        "scan_in_choice" => scan_in_choice,
        "halvings" => halvings,
        "newton_root" => newton_root,
        "shared_steps" => shared_steps,
        "equilibrium" => equilibrium,
        "fixed_power_iteration" => fixed_power_iteration,
        "indexed_loop" => indexed_loop,
        "open_bound" => open_bound,
        "mapped" => mapped,
        "mapped_batches" => mapped_batches,
        "partial_sums" => partial_sums,
        "partial_maxima" => partial_maxima,
        "partial_products_of_matrices" => partial_products_of_matrices,
        "linear_recurrence" => linear_recurrence,
        "learned_start" => learned_start,
        other => crate::implicit_functions::function(other)
            .unwrap_or_else(|| panic!("no function is called {other}")),
    }
}

/// Returns the element of `x` at index `at` along axis 0.
fn row(x: &Array, at: usize) -> Array {
    x.index(i![at as isize])
}

fn steps(length: usize) -> ScanOptions {
    ScanOptions { length: Some(length), ..ScanOptions::default() }
}

fn running_sum(operands: &[Array]) -> Vec<Array> {
    let xs = &operands[0];
    let (total, sums) = scan(|c: Array, x: Array| (&c + &x, &c + &x), zeros_like(&row(xs, 0)), xs);
    vec![total, sums]
}

fn running_product_back(operands: &[Array]) -> Vec<Array> {
    let xs = &operands[0];
    let options = ScanOptions { reverse: true, ..ScanOptions::default() };
    let step = |c: Array, x: Array| (&c * &x, c);
    let (last, all) = scan_with(step, ones_like(&row(xs, 0)), xs, options);
    vec![last, all]
}

fn rnn(operands: &[Array]) -> Vec<Array> {
    let [xs, w_h, w_x, b, h0] = operands else { panic!("five operands") };
    let step = |h: Array, x: Array| {
        let h = tanh(&(h.matmul(w_h) + x.matmul(w_x) + b));
        let y = &h * row(&x, 0);
        (h, y)
    };
    let (last, ys) = scan(step, h0, xs);
    vec![last, ys]
}

fn lstm(operands: &[Array]) -> Vec<Array> {
    let [xs, w, h0, c0] = operands else { panic!("four operands") };
    let step = |(h, c): (Array, Array), x: Array| {
        let gates = split(&concatenate([&x, &h], 0).matmul(w), 4, 0);
        let c = sigmoid(&gates[1]) * c + sigmoid(&gates[0]) * tanh(&gates[2]);
        let h = sigmoid(&gates[3]) * tanh(&c);
        ((h.clone(), c), h)
    };
    let ((h, c), hs) = scan(step, (h0.clone(), c0.clone()), xs);
    vec![h, c, hs]
}

fn nested(operands: &[Array]) -> Vec<Array> {
    let (rows, a) = (&operands[0], &operands[1]);
    let outer = |c: Array, xs: Array| {
        let step = |d: Array, x: Array| (sin(&(&d * a + &x)) + &c, d * x);
        let (inner, ys) = scan(step, &c, xs);
        (inner * 0.5, ys)
    };
    let (last, ys) = scan(outer, a, rows);
    vec![last, ys]
}

fn powers(operands: &[Array]) -> Vec<Array> {
    let x = &operands[0];
    let (last, all) = scan_with(|p: Array, ()| (&p * x, p), ones_like(x), (), steps(5));
    vec![last, all]
}

fn unrolled(operands: &[Array]) -> Vec<Array> {
    let (xs, a) = (&operands[0], &operands[1]);
    let step = |c: Array, x: Array| {
        let c = cos(&c) * a + &x;
        let y = &c * x;
        (c, y)
    };
    let by = |unroll, reverse| ScanOptions { unroll, reverse, length: None };
    let (last, ys) = scan_with(step, a, xs, by(Unroll::Steps(3), false));
    let (again, zs) = scan_with(step, a, xs, by(Unroll::All, true));
    vec![last, ys, again, zs]
}

fn counted(operands: &[Array]) -> Vec<Array> {
    let table = &operands[0];
    let step = |(i, total): (Array, Array), ()| {
        let x = squeeze(&dynamic_index_in_dim(table, &i, 0), &[0]);
        ((i + 1, &total + sin(&x) * x), total)
    };
    let init = (scalar(0), zeros_like(&row(table, 0)));
    let ((_, total), totals) = scan_with(step, init, (), steps(table.shape()[0]));
    vec![total, totals]
}

#[derive(Tree)]
struct Weights {
    w: Array,
    h: Array,
}

fn carried_weights(operands: &[Array]) -> Vec<Array> {
    let (xs, w) = (&operands[0], &operands[1]);
    let step = |Weights { w, h }: Weights, x: Array| {
        let h = tanh(&(w.matmul(&h) + x));
        (Weights { w, h }, ())
    };
    let (out, ()) = scan(step, Weights { w: w.clone(), h: zeros_like(&row(xs, 0)) }, xs);
    vec![out.w, out.h]
}

fn no_steps(operands: &[Array]) -> Vec<Array> {
    let none = operands[0].index(i![..0]);
    let (last, ys) = scan(|c: Array, x: Array| (&c * &x, c + x), &operands[1], none);
    vec![last, ys]
}

fn weak_start(operands: &[Array]) -> Vec<Array> {
    let (last, ys) = scan(|c: Array, x: Array| (&c + x, c * 2), scalar(0), &operands[0]);
    vec![last, ys]
}

fn van_der_pol(operands: &[Array]) -> Vec<Array> {
    let (y0, mu) = (&operands[0], &operands[1]);
    let field = |y: &Array| {
        let (a, b) = (row(y, 0), row(y, 1));
        stack([&b, &(mu * (1.0 - &a * &a) * &b - &a)], 0)
    };
    let rk4 = |y: Array, ()| {
        let h = 0.1;
        let k1 = field(&y);
        let k2 = field(&(&y + &k1 * (h / 2.0)));
        let k3 = field(&(&y + &k2 * (h / 2.0)));
        let k4 = field(&(&y + &k3 * h));
        let y = y + (k1 + k2 * 2.0 + k3 * 2.0 + k4) * (h / 6.0);
        let first = row(&y, 0);
        (y, first)
    };
    let (last, path) = scan_with(rk4, y0, (), steps(20));
    vec![last, path]
}

fn streamed_logsumexp(operands: &[Array]) -> Vec<Array> {
    let xs = &operands[0];
    let step = |(m, s): (Array, Array), x: Array| {
        let top = maximum(&m, &x);
        let s = s * exp(&(m - &top)) + exp(&(x - &top));
        ((top, s), ())
    };
    let first = row(xs, 0);
    let ((m, s), ()) = scan(step, (first.clone(), ones_like(&first)), xs.index(i![1..]));
    vec![m + log(&s)]
}

fn choice(operands: &[Array]) -> Vec<Array> {
    let (x, a) = (&operands[0], &operands[1]);
    vec![cond(gt(x.sum(), 0.0), |x: Array| sin(&x) * a, |x: Array| &x * &x, x)]
}

fn choice_of_pairs(operands: &[Array]) -> Vec<Array> {
    let (x, a) = (&operands[0], &operands[1]);
    let positive = |()| (x * a, exp(x));
    let (y, z) = cond(gt(a, 0.0), positive, |()| (zeros_like(x), x + a), ());
    vec![y, z]
}

fn switched(operands: &[Array]) -> Vec<Array> {
    let branches: [&dyn Fn(Array) -> Array; 4] = [
        &|x: Array| sin(&x),
        &|x: Array| &x * &x * &x,
        &|x: Array| zeros_like(&x) + 2.0,
        &|x: Array| exp(&x),
    ];
    vec![switch(&operands[1], branches, &operands[0])]
}

fn choice_in_scan(operands: &[Array]) -> Vec<Array> {
    let (xs, a) = (&operands[0], &operands[1]);
    let step = |c: Array, x: Array| {
        let c = cond(gt(&x, 0.0), |c: Array| sin(&(c * a)) + &x, |c: Array| c * &x * 0.5, c);
        (c.clone(), c)
    };
    let (last, ys) = scan(step, a, xs);
    vec![last, ys]
}

fn scan_in_choice(operands: &[Array]) -> Vec<Array> {
    let (xs, a) = (&operands[0], &operands[1]);
    let looped = |a: Array| scan(|c: Array, x: Array| (tanh(&(&c * &a + x)), c), &a, xs);
    let (last, ys) = cond(gt(a, 0.0), looped, |a: Array| (&a * 2.0, xs * &a), a);
    vec![last, ys]
}

fn halvings(operands: &[Array]) -> Vec<Array> {
    let far = |(_, y): (Array, Array)| gt(abs(&y), 0.1);
    let step = |(n, y): (Array, Array)| (n + 1, &y * 0.5 * cos(&y));
    let (n, y) = while_loop(far, step, (scalar(0), operands[0].clone()));
    vec![n, y]
}

fn newton_root(operands: &[Array]) -> Vec<Array> {
    let a = &operands[0];
    let cube = |x: &Array| x * x * x;
    let far = |(x, n): (Array, Array)| gt(abs(&(cube(&x) - a)), 1e-4) & lt(&n, 20);
    let step = |(x, n): (Array, Array)| (&x - (cube(&x) - a) / (&x * &x * 3.0), n + 1);
    let (x, n) = while_loop(far, step, (ones_like(a) * 2.0, scalar(0)));
    vec![x, n]
}

fn shared_steps(operands: &[Array]) -> Vec<Array> {
    let (x, n) = (&operands[0], &operands[1]);
    let below = |(i, _): (Array, Array)| lt(&i, n);
    let step = |(i, y): (Array, Array)| (i + 1, sin(&y) + x);
    vec![while_loop(below, step, (zeros_like(n), x.clone())).1]
}

fn equilibrium(operands: &[Array]) -> Vec<Array> {
    let (x, w) = (&operands[0], &operands[1]);
    let f = |z: &Array, x: &Array, w: &Array| tanh(&(w.matmul(z) + x));
    let unsettled =
        |(z, before, n): (Array, Array, Array)| gt(abs(&(z - before)).max(), 1e-6) & lt(&n, 100);
    let step = |(z, _, n): (Array, Array, Array)| (f(&z, x, w), z, n + 1);
    let start = zeros_like(x);
    let (z, _, _) = while_loop(unsettled, step, (f(&start, x, w), start, scalar(0)));
    let ct = &z * 2.0;
    let (_, pull_z) = vjp(|z: &Array| f(z, x, w), &z);
    let u = fori_loop(0, 40, |_: Array, u: Array| &ct + pull_z.apply(&u), &ct);
    let (_, pull) = vjp(|(x, w): &(Array, Array)| f(&z, x, w), &(x.clone(), w.clone()));
    let (dx, dw) = pull.apply(&u);
    vec![z, dx, dw]
}

fn fixed_power_iteration(operands: &[Array]) -> Vec<Array> {
    let m = &operands[0];
    let step = |_: Array, v: Array| {
        let w = m.matmul(&v);
        let norm = sqrt((&w * &w).sum());
        w / norm
    };
    let v = fori_loop(0, 6, step, ones(([m.shape()[0]], m.dtype())));
    let value = v.matmul(m).matmul(&v);
    vec![v, value]
}

fn indexed_loop(operands: &[Array]) -> Vec<Array> {
    let x = &operands[0];
    let step = |i: Array, y: Array| y * squeeze(&dynamic_index_in_dim(x, &i, 0), &[0]) + i;
    vec![fori_loop(1, 4, step, row(x, 0))]
}

fn open_bound(operands: &[Array]) -> Vec<Array> {
    let (x, n) = (&operands[0], &operands[1]);
    vec![fori_loop(0, n, |i: Array, y: Array| sin(&y) * x + i.astype(x.dtype()), x)]
}

fn mapped(operands: &[Array]) -> Vec<Array> {
    let (rows, a) = (&operands[0], &operands[1]);
    vec![map(|r: Array| (sin(&r) * a).sum(), rows)]
}

fn mapped_batches(operands: &[Array]) -> Vec<Array> {
    let (rows, a) = (&operands[0], &operands[1]);
    vec![map_with(|r: Array| (sin(&r) * a).sum(), rows, MapOptions { batch_size: Some(2) })]
}

fn partial_sums(operands: &[Array]) -> Vec<Array> {
    let x = &operands[0];
    let back = AssociativeScanOptions { reverse: true, axis: 0 };
    let sum = |a: Array, b: Array| a + b;
    vec![associative_scan(sum, x), associative_scan_with(sum, x, back)]
}

fn partial_maxima(operands: &[Array]) -> Vec<Array> {
    let along = AssociativeScanOptions { reverse: false, axis: -1 };
    vec![associative_scan_with(|a: Array, b: Array| maximum(&a, &b), &operands[0], along)]
}

fn partial_products_of_matrices(operands: &[Array]) -> Vec<Array> {
    vec![associative_scan(|a: Array, b: Array| a.matmul(&b), &operands[0])]
}

fn linear_recurrence(operands: &[Array]) -> Vec<Array> {
    type Pair = (Array, Array);
    let join = |l: Pair, r: Pair| (&r.0 * &l.0, &r.0 * &l.1 + &r.1);
    let (a, h) = associative_scan(join, (operands[0].clone(), operands[1].clone()));
    vec![a, h]
}

fn learned_start(operands: &[Array]) -> Vec<Array> {
    let (w, xs) = (&operands[0], &operands[1]);
    let inner = |w: &Array| integer_pow(&(tanh(xs.matmul(w)) - 0.5), 2).sum();
    let descend = |w: Array, ()| (&w - grad(inner)(&w) * 0.1, ());
    let (adapted, ()) = scan_with(descend, w, (), steps(3));
    vec![integer_pow(&(tanh(xs.matmul(&adapted)) + 0.1), 2).sum()]
}
