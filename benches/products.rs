//! Measures products of transposed operands beside the same products with contraction numbers.
//!
//! ```text
//! cargo bench --bench products
//! cargo bench --bench products -- --quick     fewer rounds
//! ```
//!
//! *Transposed* writes `x.t().matmul(&y)` or its like, *numbers* one `dot_general` that names the
//! axes to sum over. Both sides alternate in rounds; times are lower quartiles over rounds, ratios
//! medians. The results must be equal within rounding.

#[path = "support/figures.rs"]
mod figures;

use anyhow::{Result, ensure};
use figures::{lower_quartile, print_heading, print_table, ratio};
use oxidax::prelude::*;
use oxidax::primitives::DotGeneral;
use std::time::Instant;

/// Contracts one axis of each side, after these batch axes.
fn contract(x: &Array, y: &Array, axes: [usize; 2], batch: &[usize]) -> Array {
    let how = DotGeneral {
        lhs_contracting: vec![axes[0]],
        rhs_contracting: vec![axes[1]],
        lhs_batch: batch.to_vec(),
        rhs_batch: batch.to_vec(),
        ..Default::default()
    };
    dot_general(x, y, how)
}

type Product = fn(&Array, &Array) -> Array;

/// A product on both sides.
struct Case {
    title: &'static str,
    shapes: [&'static [usize]; 2],
    transposed: Product,
    numbers: Product,
    /// The number of iterations in which the result is the next right operand; 0 for one product
    /// outside of a loop.
    iterations: usize,
}

fn cases() -> Vec<Case> {
    let loops = |title, columns: &'static [usize], iterations| Case {
        title,
        shapes: [&[256, 256], columns],
        transposed: |x, y| x.t().matmul(y),
        numbers: |x, y| contract(x, y, [0, 0], &[]),
        iterations,
    };
    vec![
        loops("loop, [256,256]ᵀ @ [256]", &[256], 200),
        loops("loop, [256,256]ᵀ @ [256,8]", &[256, 8], 200),
        loops("loop, [256,256]ᵀ @ [256,256]", &[256, 256], 50),
        Case {
            title: "loop, [256] @ [256,256]ᵀ",
            shapes: [&[256, 256], &[256]],
            transposed: |x, y| y.matmul(&x.t()),
            numbers: |x, y| contract(y, x, [0, 1], &[]),
            iterations: 200,
        },
        Case {
            title: "[512,768]ᵀ @ [512,3072]",
            shapes: [&[512, 768], &[512, 3072]],
            transposed: |x, y| x.t().matmul(y),
            numbers: |x, y| contract(x, y, [0, 0], &[]),
            iterations: 0,
        },
        Case {
            title: "[512,768] @ [8192,768]ᵀ",
            shapes: [&[512, 768], &[8192, 768]],
            transposed: |x, y| x.matmul(&y.t()),
            numbers: |x, y| contract(x, y, [1, 1], &[]),
            iterations: 0,
        },
        Case {
            title: "48 × ([128,64] @ [128,64]ᵀ)",
            shapes: [&[48, 128, 64], &[48, 128, 64]],
            transposed: |x, y| x.matmul(&transpose(y, &[0, 2, 1])),
            numbers: |x, y| contract(x, y, [2, 2], &[0]),
            iterations: 0,
        },
        Case {
            title: "heads: [4,128,12,64] with [4,128,12,64]",
            shapes: [&[4, 128, 12, 64], &[4, 128, 12, 64]],
            transposed: |x, y| transpose(x, &[0, 2, 1, 3]).matmul(&transpose(y, &[0, 2, 3, 1])),
            numbers: |x, y| contract(x, y, [3, 3], &[0, 2]),
            iterations: 0,
        },
    ]
}

/// Compiles one side.
fn side(product: Product, iterations: usize) -> impl Fn(&Array, &Array) -> Result<Array> {
    let compiled = jit(move |x: &Array, y: &Array| {
        if iterations == 0 {
            return product(x, y);
        }
        let x = x.clone();
        fori_loop(0, iterations, move |_, y: Array| product(&x, &y) * 0.0625, y.clone())
    });
    move |x, y| {
        let result = compiled.call(x, y).map_err(|failed| failed.error)?;
        result.block_until_ready()?;
        Ok(result)
    }
}

fn row(case: &Case, rounds: usize) -> Result<Vec<String>> {
    let [x, y] = [0, 1].map(|at| random::normal(random::key(at as i64), case.shapes[at]));
    let sides = [side(case.transposed, case.iterations), side(case.numbers, case.iterations)];
    let [transposed, numbers] = [sides[0](&x, &y)?, sides[1](&x, &y)?];
    let apart = (&transposed - &numbers).abs().max().item::<f32>()?;
    let largest = numbers.abs().max().item::<f32>()?;
    ensure!(apart <= 1e-5 * largest, "{}: {apart} apart of {largest}", case.title);
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for (side, times) in sides.iter().zip(&mut times) {
            let start = Instant::now();
            side(&x, &y)?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
    }
    Ok(vec![
        case.title.to_owned(),
        format!("{:.2}", lower_quartile(&times[0])),
        format!("{:.2}", lower_quartile(&times[1])),
        format!("{:.2}", ratio(&times[0], &times[1])),
        if apart == 0.0 { "equal".to_owned() } else { format!("{:.0e}", apart / largest) },
    ])
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // `cargo bench` passes this flag. `cargo test --all-targets` does not, and measures nothing.
    if !words.iter().any(|word| word == "--bench") {
        return Ok(());
    }
    let rounds = if words.iter().any(|word| word == "--quick") { 8 } else { 40 };
    print_heading("Products of transposed operands, milliseconds");
    let rows = cases().iter().map(|case| row(case, rounds)).collect::<Result<Vec<_>>>()?;
    print_table(&["product", "transposed", "numbers", "ratio", "results"], &rows);
    Ok(())
}
