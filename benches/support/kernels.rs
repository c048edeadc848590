//! The functions of the benchmark `kernels`. `python-compat/kernels_bench.py` has them in JAX, with
//! the same names and arguments.

use anyhow::Result;
use oxidax::kernels::{FlashAttentionOptions, flash_attention_with};
use oxidax::prelude::*;

/// A function of a list of arrays.
pub type Function = fn(&[Array]) -> Vec<Array>;

/// A row of the table.
pub struct Case {
    pub name: &'static str,
    pub title: &'static str,
    pub arguments: Vec<Array>,
    pub kernel: Function,
    pub plain: Function,
}

/// Returns `scale * sin(step), scale * sin(2 * step), …`.
fn wave(shape: &[usize], scale: f32, step: f64) -> Result<Array> {
    let n: usize = shape.iter().product();
    let numbers: Vec<f32> = (1..=n).map(|i| scale * (i as f64 * step).sin() as f32).collect();
    Ok(Array::from_slice(&numbers, shape)?)
}

/// Returns all cases.
pub fn cases() -> Result<Vec<Case>> {
    let shape = [1, 2048, 12, 64];
    let attention = vec![wave(&shape, 1.0, 1.0)?, wave(&shape, 1.0, 0.7)?, wave(&shape, 1.0, 0.3)?];
    Ok(vec![
        Case {
            name: "attention",
            title: "causal attention, 2,048 tokens, 12 heads of 64",
            arguments: attention.clone(),
            kernel: |x| vec![flash(&x[0], &x[1], &x[2])],
            plain: |x| vec![plain(&x[0], &x[1], &x[2])],
        },
        Case {
            name: "attention_gradient",
            title: "with its gradients",
            arguments: attention,
            kernel: |x| gradients(flash, x),
            plain: |x| gradients(plain, x),
        },
    ])
}

fn flash(q: &Array, k: &Array, v: &Array) -> Array {
    let options = FlashAttentionOptions { is_causal: true, ..FlashAttentionOptions::default() };
    flash_attention_with(q, k, v, &options)
}

fn plain(q: &Array, k: &Array, v: &Array) -> Array {
    let options = AttentionOptions {
        is_causal: true,
        implementation: AttentionImplementation::Plain,
        ..AttentionOptions::default()
    };
    dot_product_attention_with(q, k, v, &options)
}

/// Returns the gradients of the mean square of an attention.
fn gradients(attend: fn(&Array, &Array, &Array) -> Array, x: &[Array]) -> Vec<Array> {
    let loss = |x: &Vec<Array>| square(attend(&x[0], &x[1], &x[2])).sum();
    grad(loss)(&x.to_vec())
}
