//! Values that `transformers` computes with the weights in
//! `python-compat/fixtures/bert_transformers` and with the published weights.

use super::transformers::{arrays, difference, fixture, notes};
use oxidax::prelude::*;
use oxidax_models::bert::{Bert, Pooling, SentenceEncoder, TextBatch};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The recorded folder, in Hugging Face's layout.
pub fn folder() -> PathBuf {
    fixture("bert_transformers")
}

/// Returns the name in a file of the leaf at `path`: `encoder.layer.0.output.LayerNorm.weight` for
/// `layers[0].norm.scale`.
pub fn name_of(path: &str) -> String {
    let mut name = path.replace("layers[", "encoder.layer.").replace(']', "");
    for (ours, theirs) in [
        (".attention.norm.", ".attention.output.norm."),
        (".attention.output.weight", ".attention.output.dense.weight"),
        (".attention.output.bias", ".attention.output.dense.bias"),
        (".attention.query.", ".attention.self.query."),
        (".attention.key.", ".attention.self.key."),
        (".attention.value.", ".attention.self.value."),
        (".up.", ".intermediate.dense."),
        (".down.", ".output.dense."),
        ("embeddings.word.", "embeddings.word_embeddings."),
        ("embeddings.position.", "embeddings.position_embeddings."),
        ("embeddings.token_type.", "embeddings.token_type_embeddings."),
        ("pooler.", "pooler.dense."),
    ] {
        name = name.replace(ours, theirs);
    }
    if name.starts_with("encoder.") && !name.contains(".attention.") {
        name = name.replace(".norm.", ".output.norm.");
    }
    name.replace("norm.scale", "LayerNorm.weight").replace("norm.bias", "LayerNorm.bias")
}

fn texts(recorded: &BTreeMap<String, Array>) -> TextBatch {
    let named = |name: &str| recorded[name].clone();
    TextBatch { tokens: named("tokens"), segments: named("kinds"), lengths: named("lengths") }
}

/// Computes the second result of `BertModel`, `[b, width]`, from its first.
fn pooled(model: &Bert, hidden: &Array) -> Array {
    tanh(model.pooler.as_ref().unwrap().forward(&hidden.index(i![.., 0])))
}

/// A contrastive loss: each even text must identify the odd text after it (van den Oord et al.,
/// 2018). A second term makes the loss depend on the leaves of the pooler.
fn contrastive(model: &Bert, texts: &TextBatch, probe: &Array, scale: f64) -> Array {
    let vectors = model.embed(texts);
    let (anchors, others) = (vectors.index(i![strided(.., 2)]), vectors.index(i![strided(1.., 2)]));
    let scores = anchors.matmul(&others.swapaxes(0, 1)) * scale;
    let right = iota(DType::I32, scores.shape()[0]);
    let pooled = pooled(model, &model.forward(texts));
    nn::softmax_cross_entropy_with_integer_labels(&scores, &right).mean() + (pooled * probe).mean()
}

mod on_cpu {
    use super::*;

    #[test]
    fn values_match_transformers() {
        let (recorded, model) = (arrays(&folder()), Bert::load(folder()).unwrap());
        assert_eq!(model.pooling, Pooling::Mean);
        let all = jit(|model: Bert, texts: TextBatch| {
            let hidden = model.forward(&texts);
            (pooled(&model, &hidden), model.embed(&texts), hidden)
        });
        let (pooled, embedded, hidden) = all.call(&model, texts(&recorded)).unwrap();
        for (name, found) in [("hidden", hidden), ("pooled", pooled), ("embedded", embedded)] {
            let apart = difference(&found, &recorded[name]);
            assert!(apart < 1e-5, "{name}: {apart:.1e}");
        }
    }

    #[test]
    fn the_first_token_alone_can_stand_for_a_text() {
        let (recorded, model) = (arrays(&folder()), Bert::load(folder()).unwrap());
        let model = Bert { pooling: Pooling::First, ..model };
        let first = recorded["hidden"].index(i![.., 0]);
        let length = sqrt((&first * &first).sum_axes(axes(-1).keepdims()));
        let found = jit(|model: Bert, texts: TextBatch| model.embed(&texts));
        let found = found.call(&model, texts(&recorded)).unwrap();
        let apart = difference(&found, &(first / length));
        assert!(apart < 1e-5, "{apart:.1e}");
    }

