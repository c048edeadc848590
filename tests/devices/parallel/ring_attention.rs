//! Ring attention on eight devices, and attention on one.

use super::{close, mesh};
use oxidax::kernels::{FlashAttentionOptions, flash_attention_with, ring_attention_with};
use oxidax::prelude::*;

const LENGTH: usize = 64;

/// Returns the result and the gradients by queries, keys and values of its product with weights.
fn derivatives(
    attend: impl Fn(&Array, &Array, &Array) -> Array + Send + Sync,
    operands: &[Array; 4],
) -> [Array; 4] {
    let step = jit(move |q: Array, k: Array, v: Array, weights: Array| {
        let loss = |x: &(Array, Array, Array)| {
            let y = attend(&x.0, &x.1, &x.2);
            ((&y * &weights).sum(), y)
        };
        value_and_grad_aux(loss)(&(q, k, v))
    });
    let [q, k, v, weights] = operands;
    let ((_, y), (q, k, v)) = step.call(q, k, v, weights).unwrap();
    [y, q, k, v]
}

/// Checks eight devices against one. `segments` are those of the whole sequence.
#[track_caller]
fn check(options: FlashAttentionOptions, segments: Option<Array>) {
    let mesh = mesh([("sequence", 8)]);
    let draw = |seed, heads| random::normal(random::key(seed), [2, LENGTH, heads, 16]);
    let operands = [draw(0, 4), draw(1, 2), draw(2, 2), draw(3, 4)];
    let on_one = FlashAttentionOptions {
        query_segments: segments.clone(),
        key_segments: segments.clone(),
        ..options.clone()
    };
    let expected = derivatives(move |q, k, v| flash_attention_with(q, k, v, &on_one), &operands);
    let found = derivatives(
        move |q, k, v| {
            let (options, has_segments) = (options.clone(), segments.is_some());
            let attend = move |q: Array, k: Array, v: Array, segments: Array| {
                let segments = has_segments.then_some(segments);
                let options = FlashAttentionOptions {
                    query_segments: segments.clone(),
                    key_segments: segments,
                    ..options.clone()
                };
                ring_attention_with(&q, &k, &v, "sequence", &options)
            };
            let attend = shard_map(attend, &mesh)
                .in_specs(p![None, "sequence"])
                .out_specs(p![None, "sequence"]);
            let none = || zeros(([2, LENGTH], DType::I32));
            attend.apply(q, k, v, segments.clone().unwrap_or_else(none))
        },
        &operands,
    );
    for (found, expected) in found.iter().zip(&expected) {
        close(found, expected, 1e-5);
    }
}

#[test]
fn results_and_gradients_are_those_of_one_device() {
    check(FlashAttentionOptions::default(), None);
}

#[test]
fn causal_masks_and_windows_apply_to_positions_in_the_whole_sequence() {
    let causal = FlashAttentionOptions { is_causal: true, ..FlashAttentionOptions::default() };
    check(causal.clone(), None);
    // Longer than a shard of 8 tokens on one side, shorter on the other.
    let window =
        FlashAttentionOptions { local_window: Some((13, 2)), ..FlashAttentionOptions::default() };
    check(window, None);
    check(FlashAttentionOptions { local_window: Some((9, 0)), ..causal }, None);
}

#[test]
fn segments_travel_with_their_keys() {
    let ids: Vec<i32> = (0..2 * LENGTH as i32).map(|i| i % LENGTH as i32 / 19).collect();
    let causal = FlashAttentionOptions { is_causal: true, ..FlashAttentionOptions::default() };
    check(causal, Some(Array::from_slice(&ids, [2, LENGTH]).unwrap()));
}

#[test]
fn dropout_draws_the_bits_of_one_device() {
    let dropout = FlashAttentionOptions {
        dropout_rate: 0.4,
        dropout_key: Some(random::key(7)),
        ..FlashAttentionOptions::default()
    };
    check(dropout, None);
}

#[test]
fn an_axis_that_is_not_in_scope_is_refused() {
    let attend =
        |x: Array| ring_attention_with(&x, &x, &x, "sequence", &FlashAttentionOptions::default());
    let error = eval_shape(attend, Aval::new(DType::F32, [1, 8, 1, 4])).unwrap_err().to_string();
    assert!(error.contains("no axis is named `sequence`"), "{error}");
}
