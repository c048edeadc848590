//! Training steps: losses compared with JAX, stacked and unrolled layers, gradient accumulation,
//! and dropout. Also the training text.

use super::recorded::{recipe, stacked};
use super::transformers::difference;
use crate::text;
use crate::train::Recipe;
use nn::Layers;
use oxidax::prelude::*;
use oxidax_models::gpt2::{Gpt2, Gpt2Config, Gpt2Tokenizer};
use serde_json::Value;
use std::path::Path;
use std::sync::LazyLock;

const TEXT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/tragedies.txt.gz");
const SMALL: Gpt2Config = Gpt2Config {
    vocabulary: 50,
    positions: 16,
    width: 32,
    heads: 2,
    layers: 2,
    epsilon: 1e-5,
    dropout: 0.0,
};

fn small(dropout: f64) -> Gpt2 {
    Gpt2::new(random::key(0), &Gpt2Config { dropout, ..SMALL })
}

/// Returns the tokens and the next tokens of `rows` texts.
fn batch(rows: usize, seed: i64) -> (Array, Array) {
    let texts = random::randint(random::key(seed), [rows, 17], 0..50);
    (texts.index(i![.., ..-1]), texts.index(i![.., 1..]))
}

/// Returns the losses of four steps, and the model after them.
fn run(mut model: Gpt2, recipe: &Recipe) -> (Vec<f32>, Gpt2) {
    let (step, mut state) = (recipe.step(), recipe.optimizer().init(&model));
    let mut losses = Vec::new();
    for at in 0..4 {
        let loss;
        (model, state, loss) = step.call(model, state, batch(12, at), None).unwrap();
        losses.push(loss.item::<f32>().unwrap());
    }
    (losses, model)
}

fn expect_alike(a: &(Vec<f32>, Gpt2), b: &(Vec<f32>, Gpt2), tolerance: f64) {
    for (a, b) in a.0.iter().zip(&b.0) {
        let apart = f64::from((a / b - 1.0).abs());
        assert!(apart <= tolerance, "losses {a} and {b}: {apart:.1e}");
    }
    let unrolled = |model: &Gpt2| tree::leaves(&Gpt2 { h: model.h.unrolled(), ..model.clone() });
    for ((a, b), path) in unrolled(&a.1).iter().zip(unrolled(&b.1)).zip(tree::paths(&small(0.0))) {
        // The bias of the keys shifts all scores of a query equally, so its gradient consists of
        // rounding errors. AdamW turns them into full steps.
        if !path.ends_with("c_attn.bias") {
            let apart = difference(a, &b);
            assert!(apart <= 100.0 * tolerance, "{path}: {apart:.1e} of the largest element");
        }
    }
}

mod on_cpu {
    use super::*;

    #[test]
    fn ten_losses_on_real_text_match_jax() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python-compat/fixtures");
        let json = std::fs::read_to_string(folder.join("gpt2.json")).unwrap();
        let json: Value = serde_json::from_str(&json).unwrap();
        let case = &json["cases"][0];
        let recorded = checkpoint::arrays(folder.join("gpt2.safetensors")).unwrap();
        let output = |at: usize| &recorded[case["outputs"][at].as_str().unwrap()];
        let number = |name: &str| case["params"][name].as_f64().unwrap();
        let size = |name: &str| case["params"][name].as_u64().unwrap() as usize;

