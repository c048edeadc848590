//! Layers, models and training steps.

use crate::cases::{Cases, case};
use anyhow::Result;
use oxidax::prelude::*;
use oxidax::primitives::{ConvDimensionNumbers, ConvGeneralDilated};
use oxidax_models::gpt2::{Gpt2, Gpt2Config};

pub fn write(cases: &mut Cases) -> Result<()> {
    let keys = random::split(random::key(11), 8);
    let mut keys = keys.into_iter();
    let mut key = || keys.next().expect("there are eight keys");
    let x = random::normal(random::key(0), [4, 6]);
    let labels = Array::from_slice(&[0_i32, 2, 1, 2], [4])?;

    let mlp = nn::Mlp::new(key(), &[6, 16, 3]);
    case!(cases, vjp "mlp", |model: &nn::Mlp, x: &Array| model.forward(x), (mlp, x), 1e-5);
    let optimizer = optim::adamw(1e-2);
    let state = optimizer.init(&mlp);
    case!(
        cases,
        "optimizer_step",
        move |m: &nn::Mlp, s: &optim::State, x: &Array, y: &Array| {
            let loss = |m: &nn::Mlp| {
                nn::softmax_cross_entropy_with_integer_labels(&m.forward(x), y).mean()
            };
            let (loss, gradients) = value_and_grad(loss)(m);
            let (updates, state) = optim::adamw(1e-2).update(&gradients, s, m);
            (optim::apply_updates(m, &updates), state, loss)
        },
        (mlp, state, x, labels),
        1e-4
    );
    let norm = nn::LayerNorm::new(6);
    case!(cases, vjp "layer_norm", |norm: &nn::LayerNorm, x: &Array| norm.forward(x),
        (norm, x), 1e-5);

    let images = random::normal(random::key(1), [2, 3, 8, 8]);
    let kernel = random::normal(random::key(2), [4, 3, 3, 3]);
    case!(cases, vjp "convolution", |x: &Array, k: &Array| {
        conv(x, k, &[2, 2], Padding::Same)
    }, (images, kernel), 1e-5);
    case!(
        cases,
        "dilated_convolution",
        |x: &Array, k: &Array| {
            let how = ConvGeneralDilated {
                rhs_dilation: vec![2, 1],
                lhs_dilation: vec![1, 2],
                padding: Padding::Explicit(vec![(1, 2), (0, 1)]),
                ..Default::default()
            };
            conv_general_dilated(x, k, how)
        },
        (images, kernel),
        1e-5
    );
    let (rows, depthwise) = (transpose(&images, &[0, 2, 3, 1]), kernel.index(i![0..1, .., .., ..]));
    let depthwise = transpose(&depthwise, &[2, 3, 0, 1]);
    case!(
        cases,
        "depthwise_convolution",
        |x: &Array, k: &Array| {
            let how = ConvGeneralDilated {
                feature_group_count: 3,
                dimension_numbers: ConvDimensionNumbers::of("NHWC", "HWIO", "NHWC"),
                ..Default::default()
            };
            conv_general_dilated(x, k, how)
        },
        (rows, depthwise),
        1e-5
    );
    case!(cases, vjp "pooling", |x: &Array| {
        let largest = max_pool(x, &[2, 2], &[2, 2], Padding::Valid);
        largest + avg_pool(x, &[2, 2], &[2, 2], Padding::Valid)
    }, (rows), 1e-5);
    case!(
        cases,
        "conv_net",
        |conv1: &nn::Conv, head: &nn::Linear, x: &Array| {
            let h = relu(conv1.forward(x));
            softmax(head.forward(&h.mean_axes([1, 2])), -1)
        },
        (
            nn::Conv::new(random::key(21), &[3, 3], 3, 8),
            nn::Linear::new(random::key(22), 8, 5),
            rows
        ),
        1e-5
    );

    let sequence = random::normal(random::key(4), [2, 5, 8]);
    let attention = nn::MultiHeadAttention::new(key(), 8, 2).without_bias();
    case!(cases, vjp "attention", |layer: &nn::MultiHeadAttention, x: &Array| layer.forward(x),
        (attention, sequence), 1e-5);
    let cell = nn::LstmCell::new(key(), 8, 6);
    let steps = random::normal(random::key(5), [5, 2, 8]);
    case!(cases, vjp "lstm", |cell: &nn::LstmCell, xs: &Array| cell.scan(cell.start([5]), xs).1,
        (cell, steps), 1e-5);
    let config = Gpt2Config {
        vocabulary: 31,
        positions: 16,
        width: 16,
        heads: 2,
        layers: 2,
        epsilon: 1e-5,
        dropout: 0.0,
    };
    let gpt2 = Gpt2::new(key(), &config);
    let tokens = Array::from_slice(&[3_i32, 1, 4, 1, 5, 9, 2, 6], [1, 8])?;
    case!(cases, vjp "gpt2", |model: &Gpt2, tokens: &Array| model.forward(tokens, None),
        (gpt2, tokens), 1e-4);
    Ok(())
}
