//! Cross entropy of GPT-2's head, 50,257 classes of 768 features: from logits, fused, and in JAX
//! (`python-compat/cross_entropy_bench.py`).

use crate::figures::{lower_quartile, print_table, ratio};
use crate::jax::Jax;
use anyhow::{Context as _, Result};
use oxidax::kernels::linear_cross_entropy;
use oxidax::prelude::*;
use serde_json::json;
use std::time::Instant;

const FEATURES: usize = 768;
const VOCABULARY: usize = 50257;

/// A loss of each row from features, head and labels.
type Loss = fn(&Array, &Array, &Array) -> Array;
/// A loss, or a loss with the gradients of features and head.
type Step = Jit<'static, (Array, Array, Array), Vec<Array>>;

/// The loss from logits.
fn plain(x: &Array, w: &Array, labels: &Array) -> Array {
    nn::softmax_cross_entropy_with_integer_labels(&x.matmul(&w.t()), labels)
}

fn step(loss: Loss, with_gradients: bool) -> Step {
    jit(move |x: Array, w: Array, labels: Array| {
        if !with_gradients {
            return vec![loss(&x, &w, &labels).mean()];
        }
        let mean = |(x, w): &(Array, Array)| loss(x, w, &labels).mean();
        let (loss, (dx, dw)) = value_and_grad(mean)(&(x, w));
        // A result of the shape of an argument would share its memory, at the price of copies.
        vec![loss, dx.expand_dims(0), dw.expand_dims(0)]
    })
}

/// One side of the comparison.
struct Side {
    name: &'static str,
    /// Megabytes of intermediate values.
    memory: f64,
    /// Milliseconds of each round.
    times: Vec<f64>,
}

fn operands(rows: usize) -> [Array; 3] {
    let x = random::normal(random::key(0), [rows, FEATURES]);
    let w = random::normal(random::key(1), [VOCABULARY, FEATURES]) * 0.02;
    [x, w, random::randint(random::key(2), [rows], 0..VOCABULARY as i32)]
}

/// Measures one number of rows, alternating between the sides.
fn measure(
    rows: usize,
    with_gradients: bool,
    rounds: usize,
    jax: &mut Option<Jax>,
) -> Result<Vec<Side>> {
    let [x, w, labels] = operands(rows);
    let mut sides = Vec::new();
    let mut steps = Vec::new();
    for (name, loss) in [("from logits", plain as Loss), ("fused", linear_cross_entropy)] {
        let compiled = step(loss, with_gradients).lower(&x, &w, &labels)?.compile()?;
        let memory = compiled.report().memory_analysis()?.temporaries as f64 / 1e6;
        sides.push(Side { name, memory, times: Vec::new() });
        steps.push(compiled);
    }
    let request = |what: &str| json!({"what": what, "rows": rows, "gradients": with_gradients});
    if let Some(jax) = jax {
        let memory = *jax.numbers(&request("memory"))?.first().context("JAX's memory")?;
        sides.push(Side { name: "JAX", memory, times: Vec::new() });
    }
    for round in 0..=rounds {
        for (side, step) in sides.iter_mut().zip(&steps) {
            let start = Instant::now();
            for result in step.call(&x, &w, &labels)? {
                result.block_until_ready()?;
            }
            side.times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        if let Some(jax) = jax {
            sides[2].times.extend(jax.numbers(&request("time"))?);
        }
        if round == 0 {
            sides.iter_mut().for_each(|side| side.times.clear());
        }
    }
    Ok(sides)
}

/// Prints the table of all sizes.
pub fn print(rounds: usize, jax: &mut Option<Jax>) -> Result<()> {
    let mut table = Vec::new();
    for rows in [512, 2048] {
        for with_gradients in [false, true] {
            let sides = measure(rows, with_gradients, rounds, jax)?;
            for side in &sides {
                let pass = if with_gradients { "forward, backward" } else { "forward" };
                table.push(vec![
                    format!("{rows} rows, {pass}, {}", side.name),
                    format!("{:.0}", lower_quartile(&side.times)),
                    format!("{:.2}", ratio(&side.times, &sides[0].times)),
                    format!("{:.0}", side.memory),
                ]);
            }
        }
    }
    let headings = ["cross entropy of 50,257 classes", "ms", "to logits", "temporaries, MB"];
    print_table(&headings, &table);
    Ok(())
}
