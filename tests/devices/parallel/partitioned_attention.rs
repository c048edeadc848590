//! Flash attention in programs that the compiler partitions.

use super::{close, mesh};
use oxidax::kernels::{FlashAttentionOptions, flash_attention_with};
use oxidax::prelude::*;

fn draw(seed: i64, length: usize, heads: usize) -> Array {
    random::normal(random::key(seed), [8, length, heads, 16])
}

/// Checks results and gradients of examples on eight devices against those on one.
#[track_caller]
fn check(options: FlashAttentionOptions) {
    let mesh = mesh([("data", 8)]);
    let operands = [draw(0, 24, 4), draw(1, 40, 2), draw(2, 40, 2), draw(3, 24, 4)];
    let step = jit(move |q: Array, k: Array, v: Array, weights: Array| {
        let loss = |x: &(Array, Array, Array)| {
            let y = flash_attention_with(&x.0, &x.1, &x.2, &options);
            ((&y * &weights).sum(), y)
        };
        value_and_grad_aux(loss)(&(q, k, v))
    });
    let run = |[q, k, v, weights]: &[Array; 4]| {
        let ((_, y), (q, k, v)) = step.call(q, k, v, weights).unwrap();
        [y, q, k, v]
    };
    let split =
        operands.each_ref().map(|x| device_put(x, mesh.sharding(p!["data"]).unwrap()).unwrap());
    let (found, expected) = (run(&split), run(&operands));
    for (found, expected) in found.iter().zip(&expected) {
        close(found, expected, 1e-5);
    }
    // Nothing is gathered: results and gradients are split as the operands are.
    let [q, k, v, weights] = &split;
    let text = step.lower(q, k, v, weights).unwrap().compile().unwrap().as_text().unwrap();
    assert!(!text.contains("all-gather") && !text.contains("while("), "{text}");
}

#[test]
fn examples_on_several_devices_give_the_results_of_one() {
    check(FlashAttentionOptions { is_causal: true, ..FlashAttentionOptions::default() });
}

#[test]
fn all_masks_and_dropout_are_those_of_the_kernels() {
    let ids = |length: i32| {
        let ids: Vec<i32> = (0..8 * length).map(|i| i % length / (11 + i / length)).collect();
        Array::from_slice(&ids, [8, length as usize]).unwrap()
    };
    mesh([("data", 8)]);
    check(FlashAttentionOptions {
        local_window: Some((9, 12)),
        query_segments: Some(ids(24)),
        key_segments: Some(ids(40)),
        dropout_rate: 0.25,
        dropout_key: Some(random::key(3)),
        ..FlashAttentionOptions::default()
    });
}
