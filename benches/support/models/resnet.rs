//! A training step of ResNet-50, with momentum.

use super::{Model, drawn, numbers, trained};
use anyhow::{Context as _, Result};
use oxidax::prelude::*;
use oxidax_models::resnet::{NormStatistics, ResNet, ResNetConfig, ResNetStats};

const CLASSES: usize = 1000;

/// Number, height and width of images.
#[derive(Clone, Copy, serde::Serialize)]
pub struct Sizes {
    pub batch: usize,
    pub side: usize,
}

/// Returns a model that trains on the same batch in every call.
pub fn training(Sizes { batch, side }: Sizes) -> Result<Model> {
    let config = ResNetConfig::resnet50(CLASSES);
    let model = drawn::tree(move |key| ResNet::new(key, &config))?;
    let optimizer = optim::momentum(0.1, 0.9);
    let (parameters, stats, state) =
        (nn::summary(&model).parameters(), model.stats(), optimizer.init(&model));
    let shape = [batch, side, side, 3];
    let images = Array::from_slice(&numbers::numbers(shape.iter().product()), shape)?;
    let labels = Array::from_slice(&numbers::integers(batch, CLASSES), [batch])?;
    let step =
        move |model: ResNet, stats: ResNetStats, state: optim::State, batch: (Array, Array)| {
            let loss = |model: &ResNet| {
                let (logits, stats) = model.forward(&batch.0, &stats, NormStatistics::Batch);
                (nn::softmax_cross_entropy_with_integer_labels(&logits, &batch.1).mean(), stats)
            };
            let ((loss, stats), gradients) = value_and_grad_aux(loss)(&model);
            let (updates, state) = optimizer.update(&gradients, &state, &model);
            (optim::apply_updates(&model, &updates), stats, state, loss)
        };
    let (step, batch) = (jit(step).name("train_step"), (images, labels));
    let call = trained((model, stats, state), move |(model, stats, state)| {
        let result = step.call(model, stats, state, &batch).context("a step of ResNet-50")?;
        Ok(((result.0, result.1, result.2), result.3))
    });
    Ok(Model { parameters, call })
}
