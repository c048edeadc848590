//! Text generation by a decoder with a known distribution, and checkpoints by a metric.

#![allow(clippy::unwrap_used, reason = "in a test, unwrapping is the assertion")]

use oxidax::prelude::*;
use oxidax_flax::checkpoint::{CheckpointManager, CheckpointManagerOptions};
use oxidax_flax::generate::{Decoder, GenerateOptions, Generator, SamplingOptions, sample_logits};
use std::collections::BTreeSet;

/// Predicts the sum of all tokens read, modulo the vocabulary: a wrong cache gives other tokens.
#[derive(Tree, Clone)]
struct Sums {
    logits: Array,
}

const VOCABULARY: usize = 97;

impl Decoder for Sums {
    type Cache = (Array, Array);

    fn init_cache(&self, batch: usize, length: usize) -> (Array, Array) {
        (zeros(([batch, length], DType::I32)), zeros(([], DType::I32)))
    }

    fn decode(
        &self,
        tokens: &Array,
        count: &Array,
        (texts, position): &(Array, Array),
    ) -> (Array, (Array, Array)) {
        let texts = dynamic_update_slice_in_dim(texts, tokens, position, 1);
        let end = position + count;
        let [_, length] = texts.dims();
        let valid = lt(iota(DType::I32, length), &end);
        let sum = where_(&valid, &texts, 0).sum_axes(1);
        let next = rem(&sum, VOCABULARY as i32);
        (take(&self.logits, &next, 0), (texts, end))
    }

    fn max_length(&self) -> Option<usize> {
        Some(200)
    }

    fn vocabulary_size(&self) -> Option<usize> {
        Some(VOCABULARY)
    }
}

fn expected(prompt: &[u32], n: usize) -> Vec<u32> {
    let mut text = prompt.to_vec();
    for _ in 0..n {
        text.push(text.iter().sum::<u32>() % VOCABULARY as u32);
    }
    text[prompt.len()..].to_vec()
}

mod on_cpu {
    use super::*;

    fn model() -> Sums {
        Sums { logits: eye(VOCABULARY) }
    }

    /// Returns the logits of every token.
    #[derive(Tree, Clone)]
    struct AllLogits {
        logits: Array,
    }

    impl Decoder for AllLogits {
        type Cache = ();

        fn init_cache(&self, _: usize, _: usize) {}

        fn decode(&self, tokens: &Array, _: &Array, (): &()) -> (Array, ()) {
            (take(&self.logits, tokens, 0), ())
        }
    }

    #[test]
    fn logits_of_all_tokens_are_refused() {
        let generator = Generator::new(SamplingOptions::greedy());
        let model = AllLogits { logits: eye(VOCABULARY) };
        let error = generator.generate(&model, &[&[1u32, 2]], 3, random::key(0)).unwrap_err();
        let expected = "returns logits f32[1,32,97], it must return [1, vocabulary]";
        assert!(error.to_string().contains(expected), "{error}");
    }

    #[test]
    fn texts_of_any_length_continue_with_one_program() {
        let generator = Generator::new(SamplingOptions::greedy());
        for length in 1..=32 {
            let prompt: Vec<u32> = (1..=length).map(|token| token * 7 % 97).collect();
            let n = 60 - length as usize;
            let texts = generator.generate(&model(), &[&prompt], n, random::key(0)).unwrap();
            assert_eq!(texts, [expected(&prompt, n)]);
        }
        // Texts of up to 32 and of up to 64 tokens.
        assert_eq!(generator.stats().compiles, 1);
    }

    #[test]
    fn prompts_of_different_lengths_continue_together() {
        let generator = Generator::new(SamplingOptions::greedy());
        let prompts: [&[u32]; 3] = [&[5], &[1, 2, 3], &[90, 96, 4, 4, 4, 8]];
        let texts = generator.generate(&model(), &prompts, 7, random::key(0)).unwrap();
        for (text, prompt) in texts.iter().zip(prompts) {
            assert_eq!(*text, expected(prompt, 7));
        }
    }

    #[test]
    fn texts_end_before_a_stop_token() {
        let all = expected(&[5, 6], 12);
        let options = GenerateOptions { stop_tokens: vec![all[4]], ..GenerateOptions::default() };
        let generator = Generator::with_options(SamplingOptions::greedy(), options);
        let texts = generator.generate(&model(), &[[5, 6]], 12, random::key(0)).unwrap();
        let first = all.iter().position(|token| *token == all[4]).unwrap();
        assert_eq!(texts, [all[..first].to_vec()]);
    }