    #[test]
    fn gradients_of_every_leaf_and_five_steps_of_adamw_match_transformers() {
        let (recorded, notes) = (arrays(&folder()), notes(&folder()));
        let number = |name: &str| notes["adamw"][name].as_f64().unwrap();
        let scale = notes["scale"].as_f64().unwrap();
        let options = optim::AdamWOptions {
            b1: number("b1"),
            b2: number("b2"),
            weight_decay: number("weight_decay"),
            ..optim::AdamWOptions::default()
        };
        let optimizer = optim::adamw_with(number("learning_rate"), options);
        let mut model = Bert::load(folder()).unwrap();
        let mut state = optimizer.init(&model);
        let step = jit(move |model: Bert, state: optim::State, texts: TextBatch, probe: Array| {
            let loss = |model: &Bert| contrastive(model, &texts, &probe, scale);
            let (loss, gradients) = value_and_grad(loss)(&model);
            let (updates, state) = optimizer.update(&gradients, &state, &model);
            (optim::apply_updates(&model, &updates), state, gradients, loss)
        });
        for (at, expected) in recorded["losses"].to_vec::<f32>().unwrap().into_iter().enumerate() {
            let (gradients, loss);
            (model, state, gradients, loss) =
                step.call(model, state, texts(&recorded), &recorded["probe"]).unwrap();
            let loss = loss.item::<f32>().unwrap();
            let apart = (f64::from(loss) / f64::from(expected) - 1.0).abs();
            assert!(apart < 2e-5, "step {at}: {loss}, transformers {expected}: {apart:.1e}");
            if at > 0 {
                continue;
            }
            let mut n = 0;
            for (path, mut found) in tree::paths(&gradients).iter().zip(tree::leaves(&gradients)) {
                let name = name_of(path);
                // Linear layers are stored `[out, in]`.
                if path.ends_with(".weight") && !path.starts_with("embeddings.") {
                    found = found.swapaxes(0, 1);
                }
                let expected = &recorded[&format!("gradient.{name}")];
                // Softmax is invariant to the bias of the keys, so its gradient consists of
                // rounding errors only.
                let apart = match name.ends_with("self.key.bias") {
                    true => (found - expected).abs().max().item::<f32>().unwrap().into(),
                    false => difference(&found, expected),
                };
                assert!(apart < 5e-5, "{name}: {apart:.1e} of the largest element");
                n += 1;
            }
            let all = recorded.keys().filter(|name| name.starts_with("gradient.")).count();
            assert_eq!((n, all), (39, 39), "16 leaves in each of 2 layers, and 7");
        }
    }

    /// Needs the published weights, which tests do not download.
    #[test]
    #[ignore = "examples/bert/ci.sh runs it, with the weights"]
    fn vectors_of_the_published_model_match_transformers() {
        let weights = std::env::var("OXIDAX_BERT_WEIGHTS").expect("examples/bert/ci.sh sets it");
        let encoder = SentenceEncoder::load(weights).unwrap();
        let recorded = notes(&fixture("bert_minilm"));
        let sentences = recorded["sentences"].as_array().unwrap();
        let text = |sentence: &Value| sentence["text"].as_str().unwrap().to_owned();
        let texts: Vec<String> = sentences.iter().map(text).collect();
        for (text, sentence) in texts.iter().zip(sentences) {
            let tokens = encoder.tokenizer().encode(text).unwrap().tokens.shape()[0] as u64;
            assert_eq!(tokens, sentence["tokens"].as_u64().unwrap(), "{text:?}");
        }
        let embedded = encoder.embed(&texts, 8).unwrap();
        assert_eq!(embedded.compiled_programs, 5, "16, 32, 64, 128 and 256 tokens");
        let expected = &arrays(&fixture("bert_minilm"))["embedded"];
        let furthest = (&embedded.vectors - expected).abs().max_axes(axes(-1)).to_vec::<f32>();
        for (text, apart) in texts.iter().zip(furthest.unwrap()) {
            assert!(apart < 1e-5, "{text:?}: {apart:.1e}");
        }
        // Another batch size, which also changes the padding.
        let alone = encoder.embed(&texts[3..4], 1).unwrap().vectors;
        let apart = difference(&alone, &expected.index(i![3..4]));
        assert!(apart < 1e-5, "{apart:.1e}");
    }
}
