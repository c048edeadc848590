#![allow(clippy::print_stdout, missing_docs)]
#[path = "support/figures.rs"]
mod figures;
use figures::{lower_quartile, micros_per_call, ratio};
use oxidax::jit::without_loop_kernels;
use oxidax::prelude::*;
use std::time::Instant;

fn measure(name: &str, f: impl Fn(Array) -> Array + Send + Sync + 'static, x: Array) {
    let f = jit(f);
    let lowered = f.lower(&x).unwrap();
    let form = lowered.loops().unwrap()[0].to_string();
    let form = form.split(": ").skip(2).collect::<Vec<_>>().join(": ");
    let start = Instant::now();
    lowered.compile().unwrap();
    let a = start.elapsed().as_secs_f64() * 1e3;
    let start = Instant::now();
    without_loop_kernels(|| lowered.compile()).unwrap();
    let b = start.elapsed().as_secs_f64() * 1e3;
    let run = || {
        block_until_ready(&f.call(&x)?)?;
        Ok(())
    };
    let start = Instant::now();
    without_loop_kernels(run).unwrap();
    without_loop_kernels(run).unwrap();
    let calls = (0.01 / start.elapsed().as_secs_f64()).ceil() as usize;
    let (mut k, mut p) = (vec![], vec![]);
    for _ in 0..11 {
        k.push(micros_per_call(calls, run).unwrap());
        p.push(without_loop_kernels(|| micros_per_call(calls, run)).unwrap());
    }
    println!(
        "{name:32} kernel {:9.1} plain {:9.1} us  plain/kernel {:6.2}  compile {a:7.1}/{b:7.1} ms  {}",
        lower_quartile(&k),
        lower_quartile(&p),
        ratio(&p, &k),
        &form[..form.len().min(60)]
    );
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let said = |word: &str| words.iter().any(|other| other == word);
    if said("elementwise") {
        for n in [16, 256, 1024, 4096, 8192, 16384, 65536] {
            measure(
                &format!("add mul {n}"),
                |x: Array| fori_loop(0, 200, |_, x: Array| &x * 0.99 + (1.0 - &x) * &x * 0.01, x),
                full([n], 0.5),
            );
            measure(
                &format!("sin {n}"),
                |x: Array| fori_loop(0, 200, |_, x: Array| sin(&x) + 0.1, x),
                full([n], 0.5),
            );
            measure(
                &format!("sum {n}"),
                |x: Array| fori_loop(0, 200, |_, x: Array| &x * 0.5 + x.sum() * 1e-5, x),
                full([n], 0.5),
            );
        }
        for n in [8, 16, 32, 64] {
            measure(
                &format!("softmax rows {n}x{n}"),
                |x: Array| fori_loop(0, 200, |_, x: Array| nn::softmax(&x), x),
                full([n, n], 0.5),
            );
            measure(
                &format!("transpose {n}x{n}"),
                |x: Array| fori_loop(0, 200, |_, x: Array| x.t() * 0.5 + &x, x),
                full([n, n], 0.5),
            );
        }
    }
    if said("products") {
        for (m, n) in [(1, 32), (1, 128), (1, 256), (2, 8), (4, 4), (8, 8), (16, 16), (4, 32), (4, 64), (32, 32), (64, 8), (64, 64)] {
            measure(
                &format!("[{m},{n}]@[{n},{n}]"),
                move |x: Array| {
                    let w = full([n, n], 0.01);
                    fori_loop(0, 200, |_, x: Array| tanh(&x.matmul(&w)), x)
                },
                full([m, n], 0.5),
            );
        }
        for n in [8, 32, 128, 256] {
            measure(
                &format!("[{n}]@[{n},{n}]"),
                move |x: Array| {
                    let w = full([n, n], 0.01);
                    fori_loop(0, 200, |_, x: Array| tanh(&x.matmul(&w)), x)
                },
                full([n], 0.5),
            );
            measure(
                &format!("[{n},{n}]@[{n}]"),
                move |x: Array| {
                    let w = full([n, n], 0.01);
                    fori_loop(0, 200, |_, x: Array| tanh(&w.matmul(&x)), x)
                },
                full([n], 0.5),
            );
        }
    }
    if said("steps") {
        for n in [2, 3, 5, 10, 30] {
            measure(
                &format!("steps {n} of 8"),
                move |x: Array| fori_loop(0, n, |_, x: Array| sin(&x) + x.sum() * 0.1, x),
                full([8], 0.5),
            );
        }
    }
    if said("compile") {
        for n in [50, 200, 500, 1000, 2000, 4000] {
            measure(
                &format!("body of {n}"),
                move |x: Array| {
                    let step = move |x: &Array| {
                        let mut y = x.clone();
                        for i in 0..n / 2 {
                            y = if i % 7 == 0 { &y - y.sum() * 0.01 } else { &y * &y + 0.1 };
                        }
                        y
                    };
                    fori_loop(0, 10, |_, x: Array| step(&x), x)
                },
                full([8], 0.05),
            );
        }
    }
}
