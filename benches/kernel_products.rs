//! Measures grouped products, quantized products and paged attention beside the plain functions.
//!
//! ```text
//! cargo bench --bench kernel_products
//! cargo bench --bench kernel_products -- --quick     fewer rounds
//! ```
//!
//! Both sides alternate in rounds; times are lower quartiles over rounds, ratios medians. The
//! results must be equal within rounding.

#[path = "support/figures.rs"]
mod figures;

use anyhow::{Result, ensure};
use figures::{lower_quartile, print_heading, print_table, ratio};
use oxidax::kernels::{
    Activations, Quantization, QuantizedMatmulOptions, QuantizedWeight, grouped_matmul,
    paged_attention, quantized_matmul_with,
};
use oxidax::prelude::*;
use std::time::Instant;

/// Runs one side on its operands, and waits for the result.
type Side = Box<dyn Fn() -> Result<Array>>;

/// A function beside its kernel.
struct Case {
    title: String,
    plain: Side,
    kernel: Side,
    /// The greatest difference of the results, relative to the largest element.
    tolerance: f32,
}

/// Compiles one side.
fn side<T: Tree>(operands: T, f: impl Fn(&T) -> Array + Send + Sync + 'static) -> Side {
    let compiled = jit(move |operands: &T| f(operands));
    Box::new(move || {
        let result = compiled.call(&operands).map_err(|failed| failed.error)?;
        result.block_until_ready()?;
        Ok(result)
    })
}

fn normal(key: i64, shape: &[usize], dtype: DType) -> Array {
    random::normal(random::key(key), shape).astype(dtype)
}

/// Returns products of rows and experts, and their gradients.
fn grouped([m, k, n, g]: [usize; 4], dtype: DType) -> Result<[Case; 2]> {
    let (lhs, rhs) = (normal(0, &[m, k], dtype), normal(1, &[g, k, n], dtype));
    let mut sizes = vec![(m / g) as i32; g];
    (sizes[0], sizes[1]) = (sizes[0] + 5, sizes[1] - 7);
    let sizes = Array::from_slice(&sizes, [g])?;
    type Product = fn(&Array, &Array, &Array) -> Array;
    let operands = vec![lhs, rhs, sizes];
    let forward = |f: Product| side(operands.clone(), move |x| f(&x[0], &x[1], &x[2]));
    let backward = |f: Product| {
        side(operands.clone(), move |x| {
            let sizes = x[2].clone();
            let loss = move |lhs: &Array, rhs: &Array| square(f(lhs, rhs, &sizes)).sum();
            let (_, pull) = vjp(loss, (&x[0], &x[1]));
            let (of_lhs, of_rhs) = pull(&ones([]).astype(x[0].dtype()));
            concatenate([&of_lhs.flatten(), &of_rhs.flatten()], 0)
        })
    };
    let tolerance = if dtype == DType::F32 { 1e-5 } else { 2e-2 };
    let title = format!("[{m},{k}] · [{g},{k},{n}], {dtype}");
    Ok([
        Case {
            title: title.clone(),
            plain: forward(ragged_dot),
            kernel: forward(grouped_matmul),
            tolerance,
        },
        Case {
            title: format!("{title}, gradient"),
            plain: backward(ragged_dot),
            kernel: backward(grouped_matmul),
            tolerance,
        },
    ])
}

/// Returns a product beside that with the dequantized weight.
fn quantized(
    [m, k, n]: [usize; 3],
    dtype: DType,
    quantization: Quantization,
    activations: Activations,
) -> Case {
    let x = normal(0, &[m, k], dtype);
    let weight = QuantizedWeight::quantize(&normal(1, &[k, n], DType::F32), quantization);
    let options = QuantizedMatmulOptions { activations, ..QuantizedMatmulOptions::default() };
    let integers = if activations == Activations::Int8 { ", integer activations" } else { "" };
    Case {
        title: format!("[{m},{k}] · [{k},{n}], {dtype}, {quantization:?}{integers}"),
        plain: side((x.clone(), weight.clone()), |(x, weight)| {
            x.matmul(&weight.dequantize().astype(x.dtype()))
        }),
        kernel: side((x, weight), move |(x, weight)| quantized_matmul_with(x, weight, &options)),
        tolerance: if activations == Activations::Int8 || dtype != DType::F32 {
            3e-2
        } else {
            1e-5
        },
    }
}

