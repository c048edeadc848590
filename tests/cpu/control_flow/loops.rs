//! Loops, compared with Rust loops.

use crate::arrays::scattered;
use crate::control_flow::support::{all_close, close, f64s, row, steps};
use oxidax::prelude::*;

type Pair = (Array, Array);

/// A step with a constant, a carry, an element and an output, all differentiable.
fn step(w: &Array, c: &Array, x: &Array) -> (Array, Array) {
    let next = sin(&(w * c + x));
    (next.clone(), &next * cos(x) + c)
}

fn looped(w: &Array, c: &Array, xs: &Array, options: ScanOptions) -> Pair {
    scan_with(|c: Array, x: Array| step(w, &c, &x), c, xs, options)
}

/// The loop in Rust.
fn rust_loop(w: &Array, c: &Array, xs: &Array, options: ScanOptions) -> Pair {
    let n = xs.shape()[0];
    let (mut c, mut ys) = (c.clone(), Vec::new());
    for at in 0..n {
        let at = if options.reverse { n - 1 - at } else { at };
        let (next, y) = step(w, &c, &row(xs, at));
        c = next;
        ys.push(y);
    }
    if options.reverse {
        ys.reverse();
    }
    (c, stack(ys.iter().collect::<Vec<_>>(), 0))
}

type Loop = fn(&Array, &Array, &Array, ScanOptions) -> Pair;

/// Returns the value, forward derivative, pullback and second derivative of a loop.
fn everything(f: Loop, n: usize, options: ScanOptions) -> Vec<Array> {
    type Operands = (Array, Array, Array);
    let at = |seed: u64| -> Operands {
        (scattered(&[2], seed), scattered(&[2], seed + 1), scattered(&[n, 2], seed + 2))
    };
    let of = |(w, c, xs): &Operands| f(w, c, xs, options);
    let total = |x: &Operands| {
        let (c, ys) = of(x);
        (&c * &c).sum() + sin(&ys).sum()
    };
    let (x, v) = (at(1), at(5));
    let (value, pullback) = vjp(of, &x);
    let ct = (scattered(&[2], 9), scattered(&[n, 2], 10));
    let mut leaves = tree::leaves(&value);
    leaves.extend(tree::leaves(&jvp(of, &x, &v)));
    leaves.extend(tree::leaves(&pullback.apply(&ct)));
    leaves.extend(tree::leaves(&jvp(grad(total), &x, &v)));
    leaves
}

mod on_cpu {
    use super::*;

    #[test]
    fn scan_equals_a_rust_loop() {
        let (one, two) = (Unroll::Steps(1), Unroll::Steps(2));
        let cases: [(usize, bool, &[Unroll]); 3] =
            [(1, false, &[one]), (3, false, &[one, two]), (5, true, &[one, two, Unroll::All])];
        for (n, reverse, unrolls) in cases {
            let options = ScanOptions { reverse, ..ScanOptions::default() };
            let expected = everything(rust_loop, n, options);
            for &unroll in unrolls {
                let actual = everything(looped, n, ScanOptions { unroll, ..options });
                all_close(&actual, &expected);
            }
        }
    }

    #[test]
    fn disable_jit_keeps_results() {
        for options in
            [ScanOptions::default(), ScanOptions { reverse: true, ..ScanOptions::default() }]
        {
            let compiled = everything(looped, 3, options);
            all_close(&disable_jit(|| everything(looped, 3, options)), &compiled);
        }
        let empty = || {
            looped(
                &f64s(&[1.0], &[1]),
                &f64s(&[2.0], &[1]),
                &f64s(&[], &[0, 1]),
                ScanOptions::default(),
            )
        };
        all_close(&disable_jit(empty), &empty());
        let root = |a: &Array| {
            let far = |x: Array| gt(abs(&(&x * &x - a)), 1e-12);
            while_loop(far, |x: Array| (&x + a / &x) * 0.5, ones_like(a))
        };
        let a = f64s(&[2.0], &[]);
        close(&disable_jit(|| root(&a)), &root(&a));
        let along = |x: &Array| jvp(root, x, ones_like(x));
        all_close(&disable_jit(|| along(&a)), &along(&a));
    }