    #[test]
    fn prompts_that_do_not_fit_are_refused() {
        let generator = Generator::new(SamplingOptions::greedy());
        let refused = |prompt: &[u32], n| {
            generator.generate(&model(), &[prompt], n, random::key(0)).unwrap_err().to_string()
        };
        assert!(refused(&[], 1).contains("a prompt is empty"));
        assert!(refused(&[97], 1).contains("token 97 of a prompt; the model has 97 tokens"));
        assert!(refused(&[1], 200).contains("are 201; the model reads 200 at most"));
        let none = generator.generate(&model(), &[[1u32]], 0, random::key(0)).unwrap();
        assert_eq!(none, [[0u32; 0]]);
        // A text up to the last position.
        let text = generator.generate(&model(), &[[1u32]], 199, random::key(0)).unwrap();
        assert_eq!(text, [expected(&[1], 199)]);
    }

    fn chosen(options: SamplingOptions) -> BTreeSet<i32> {
        let logits = log(array![0.4f32, 0.3, 0.2, 0.06, 0.04]);
        let draw =
            jit(move |logits: Array, key: random::Key| sample_logits(&logits, key, &options));
        let token = |seed| draw.call(&logits, random::key(seed)).unwrap().item::<i32>().unwrap();
        (0..200).map(token).collect()
    }

    #[test]
    fn sampling_is_limited_to_likely_tokens() {
        let plain = SamplingOptions::default();
        assert_eq!(chosen(plain).len(), 5);
        assert_eq!(chosen(SamplingOptions { top_k: Some(2), ..plain }), BTreeSet::from([0, 1]));
        assert_eq!(
            chosen(SamplingOptions { top_p: Some(0.75), ..plain }),
            BTreeSet::from([0, 1, 2])
        );
        assert_eq!(chosen(SamplingOptions { top_p: Some(0.0), ..plain }), BTreeSet::from([0]));
        assert_eq!(
            chosen(SamplingOptions { min_p: Some(0.3), ..plain }),
            BTreeSet::from([0, 1, 2])
        );
        assert_eq!(chosen(SamplingOptions { temperature: 0.01, ..plain }), BTreeSet::from([0]));
        assert_eq!(chosen(SamplingOptions::greedy()), BTreeSet::from([0]));
    }

    #[test]
    fn the_best_checkpoints_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let options = || {
            CheckpointManagerOptions::new()
                .max_to_keep(2)
                .keep_period(10)
                .save_interval_steps(2)
                .best_metric("accuracy")
        };
        let mut manager = CheckpointManager::new(folder.path(), options()).unwrap();
        let scores = [0.1, 0.9, 0.3, 0.8, 0.2, 0.4, 0.5];
        for (step, score) in (2..).step_by(2).zip(scores) {
            let state = full([2], step as f32);
            assert!(!manager.save(step - 1, &state, &[]).unwrap());
            assert!(manager.save(step, &state, &[("accuracy", score)]).unwrap());
        }
        manager.wait_until_finished().unwrap();
        assert_eq!(manager.all_steps().unwrap(), [4, 8, 10]);
        assert_eq!(manager.best_step().unwrap(), Some(4));
        assert_eq!(manager.metrics(8).unwrap()["accuracy"], 0.8);
        assert!(!manager.should_save(10));
        manager.close().unwrap();

        // The metrics are part of the checkpoints.
        let mut manager = CheckpointManager::new(folder.path(), options()).unwrap();
        assert_eq!(manager.best_step().unwrap(), Some(4));
        assert_eq!(manager.latest_step().unwrap(), Some(10));
        let state = manager.restore(8, &zeros([2])).unwrap();
        assert_eq!(state.to_vec::<f32>().unwrap(), [8.0; 2]);
        manager.delete(4).unwrap();
        assert_eq!(manager.best_step().unwrap(), Some(8));
    }

    #[test]
    fn the_newest_checkpoints_are_kept_without_a_metric() {
        let folder = tempfile::tempdir().unwrap();
        let options = CheckpointManagerOptions::new()
            .max_to_keep(2)
            .should_save(|step, latest| latest.is_none_or(|latest| step >= latest + 3));
        let mut manager = CheckpointManager::new(folder.path(), options).unwrap();
        let saved: Vec<u64> =
            (1..=12).filter(|&step| manager.save(step, &ones([1]), &[]).unwrap()).collect();
        assert_eq!(saved, [1, 4, 7, 10]);
        manager.wait_until_finished().unwrap();
        assert_eq!(manager.all_steps().unwrap(), [7, 10]);
        assert_eq!(manager.best_step().unwrap(), None);
    }
    #[test]
    fn arrays_are_stored_in_another_dtype() {
        let folder = tempfile::tempdir().unwrap();
        let options = CheckpointManagerOptions::new().save_dtype(DType::BF16).preemption(|| true);
        let options = options.save_interval_steps(100);
        let mut manager = CheckpointManager::new(folder.path(), options).unwrap();
        let state = (array![1.0f32, 1.001], array![7]);
        assert!(manager.reached_preemption());
        assert!(manager.save(1, &state, &[]).unwrap());
        let (floats, integers) = manager.restore(1, &state).unwrap();
        assert_eq!(floats.to_vec::<f32>().unwrap(), [1.0, 1.0]);
        assert_eq!(integers.to_vec::<i32>().unwrap(), [7]);
    }
}
