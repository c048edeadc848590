//! Training steps: losses compared with JAX, stacked and unrolled layers, gradient accumulation,
//! and dropout.

use super::recorded::{recipe, stacked};
use super::transformers::difference;
use crate::model::{Block, Config, Gpt2};
use crate::text;
use crate::tokenizer::Tokenizer;
use crate::train::Recipe;
use nn::Layers;
use oxidax::prelude::*;
use serde_json::Value;
use std::path::Path;
use std::sync::LazyLock;

const TEXT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/tragedies.txt.gz");
const SMALL: Config = Config {
    vocabulary: 50,
    positions: 16,
    width: 32,
    heads: 2,
    layers: 2,
    epsilon: 1e-5,
    dropout: 0.0,
};

fn small(dropout: f64) -> Gpt2 {
    Gpt2::new(random::key(0), &Config { dropout, ..SMALL })
}

/// Returns the tokens and the next tokens of `rows` texts.
fn batch(rows: usize, seed: i64) -> (Array, Array) {
    let texts = random::randint(random::key(seed), [rows, 17], DType::I32, 0..50);
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
        let tokenizer = Tokenizer::characters(&text);
        let tokens = tokenizer.encode(&text[..text.len() * 9 / 10]).unwrap();
        let config = Config {
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
                let starts =
                    random::randint(key, [rows], DType::I32, 0..last).to_vec::<i32>().unwrap();
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

    #[test]
    fn stacked_layers_drop_the_same_elements() {
        let (tokens, _) = batch(2, 0);
        let logits = |model: Gpt2, key: Option<random::Key>| {
            let forward = jit(|model: Gpt2, tokens: Array, key| model.forward(&tokens, key));
            forward.call(model, &tokens, key).unwrap()
        };
        let unrolled = small(0.2).forward(&tokens, Some(random::key(7)));
        let looped = logits(stacked(small(0.2)), Some(random::key(7)));
        assert!(difference(&looped, &unrolled) < 1e-5);
        let other = logits(stacked(small(0.2)), Some(random::key(8)));
        assert!(difference(&other, &unrolled) > 1e-2, "another key drops other elements");
        let kept = logits(small(0.2), None);
        assert!(difference(&kept, &unrolled) > 1e-2, "without a key nothing is dropped");
        assert!(difference(&logits(small(0.0), None), &kept) == 0.0);
    }

    /// Each part of a batch has its own key, and so does each step.
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
        let corpus = text::Corpus::new(&text, &Tokenizer::characters(&text), 8).unwrap();
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

    #[test]
    fn stacking_is_undone_by_unrolling() {
        let model = small(0.0);
        let back = model.h.stacked().unrolled();
        assert_eq!(tree::paths(&back), tree::paths(&model.h));
        for (a, b) in tree::leaves(&back).iter().zip(tree::leaves(&model.h)) {
            assert_eq!(a.to_bytes().unwrap(), b.to_bytes().unwrap());
        }
    }
}

/// Stacking keeps the size of the program independent of the number of layers.
#[test]
fn a_stacked_program_does_not_grow_with_the_layers() {
    let equations = |layers: usize, stack: bool| {
        let config = Config { layers, ..SMALL };
        let template = |key: random::Key| match stack {
            true => stacked(Gpt2::new(key, &config)),
            false => Gpt2::new(key, &config),
        };
        let model = eval_shape(template, random::Key::of_type()).unwrap();
        let tokens = Array::of_type(Aval::new(DType::I32, [2, 16]));
        let forward = |model: Gpt2, tokens: Array| model.forward(&tokens, None);
        make_program(forward, (&model, &tokens)).unwrap().to_string().lines().count()
    };
    assert_eq!(equations(3, true), equations(9, true));
    assert!(equations(9, false) > 2 * equations(3, false));
}

#[test]
fn the_four_published_sizes_have_their_numbers_of_parameters() {
    let count = |name: &str| {
        let config = Config::published(name).unwrap();
        let model = |key: random::Key| Gpt2::new(key, &config);
        let model = eval_shape(model, random::Key::of_type()).unwrap();
        nn::summary(&model).parameters()
    };
    // Counted as in `transformers`, with the shared head counted once.
    assert_eq!(count("gpt2"), 124_439_808);
    assert_eq!(count("gpt2-medium"), 354_823_168);
    assert_eq!(count("gpt2-large"), 774_030_080);
    assert_eq!(count("gpt2-xl"), 1_557_611_200);
    assert!(Config::published("gpt-2").is_none());
}

#[test]
fn the_last_tenth_of_a_text_is_held_out() {
    let text: String = ('a'..='z').cycle().take(1000).collect();
    let corpus = text::Corpus::new(&text, &Tokenizer::characters(&text), 8).unwrap();
    assert_eq!(corpus.tokens().unwrap(), (900, 100));
    let windows = corpus.held_out(3).unwrap().map(|(tokens, next)| {
        let (tokens, next) = (tokens.to_vec::<i32>()?, next.to_vec::<i32>()?);
        assert!(tokens.iter().zip(&next).all(|(a, b)| (a + 1) % 26 == *b));
        Ok(tokens.len())
    });
    let windows: Vec<usize> = windows.collect::<Result<_, _>>().unwrap();
    assert_eq!(windows, [24; 4], "12 windows of 8 tokens fit into 100");
    let short = text::Corpus::new(&text[..80], &Tokenizer::characters(&text), 8).err().unwrap();
    let expected = "the held-out part has 8 tokens, but a window of 8 needs one more than its size";
    assert_eq!(short.to_string(), expected);
    let missing = format!("{:#}", text::read(&["no such file".into()]).unwrap_err());
    assert!(missing.starts_with("no such file: "), "{missing}");
}

/// A block is a tree; its leaves are those in the files.
#[test]
fn leaves_are_called_as_in_the_files() {
    let block: Block = eval_shape(
        |key: random::Key| {
            let Layers::Unrolled { layers } = Gpt2::new(key, &SMALL).h else { panic!("unrolled") };
            layers[0].clone()
        },
        random::Key::of_type(),
    )
    .unwrap();
    let names: Vec<String> =
        tree::paths(&block).iter().map(|path| crate::weights::stored_name(path)).collect();
    let expected = "ln_1.weight ln_1.bias \
                    attn.c_attn.weight attn.c_attn.bias attn.c_proj.weight attn.c_proj.bias \
                    ln_2.weight ln_2.bias \
                    mlp.c_fc.weight mlp.c_fc.bias mlp.c_proj.weight mlp.c_proj.bias";
    assert_eq!(names.join(" "), expected);
}
