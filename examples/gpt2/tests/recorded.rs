//! Training steps that `transformers` takes from the weights in
//! `python-compat/fixtures/gpt2_transformers`.

use super::transformers::{arrays, fixture, notes};
use crate::train::Recipe;
use oxidax::prelude::*;
use oxidax_models::gpt2::Gpt2;
use std::path::PathBuf;

/// The recorded folder, in Hugging Face's layout.
fn folder() -> PathBuf {
    fixture("gpt2_transformers")
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
    let notes = notes(&folder());
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
        offload: false,
        fused_loss: false,
    }
}

mod on_cpu {
    use super::*;

    #[test]
    fn five_steps_of_adamw_match_transformers() {
        let recorded = arrays(&folder());
        let expected = recorded["losses"].to_vec::<f32>().unwrap();
        let model = Gpt2::load(folder()).unwrap();
        for mut model in [model.clone(), stacked(model)] {
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
}