    #[test]
    fn disable_jit_runs_bodies_on_concrete_arrays() {
        let seen = std::sync::Mutex::new(Vec::new());
        let look = |x: &Array| {
            if !x.is_traced() {
                seen.lock().unwrap().push(x.item::<f64>().unwrap());
            }
        };
        let xs = f64s(&[1.0, 2.0, 3.0], &[3]);
        let step = |c: Array, x: Array| {
            look(&x);
            (c + x, ())
        };
        let zero = || zeros(([], DType::F64));
        disable_jit(|| scan(step, zero(), &xs));
        disable_jit(|| {
            fori_loop(
                0,
                2,
                |_: Array, y: Array| {
                    look(&y);
                    y + 4.0
                },
                zero(),
            )
        });
        disable_jit(|| {
            let below = |y: Array| {
                look(&y);
                lt(&y, 1.0)
            };
            while_loop(below, |y: Array| y + 1.0, zero())
        });
        disable_jit(|| {
            cond(
                eq(zero(), 0.0),
                |x: Array| {
                    look(&x);
                    x
                },
                |x: Array| x,
                zero() + 7.0,
            )
        });
        assert_eq!(*seen.lock().unwrap(), [1.0, 2.0, 3.0, 0.0, 4.0, 0.0, 1.0, 7.0]);
    }

    #[test]
    fn loops_nest_under_transforms() {
        // A loop in a conditional in a loop, with captures from every level.
        let f = |x: &Array, xs: &Array| {
            let outer = |c: Array, x_i: Array| {
                let many = |c: Array| fori_loop(0, 3, |_: Array, y: Array| sin(&(y * x)) + &x_i, c);
                let c = cond(gt(&x_i, 0.0), many, |c: Array| c * &x_i * x, c);
                (c.clone(), c)
            };
            let (last, ys) = scan(outer, x, xs);
            last + (&ys * &ys).sum()
        };
        let (x, xs) = (f64s(&[0.7], &[]), scattered(&[5], 3));
        let signs = xs.to_vec::<f64>().unwrap();
        let plain = |x: &Array, xs: &Array| {
            let (mut c, mut total) = (x.clone(), zeros_like(x));
            for (at, &sign) in signs.iter().enumerate() {
                let x_i = row(xs, at);
                c = match sign > 0.0 {
                    true => (0..3).fold(c, |y, _| sin(&(y * x)) + &x_i),
                    false => c * &x_i * x,
                };
                total += &c * &c;
            }
            c + total
        };
        close(&f(&x, &xs), &plain(&x, &xs));
        close(&grad(|x: &Array| f(x, &xs))(&x), &grad(|x: &Array| plain(x, &xs))(&x));
        let twice = grad(grad(|x: &Array| f(x, &xs)))(&x);
        close(&twice, &grad(grad(|x: &Array| plain(x, &xs)))(&x));
        let captured = xs.clone();
        let compiled = jit(move |x: Array| grad(grad(|x: &Array| f(x, &captured)))(&x));
        close(&compiled.call(&x).unwrap(), &twice);
        let many = stack([&x, &(&x * 0.5)], 0);
        let rows = xs.clone();
        let gradients = vmap(move |x: Array| grad(|x: &Array| f(x, &rows))(&x)).apply(&many);
        close(&row(&gradients, 1), &grad(|x: &Array| plain(x, &xs))(&(&x * 0.5)));
    }

    #[test]
    fn loops_and_jit_nest() {
        let inner = jit(|c: Array, x: Array| sin(&c) * &x);
        let f = move |xs: &Array| {
            scan(|c: Array, x: Array| (inner.apply(&c, &x), c), ones(([], DType::F64)), xs).1.sum()
        };
        let xs = scattered(&[4], 2);
        let plain = |xs: &Array| {
            let (mut c, mut total) = (ones(([], DType::F64)), zeros(([], DType::F64)));
            for at in 0..4 {
                total += &c;
                c = sin(&c) * row(xs, at);
            }
            total
        };
        close(&f(&xs), &plain(&xs));
        let expected = grad(plain)(&xs);
        close(&grad(&f)(&xs), &expected);
        let compiled = jit(move |xs: Array| grad(&f)(&xs));
        close(&compiled.call(&xs).unwrap(), &expected);
        compiled.call(&xs).unwrap();
        assert_eq!(compiled.stats().traces, 1);
    }

