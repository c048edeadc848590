//! Measures the cross entropy of GPT-2's head: time and memory, from logits, fused, and in JAX.
//!
//! ```text
//! OXIDAX_BENCH_PYTHON=python-compat/.venv/bin/python cargo bench --bench cross_entropy
//! cargo bench --bench cross_entropy -- --quick       fewer rounds
//! ```
//!
//! All sides run in turns. Times are lower quartiles over rounds, ratios medians over rounds.
//! Memory is that of intermediate values, as the compiler reports it.

#[path = "support/cross_entropy.rs"]
mod cross_entropy;
#[path = "support/figures.rs"]
mod figures;
#[path = "support/jax.rs"]
mod jax;

use anyhow::Result;
use jax::Jax;

fn main() -> Result<()> {
    let is_quick = std::env::args().any(|argument| argument == "--quick");
    let mut jax = Jax::start("cross_entropy_bench.py")?;
    figures::print_heading("Cross entropy of 50,257 classes");
    cross_entropy::print(if is_quick { 3 } else { 9 }, &mut jax)
}
