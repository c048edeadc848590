//! Values that `transformers` computes with the weights in
//! `python-compat/fixtures/gpt2_transformers`.

use super::transformers::{self, difference, fixture};
use oxidax::prelude::*;
use oxidax_models::gpt2::{Gpt2, Gpt2Tokenizer, Sampling, TextGenerator, hugging_face_name};
use serde_json::Value;
use std::path::PathBuf;

/// The recorded folder, in Hugging Face's layout.
pub fn folder() -> PathBuf {
    fixture("gpt2_transformers")
}

pub fn notes() -> Value {
    transformers::notes(&folder())
}

pub fn model() -> Gpt2 {
    Gpt2::load(folder()).unwrap()
}

/// Returns the model with stacked layers.
pub fn stacked(model: Gpt2) -> Gpt2 {
    Gpt2 { h: model.h.stacked(), ..model }
}

mod on_cpu {
    use super::*;

    #[test]
    fn logits_loss_and_gradients_of_every_leaf_match_transformers() {
        let recorded = transformers::arrays(&folder());
        for model in [model(), stacked(model())] {
            let logits = jit(|model: Gpt2, tokens: Array| model.forward(&tokens, None));
            let logits = logits.call(&model, &recorded["tokens"]).unwrap();
            let apart = difference(&logits, &recorded["logits"]);
            assert!(apart < 1e-5, "logits: {apart:.1e}");

            let step = jit(|model: Gpt2, texts: Array| {
                let (tokens, next) = (texts.index(i![.., ..-1]), texts.index(i![.., 1..]));
                let loss = |model: &Gpt2| {
                    let logits = model.forward(&tokens, None);
                    nn::softmax_cross_entropy_with_integer_labels(&logits, &next).mean()
                };
                value_and_grad(loss)(&model)
            });
            let (value, gradients) = step.call(&model, &recorded["tokens"]).unwrap();
            let apart = difference(&value, &recorded["loss"]);
            assert!(apart < 2e-6, "loss: {apart:.1e}");

            let gradients = Gpt2 { h: gradients.h.unrolled(), ..gradients };
            let found = tree::paths(&gradients).into_iter().zip(tree::leaves(&gradients));
            let mut n = 0;
            for (path, found) in found {
                let name = format!("gradient.transformer.{}", hugging_face_name(&path));
                let apart = difference(&found, &recorded[&name]);
                assert!(apart < 5e-5, "{name}: {apart:.1e} of the largest element");
                n += 1;
            }
            let all = recorded.keys().filter(|name| name.starts_with("gradient.")).count();
            assert_eq!((n, all), (40, 40), "12 leaves in each of 3 layers, and 4");
        }
    }

    #[test]
    fn two_hundred_greedy_tokens_match_transformers() {
        let (recorded, notes) = (transformers::arrays(&folder()), notes());
        let tokenizer = Gpt2Tokenizer::load(folder()).unwrap();
        let prompt = tokenizer.encode(notes["prompt"].as_str().unwrap()).unwrap();
        let ids = |name: &str| -> Vec<u32> {
            recorded[name].to_vec::<i32>().unwrap().into_iter().map(|id| id as u32).collect()
        };
        assert_eq!(prompt, ids("prompt"));
        for model in [model(), stacked(model())] {
            let generator = TextGenerator::new(Sampling::GREEDY);
            let text = generator.generate(&model, &prompt, 200, random::key(0)).unwrap();
            assert_eq!(text, ids("greedy"));
            assert_eq!(tokenizer.decode(&text).unwrap(), notes["text"].as_str().unwrap());
        }
    }
}