        let text = text::read(&[TEXT.into()]).unwrap();
        assert!(text.is_ascii());
        let tokenizer = Gpt2Tokenizer::characters(&text);
        let tokens = tokenizer.encode(&text[..text.len() * 9 / 10]).unwrap();
        let config = Gpt2Config {
            vocabulary: tokenizer.len(),
            positions: size("positions"),
            width: size("width"),
            heads: size("heads"),
            layers: size("layers"),
            epsilon: number("epsilon"),
            dropout: 0.0,
        };
        let recipe = Recipe {
            steps: size("steps") as u32,
            warmup: size("warmup") as u32,
            learning_rate: number("learning_rate"),
            min_learning_rate: number("min_learning_rate"),
            weight_decay: number("weight_decay"),
            b1: number("b1"),
            b2: number("b2"),
            clip: number("clip"),
            ..recipe()
        };
        let (rows, block) = (size("batch"), config.positions);
        let fresh = Gpt2::new(random::key(0), &config);
        let Layers::Unrolled { layers } = &fresh.h else { panic!("new models are unrolled") };
        let corner = layers[0].attn.c_attn.weight.index(i![..4, ..4]);
        assert!(difference(&corner, output(3)) < 1e-6, "the weights are other ones");

        for mut model in [fresh.clone(), stacked(fresh)] {
            let (step, mut state) = (recipe.step(), recipe.optimizer().init(&model));
            for at in 0..recipe.steps {
                let key = random::fold_in(random::key(1), at);
                let last = (tokens.len() - block) as i32;
                let starts = random::randint(key, [rows], 0..last).to_vec::<i32>().unwrap();
                let recorded = output(2).index(i![at as isize]).to_vec::<i32>().unwrap();
                assert_eq!(starts, recorded, "the windows of step {at} are other ones");
                let window = |from: usize| {
                    let rows = starts.iter().map(|&start| start as usize + from);
                    let ids = rows.flat_map(|start| &tokens[start..start + block]);
                    let ids: Vec<i32> = ids.map(|&id| id as i32).collect();
                    Array::from_slice(&ids, [starts.len(), block]).unwrap()
                };
                let loss;
                (model, state, loss) =
                    step.call(model, state, (window(0), window(1)), None).unwrap();
                let loss = f64::from(loss.item::<f32>().unwrap());
                let jax = f64::from(output(0).to_vec::<f32>().unwrap()[at as usize]);
                let apart = (loss / jax - 1.0).abs();
                assert!(apart < 1e-4, "step {at}: {loss}, JAX {jax}: {apart:.1e}");
            }
        }
    }

    /// The reference run of the comparisons.
    fn whole() -> &'static (Vec<f32>, Gpt2) {
        static WHOLE: LazyLock<(Vec<f32>, Gpt2)> = LazyLock::new(|| run(small(0.0), &recipe()));
        &WHOLE
    }

    #[test]
    fn stacked_layers_train_as_unrolled_ones() {
        assert!(whole().0[3] < whole().0[0], "{:?}", whole().0);
        expect_alike(&run(stacked(small(0.0)), &recipe()), whole(), 1e-5);
    }

    #[test]
    fn batch_in_parts_equals_the_whole_batch() {
        let parts = run(small(0.0), &Recipe { accumulate: 3, ..recipe() });
        expect_alike(&parts, whole(), 1e-5);
    }

    /// Each part of a batch has its own key, and so does each step.
    #[test]
    fn fused_loss_trains_as_the_loss_of_logits() {
        let fused = Recipe { fused_loss: true, ..recipe() };
        expect_alike(&run(small(0.0), &fused), whole(), 1e-5);
    }

    #[test]
    fn flash_attention_trains_as_stored_weights() {
        for model in [small(0.0), stacked(small(0.0))] {
            let model = model.with_attention(nn::AttentionImplementation::Flash);
            expect_alike(&run(model, &recipe()), whole(), 1e-4);
        }
    }

    #[test]
    fn dropout_of_a_step_depends_on_its_key() {
        let model = stacked(small(0.2));
        let recipe = Recipe { accumulate: 2, ..recipe() };
        let (step, state) = (recipe.step(), recipe.optimizer().init(&model));
        let loss = |seed: i64| {
            let key = Some(random::key(seed));
            step.call(&model, &state, batch(2, 0), key).unwrap().2.item::<f32>().unwrap()
        };
        assert_eq!(loss(1), loss(1));
        assert_ne!(loss(1), loss(2));
    }

    #[test]
    fn bf16_steps_keep_f32_parameters_and_nearly_the_losses() {
        let (full, narrow) = (whole(), run(small(0.0), &Recipe { bf16: true, ..recipe() }));
        assert_ne!(full.0, narrow.0);
        for (full, narrow) in full.0.iter().zip(&narrow.0) {
            assert!((full / narrow - 1.0).abs() < 1e-2, "{full} and {narrow}");
        }
        assert!(tree::leaves(&narrow.1).iter().all(|leaf| leaf.dtype() == DType::F32));
    }

    #[test]
    fn batches_come_in_an_order_that_the_seed_decides() {
        let text: String = ('a'..='z').cycle().take(300).collect();
        let corpus = text::Corpus::new(&text, &Gpt2Tokenizer::characters(&text), 8).unwrap();
        let first = |seed: u64| -> Vec<Vec<i32>> {
            // More than one epoch of the 262 windows.
            let batches = corpus.batches(50, seed).unwrap().take(6);
            let each = batches.map(|(tokens, next)| {
                assert_eq!(tokens.shape().dims(), [50, 8]);
                let (tokens, next) = (tokens.to_vec::<i32>()?, next.to_vec::<i32>()?);
                assert!(tokens.iter().zip(&next).all(|(a, b)| (a + 1) % 26 == *b));
                Ok(tokens)
            });
            each.collect::<Result<_, _>>().unwrap()
        };
        assert_eq!(first(1), first(1));
        assert_ne!(first(1), first(2));
    }

    /// With a zero gradient AdamW changes only the leaves that decay.
    #[test]
    fn only_matrices_decay() {
        for model in [small(0.0), stacked(small(0.0))] {
            let rule = Recipe { weight_decay: 0.5, learning_rate: 0.5, ..recipe() }.optimizer();
            let ones = tree::map(&model, ones_like);
            let zeros = tree::map(&model, zeros_like);
            let (updates, _) = rule.update(&zeros, &rule.init(&ones), &ones);
            let mut decayed = 0;
            for (path, update) in tree::paths(&updates).iter().zip(tree::leaves(&updates)) {
                let update = update.to_vec::<f32>().unwrap()[0];
                let expected = if path.ends_with("weight") { -0.25 } else { 0.0 };
                assert!((update - expected).abs() < 1e-6, "{path}: {update}");
                decayed += usize::from(update != 0.0);
            }
            let matrices = match &model.h {
                Layers::Unrolled { layers } => 4 * layers.len(),
                Layers::Stacked { .. } => 4,
            };
            assert_eq!(decayed, 2 + matrices);
        }
    }
}

#[test]
fn the_last_tenth_of_a_text_is_held_out() {
    let text: String = ('a'..='z').cycle().take(1000).collect();
    let corpus = text::Corpus::new(&text, &Gpt2Tokenizer::characters(&text), 8).unwrap();
    assert_eq!(corpus.tokens().unwrap(), (900, 100));
    let windows = corpus.held_out(3).unwrap().map(|(tokens, next)| {
        let (tokens, next) = (tokens.to_vec::<i32>()?, next.to_vec::<i32>()?);
        assert!(tokens.iter().zip(&next).all(|(a, b)| (a + 1) % 26 == *b));
        Ok(tokens.len())
    });
    let windows: Vec<usize> = windows.collect::<Result<_, _>>().unwrap();
    assert_eq!(windows, [24; 4], "12 windows of 8 tokens fit into 100");
    let short = text::Corpus::new(&text[..80], &Gpt2Tokenizer::characters(&text), 8).err().unwrap();
    let expected = "the held-out part has 8 tokens, but a window of 8 needs one more than its size";
    assert_eq!(short.to_string(), expected);
    let missing = format!("{:#}", text::read(&["no such file".into()]).unwrap_err());
    assert!(missing.starts_with("no such file: "), "{missing}");
}