    /// A loop of unknown length inside a scan does not prevent reverse mode, if no differentiated
    /// value passes through it.
    #[test]
    fn while_loop_over_a_counter_allows_reverse_mode() {
        let f = |x: &Array, xs: &Array| {
            let step = |c: Array, x_i: Array| {
                let n = while_loop(
                    |n: Array| lt(n.astype(DType::F64) * 0.25, abs(&x_i)),
                    |n: Array| n + 1,
                    zeros(([], DType::I32)),
                );
                (sin(&(c * x)) * n.astype(DType::F64), ())
            };
            scan(step, ones_like(x), xs).0
        };
        let xs = f64s(&[0.3, -0.9, 0.6], &[3]);
        let plain = |x: &Array, _: &Array| {
            [2.0, 4.0, 3.0].iter().fold(ones_like(x), |c, &n| sin(&(c * x)) * n)
        };
        let x = f64s(&[0.8], &[]);
        close(&f(&x, &xs), &plain(&x, &xs));
        close(&grad(|x: &Array| f(x, &xs))(&x), &grad(|x: &Array| plain(x, &xs))(&x));
    }

    /// XLA's CPU compiler performs such an update in place while it still reads other elements.
    #[test]
    fn in_place_update_reads_old_values() {
        let in_dim = |e: &Array, new: &Array| dynamic_update_slice_in_dim(e, new, 1, 0);
        let at = |e: &Array, new: &Array| e.at(i![1..3]).set(new);
        let updates: [fn(&Array, &Array) -> Array; 2] = [in_dim, at];
        for update in updates {
            let shifted = move |c: Array, x: Array| {
                let e = sin(&(x + &c));
                let y = update(&e, &sin(slice_in_dim(&e, 0, 2, 1, 0)));
                (sin(&c) + y.sum(), y)
            };
            let (c, xs) = (f64s(&[0.03], &[]), f64s(&[-0.1, 0.2, 0.7, -0.2, 0.6, 0.01], &[2, 3]));
            let compiled = jit(move |c: Array, xs: Array| scan(shifted, c, xs));
            let (last, ys) = compiled.call(&c, &xs).unwrap();
            let (expected_last, expected) = disable_jit(|| scan(shifted, &c, &xs));
            close(&last, &expected_last);
            close(&ys, &expected);
        }
    }

    #[test]
    fn while_loop_supports_forward_mode() {
        // y doubles until it exceeds 10, so dy/dx is a power of 2.
        let f = |x: &Array| while_loop(|y: Array| lt(&y, 10.0), |y: Array| &y * 2.0, x);
        let x = f64s(&[0.7], &[]);
        let (y, dy) = jvp(f, &x, ones_like(&x));
        close(&y, &f64s(&[11.2], &[]));
        close(&dy, &f64s(&[16.0], &[]));
        let (y, derivative) = linearize(f, &x);
        close(&y, &f64s(&[11.2], &[]));
        close(&derivative.apply(&f64s(&[0.5], &[])), &f64s(&[8.0], &[]));
        // A gradient that does not depend on the loop is allowed.
        let around = |x: &Array| stop_gradient(f(x)) * x;
        close(&grad(around)(&x), &f64s(&[11.2], &[]));
    }

    #[test]
    fn batched_examples_stop_at_different_steps() {
        let limits = Array::from_slice(&[3i32, 0, 10, 4], [4]).unwrap();
        let count = |limit: Array| {
            let below = |(i, _): Pair| lt(&i, &limit);
            while_loop(below, |(i, y): Pair| (&i + 1, y + i), (scalar(0), zeros(([], DType::I32))))
                .1
        };
        let counts = vmap(count).apply(&limits);
        assert_eq!(counts.to_vec::<i32>().unwrap(), [3, 0, 45, 6]);
        // With derivatives, and a batch axis in the last position.
        let xs = f64s(&[0.7, 3.0, 20.0], &[3]);
        let f = |x: &Array| while_loop(|y: Array| lt(&y, 10.0), |y: Array| &y * 2.0, x);
        let (_, dy) = jvp(|xs: &Array| vmap(move |x: Array| f(&x)).apply(xs), &xs, ones_like(&xs));
        close(&dy, &f64s(&[16.0, 4.0, 1.0], &[3]));
    }

    #[test]
    fn fori_loop_accepts_numbers_and_arrays_as_bounds() {
        let sum = |i: Array, y: Array| y + i.astype(DType::F64);
        let zero = || zeros(([], DType::F64));
        let total = f64s(&[9.0], &[]);
        close(&fori_loop(2, 5, sum, zero()), &total);
        close(&fori_loop(5, 2, sum, zero()), &zero());
        for bound in [
            Array::from_slice(&[5u8], []).unwrap(),
            Array::from_slice(&[5i64], []).unwrap(),
            Array::from_slice(&[5i32], []).unwrap(),
        ] {
            close(&fori_loop(2, &bound, sum, zero()), &total);
            // A concrete bound is known, so reverse mode is supported.
            let f = |x: &Array| fori_loop(2, &bound, |_: Array, y: Array| y * x, x);
            close(&grad(f)(&f64s(&[2.0], &[])), &f64s(&[32.0], &[]));
            let traced = jit(move |n: Array| fori_loop(2, &n, sum, zeros(([], DType::F64))));
            close(&traced.call(bound).unwrap(), &total);
        }
        let negative = Array::from_slice(&[-3i8], []).unwrap();
        close(&fori_loop(&negative, -1, sum, zero()), &f64s(&[-5.0], &[]));
    }