/// Returns attention to pages beside that to keys and values that are gathered first.
fn paged(
    [b, n, kh, h]: [usize; 4],
    [page, per_sequence]: [usize; 2],
    dtype: DType,
) -> Result<Case> {
    let n_pages = b * per_sequence;
    let table: Vec<i32> = (0..n_pages).map(|index| ((index * 7 + 2) % n_pages) as i32).collect();
    let most = per_sequence * page;
    let lengths: Vec<i32> = (1..=b).map(|sequence| (sequence * most / b) as i32).collect();
    let operands = vec![
        normal(0, &[b, n, h], dtype),
        normal(1, &[kh, n_pages, page, h], dtype),
        normal(2, &[kh, n_pages, page, h], dtype),
        Array::from_slice(&lengths, [b])?,
        Array::from_slice(&table, [b, per_sequence])?,
    ];
    let plain = move |x: &Vec<Array>| {
        let gathered = |pages: &Array| {
            let pages = transpose(&take(pages, &x[4], 1), &[1, 2, 3, 0, 4]);
            pages.reshape([b, most, kh, h])
        };
        let options =
            AttentionOptions { key_lengths: Some(x[3].clone()), ..AttentionOptions::default() };
        let query = x[0].reshape([b, 1, n, h]);
        let means =
            dot_product_attention_with(&query, &gathered(&x[1]), &gathered(&x[2]), &options);
        means.reshape([b, n, h])
    };
    Ok(Case {
        title: format!("{b} sequences up to {most}, {n} heads, {kh} key heads of {h}, {dtype}"),
        plain: side(operands.clone(), plain),
        kernel: side(operands, |x| paged_attention(&x[0], &x[1], &x[2], &x[3], &x[4])),
        tolerance: if dtype == DType::F32 { 1e-5 } else { 2e-2 },
    })
}

fn row(case: &Case, rounds: usize) -> Result<Vec<String>> {
    let [plain, kernel] = [(case.plain)()?, (case.kernel)()?].map(|x| x.astype(DType::F32));
    let apart = (&plain - &kernel).abs().max().item::<f32>()? / plain.abs().max().item::<f32>()?;
    ensure!(apart <= case.tolerance, "{}: {apart} apart", case.title);
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for (side, times) in [&case.plain, &case.kernel].into_iter().zip(&mut times) {
            let start = Instant::now();
            side()?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
    }
    Ok(vec![
        case.title.clone(),
        format!("{:.2}", lower_quartile(&times[0])),
        format!("{:.2}", lower_quartile(&times[1])),
        format!("{:.2}", ratio(&times[0], &times[1])),
        format!("{apart:.0e}"),
    ])
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // `cargo bench` passes this flag. `cargo test --all-targets` does not, and measures nothing.
    if !words.iter().any(|word| word == "--bench") {
        return Ok(());
    }
    let rounds = if words.iter().any(|word| word == "--quick") { 3 } else { 31 };
    let print = |heading: &str, cases: Vec<Case>| -> Result<()> {
        print_heading(heading);
        let rows = cases.iter().map(|case| row(case, rounds)).collect::<Result<Vec<_>>>()?;
        print_table(&["operands", "plain, ms", "kernel, ms", "ratio", "apart"], &rows);
        Ok(())
    };
    let mut cases = Vec::new();
    for (sizes, dtype) in [
        ([1024, 256, 512, 8], DType::F32),
        ([2048, 512, 512, 16], DType::F32),
        ([1024, 256, 512, 8], DType::BF16),
    ] {
        cases.extend(grouped(sizes, dtype)?);
    }
    print("Grouped products", cases)?;
    let mut cases = Vec::new();
    for sizes in [[1, 4096, 4096], [256, 1024, 1024]] {
        for quantization in [
            Quantization::Int8 { group_size: None },
            Quantization::Int8 { group_size: Some(32) },
            Quantization::Int4 { group_size: 32 },
            Quantization::Int4 { group_size: 128 },
        ] {
            for activations in [Activations::Float, Activations::Int8] {
                cases.push(quantized(sizes, DType::F32, quantization, activations));
            }
        }
    }
    print("Quantized products", cases)?;
    let cases = vec![
        paged([8, 32, 8, 128], [16, 128], DType::F32)?,
        paged([8, 16, 16, 64], [16, 64], DType::BF16)?,
    ];
    print("Paged attention", cases)
}
