//! Values that `transformers` computes with the weights in
//! `python-compat/fixtures/gpt2_transformers`.

use super::transformers::difference;
use crate::model::Gpt2;
use crate::sample::{Sampling, generate, generator};
use crate::tokenizer::Tokenizer;
use crate::train::{Recipe, loss};
use crate::weights;
use oxidax::prelude::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The recorded folder, in Hugging Face's layout.
pub fn folder() -> PathBuf {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../python-compat/fixtures/gpt2_transformers").into()
}

pub fn notes() -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder().join("recorded.json")).unwrap()).unwrap()
}

pub fn arrays() -> BTreeMap<String, Array> {
    checkpoint::arrays(folder().join("recorded.safetensors")).unwrap()
}

pub fn model() -> Gpt2 {
    weights::load(&folder(), 0.0).unwrap().0
}

/// Returns the model with stacked layers.
pub fn stacked(model: Gpt2) -> Gpt2 {
    Gpt2 { h: model.h.stacked(), ..model }
}

/// Returns the tokens and the next tokens of texts `[b, t]`.
pub fn shifted(texts: &Array) -> (Array, Array) {
    (texts.index(i![.., ..-1]), texts.index(i![.., 1..]))
}

/// The configuration of the recorded steps: a constant learning rate.
pub fn recipe() -> Recipe {
    let notes = notes();
    let number = |name: &str| notes["adamw"][name].as_f64().unwrap();
    Recipe {
        steps: u32::MAX,
        warmup: 0,
        learning_rate: number("learning_rate"),
        min_learning_rate: number("learning_rate"),
        weight_decay: number("weight_decay"),
        b1: number("b1"),
        b2: number("b2"),
        clip: number("max_norm"),
        accumulate: 1,
        bf16: false,
    }
}

mod on_cpu {
    use super::*;

    #[test]
    fn logits_loss_and_gradients_of_every_leaf_match_transformers() {
        let recorded = arrays();
        for model in [model(), stacked(model())] {
            let logits = jit(|model: Gpt2, tokens: Array| model.forward(&tokens, None));
            let logits = logits.call(&model, &recorded["tokens"]).unwrap();
            let apart = difference(&logits, &recorded["logits"]);
            assert!(apart < 1e-5, "logits: {apart:.1e}");

            let step = jit(|model: Gpt2, batch: (Array, Array)| {
                let policy = nn::DTypePolicy::full();
                value_and_grad(|model: &Gpt2| loss(model, &batch, None, policy))(&model)
            });
            let (value, gradients) = step.call(&model, shifted(&recorded["tokens"])).unwrap();
            let apart = difference(&value, &recorded["loss"]);
            assert!(apart < 2e-6, "loss: {apart:.1e}");

            let gradients = Gpt2 { h: gradients.h.unrolled(), ..gradients };
            let found = tree::paths(&gradients).into_iter().zip(tree::leaves(&gradients));
            let mut n = 0;
            for (path, found) in found {
                let name = format!("gradient.transformer.{}", weights::stored_name(&path));
                let apart = difference(&found, &recorded[&name]);
                assert!(apart < 5e-5, "{name}: {apart:.1e} of the largest element");
                n += 1;
            }
            let all = recorded.keys().filter(|name| name.starts_with("gradient.")).count();
            assert_eq!((n, all), (40, 40), "12 leaves in each of 3 layers, and 4");
        }
    }

    #[test]
    fn five_steps_of_adamw_match_transformers() {
        let recorded = arrays();
        let expected = recorded["losses"].to_vec::<f32>().unwrap();
        for mut model in [model(), stacked(model())] {
            let (step, mut state) = (recipe().step(), recipe().optimizer().init(&model));
            for (at, expected) in expected.iter().enumerate() {
                let batch = shifted(&recorded["batches"].index(i![at as isize]));
                let found;
                (model, state, found) = step.call(model, state, batch, None).unwrap();
                let found = found.item::<f32>().unwrap();
                let apart = (f64::from(found) / f64::from(*expected) - 1.0).abs();
                assert!(apart < 1e-5, "step {at}: {found}, transformers {expected}: {apart:.1e}");
            }
        }
    }

    #[test]
    fn two_hundred_greedy_tokens_match_transformers() {
        let (recorded, notes) = (arrays(), notes());
        let tokenizer = Tokenizer::open(&folder()).unwrap();
        let prompt = tokenizer.encode(notes["prompt"].as_str().unwrap()).unwrap();
        let ids = |name: &str| -> Vec<u32> {
            recorded[name].to_vec::<i32>().unwrap().into_iter().map(|id| id as u32).collect()
        };
        assert_eq!(prompt, ids("prompt"));
        for model in [model(), stacked(model())] {
            let generator = generator(Sampling::GREEDY, nn::DTypePolicy::full());
            let text = generate(&generator, &model, &prompt, 200, random::key(0)).unwrap();
            assert_eq!(text, ids("greedy"));
            assert_eq!(tokenizer.decode(&text).unwrap(), notes["text"].as_str().unwrap());
        }
    }
}