    #[test]
    fn linear_scan_with_counter_transposes() {
        // y = sum over i of i x_i, with the counter in the carry.
        let f = |xs: &Array| {
            let step = |(i, y): Pair, x: Array| ((&i + 1, y + x * i.astype(DType::F64)), ());
            scan(step, (scalar(0), zeros(([], DType::F64))), xs).0.1
        };
        let ct = linear_transpose(f, zeros(([4], DType::F64)))(&f64s(&[2.0], &[]));
        close(&ct, &f64s(&[0.0, 2.0, 4.0, 6.0], &[4]));
    }

    #[test]
    fn maps_and_associative_scans_of_several_lengths() {
        let f = |(x, y): Pair| (sin(&x) + &y, x.sum());
        for n in [1, 2, 3, 4, 5, 8] {
            let xs = (scattered(&[n, 2], 1), scattered(&[n, 2], 2));
            let expected = map(f, &xs);
            close(&row(&expected.0, n - 1), &f((row(&xs.0, n - 1), row(&xs.1, n - 1))).0);
            for batch_size in [1, 2, 3, 100] {
                all_close(
                    &map_with(f, &xs, MapOptions { batch_size: Some(batch_size) }),
                    &expected,
                );
            }
        }
        for n in [0, 1, 2, 3, 6, 7] {
            let xs = scattered(&[n, 2], 3);
            let join = |a: Array, b: Array| &a * &b + &a + &b;
            let step = |c: Array, x: Array| {
                let c = join(c, x);
                (c.clone(), c)
            };
            for reverse in [false, true] {
                let options = ScanOptions { reverse, ..ScanOptions::default() };
                let (_, expected) = scan_with(step, zeros(([2], DType::F64)), &xs, options);
                let along = AssociativeScanOptions { reverse, axis: 0 };
                close(&associative_scan_with(join, &xs, along), &expected);
                let columns = AssociativeScanOptions { reverse, axis: -1 };
                let by_columns = associative_scan_with(join, transpose(&xs, &[1, 0]), columns);
                close(&by_columns, &transpose(&expected, &[1, 0]));
            }
        }
    }

    /// A random walk. The key is part of the carry and is split in every step.
    #[test]
    fn random_keys_can_be_carried() {
        let step = |(key, x): (random::Key, Array), ()| {
            let [key, now] = key.split();
            let x = x + random::normal(now, ([2], DType::F64));
            ((key, x.clone()), x)
        };
        let walk =
            |key: random::Key| scan_with(step, (key, zeros(([2], DType::F64))), (), steps(4)).1;
        let (mut carry, mut path) = ((random::key(7), zeros(([2], DType::F64))), Vec::new());
        for _ in 0..4 {
            let (next, x) = step(carry, ());
            carry = next;
            path.push(x);
        }
        close(&walk(random::key(7)), &stack(path.iter().collect::<Vec<_>>(), 0));
        let keys = random::split(random::key(3), [2]);
        let walks = vmap(walk).apply(&keys);
        assert_eq!(walks.shape().dims(), [2, 4, 2]);
    }

    #[test]
    fn values_passed_through_are_returned() {
        let xs = scattered(&[3, 2], 1);
        let (w, n) = (scattered(&[2], 2), scalar(3));
        let step = |(w, n, c): (Array, Array, Array), x: Array| {
            let next = &c * &w;
            ((w, n, next), (x, c))
        };
        let ((w_out, n_out, _), (xs_out, _)) = scan(step, (w.clone(), n, ones_like(&w)), &xs);
        close(&w_out, &w);
        close(&xs_out, &xs);
        assert_eq!(n_out.item::<i32>().unwrap(), 3);
        let (nothing, all) = scan(|(), x: Array| ((), x), (), &xs);
        let () = nothing;
        close(&all, &xs);
        let untouched =
            grad(|w: &Array| scan(step, (w.clone(), scalar(3), ones_like(w)), &xs).0.0.sum())(&w);
        close(&untouched, &ones_like(&w));
    }
}
