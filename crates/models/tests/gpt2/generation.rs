//! Generation with a key-value cache gives the text that generation without one gives, for any
//! number of layers and any temperature.

use super::recorded::{model, stacked};
use super::transformers::difference;
use oxidax::prelude::*;
use oxidax_models::gpt2::{Gpt2, Gpt2Cache, Sampling, TextGenerator};

const PROMPT: [u32; 5] = [40, 41, 200, 300, 17];

/// Samples tokens after a prompt without a cache, by recomputing the whole text for each token. The
/// text is padded to one length so that one program serves; the padding is never attended to.
fn uncached(
    model: &Gpt2,
    prompt: &[u32],
    n: usize,
    sampling: Sampling,
    keys: &random::Key,
) -> Vec<u32> {
    let length = prompt.len() + n;
    let next = jit(move |model: Gpt2, tokens: Array, last: Array, key: random::Key| {
        let logits = model.forward(&tokens, None);
        sampling.choose(&squeeze(&dynamic_index_in_dim(&logits, &last, 1), &[1]), key)
    });
    let mut text: Vec<i32> = prompt.iter().map(|&token| token as i32).collect();
    for at in 0..n {
        let filled = [&text[..], &vec![7; length - text.len()]].concat();
        let tokens = Array::from_slice(&filled, [1, length]).unwrap();
        let last = Array::from_slice(&[text.len() as i32 - 1], []).unwrap();
        let key = tree::map(keys, |data| data.index(i![at as isize]));
        text.extend(next.call(model, tokens, last, key).unwrap().to_vec::<i32>().unwrap());
    }
    text[prompt.len()..].iter().map(|&token| token as u32).collect()
}

mod on_cpu {
    use super::*;

    #[test]
    fn cached_and_uncached_texts_are_equal() {
        let ways = [
            Sampling::GREEDY,
            Sampling { temperature: 1.0, top_k: None },
            Sampling { temperature: 0.7, top_k: Some(20) },
        ];
        let key = random::key(5);
        // The keys that `generate` uses for a text that fits.
        let base = random::fold_in(key.clone(), 0u32);
        let keys: Vec<Array> =
            (0..12).map(|at| random::fold_in(base.clone(), at).data().clone()).collect();
        let keys = random::Key::from_data(stack(&keys, 0));
        for sampling in ways {
            let expected = uncached(&model(), &PROMPT, 12, sampling, &keys);
            for model in [model(), stacked(model())] {
                let generator = TextGenerator::new(sampling);
                let found = generator.generate(&model, &PROMPT, 12, key.clone()).unwrap();
                assert_eq!(found, expected, "{sampling:?}");
            }
        }
    }

    /// Passed through the cache in chunks of any length, every position gets the logits of the
    /// whole text.
    #[test]
    fn logits_do_not_depend_on_how_a_text_is_cut() {
        let ids: Vec<i32> = (0..24).map(|n| n * 37 % 512).collect();
        let tokens = Array::from_slice(&ids, [2, 12]).unwrap();
        for model in [model(), stacked(model())] {
            let forward = jit(|model: Gpt2, tokens: Array| model.forward(&tokens, None));
            let whole = forward.call(&model, &tokens).unwrap();
            let decode =
                jit(|model: Gpt2, tokens: Array, cache: Gpt2Cache| model.decode(&tokens, &cache));
            let mut cache = model.cache(2, 12);
            let mut seen = 0;
            for length in [5, 1, 1, 4, 1] {
                let part = tokens.index(i![.., seen as isize..(seen + length) as isize]);
                let logits;
                (logits, cache) = decode.call(&model, part, cache).unwrap();
                seen += length;
                let expected = whole.index(i![.., seen as isize - 1]);
                assert!(difference(&logits, &expected) < 1e-5);
            }
        }
    }

    /// Prompts of any length up to the padded one run one program.
    #[test]
    fn other_lengths_do_not_compile_again() {
        let (model, generator) = (model(), TextGenerator::new(Sampling::GREEDY));
        for (length, n) in [(3, 5), (4, 5), (7, 9), (1, 20)] {
            let text =
                generator.generate(&model, &PROMPT[..length.min(PROMPT.len())], n, random::key(0));
            assert_eq!(text.unwrap().len(), n);
        }
        assert_eq!(generator.stats().compiles, 1);
    }

    #[test]
    fn text_longer_than_the_context_continues_from_its_last_half() {
        let model = model();
        let generator = TextGenerator::new(Sampling::GREEDY);
        let long = generator.generate(&model, &PROMPT, 400, random::key(0)).unwrap();
        assert_eq!(long.len(), 400);
        // 251 tokens fill the 256 positions. The next token is computed from the last 128.
        let text = [&PROMPT[..], &long].concat();
        let key = random::split(random::key(0), [1]);
        let next = uncached(&model, &text[128..256], 1, Sampling::GREEDY, &key);
        assert_eq!(next, [text[256]]);
    }

    #[test]
    fn one_candidate_equals_greedy_sampling() {
        let greedy = TextGenerator::new(Sampling::GREEDY);
        let best = TextGenerator::new(Sampling { temperature: 2.0, top_k: Some(1) });
        let text = |generator: &TextGenerator| {
            generator.generate(&model(), &PROMPT, 10, random::key(3)).unwrap()
        };
        assert_eq!(text(&greedy), text(&best));
    }

    #[test]
    fn texts_follow_the_key_and_top_k_bounds_them() {
        let sampling = Sampling { temperature: 1.5, top_k: Some(3) };
        let logits = Array::from_slice(&[0.1f32, 3.0, -1.0, 2.0, 2.5, 0.0], [1, 6]).unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..40 {
            let token = sampling.choose(&logits, random::key(seed)).to_vec::<i32>().unwrap()[0];
            assert!([1, 3, 4].contains(&token), "{token} is not among the best three");
            seen.insert(token);
        }
        assert_eq!(seen.len(), 3);
        // If there are fewer tokens than candidates, all tokens are candidates.
        let all = Sampling { temperature: 1.0, top_k: Some(100) };
        assert!(all.choose(&logits, random::key(0)).to_vec::<i32>().unwrap()[0] < 6);
    }

    #[test]
    fn prompts_that_do_not_fit_are_refused() {
        let generator = TextGenerator::new(Sampling::GREEDY);
        let refused = |prompt: &[u32]| {
            generator.generate(&model(), prompt, 1, random::key(0)).unwrap_err().to_string()
        };
        for (prompt, problem) in [
            (&[][..], "the prompt is empty, it needs at least one token"),
            (&[1, 512], "token 512 of the prompt; the model has 512 tokens"),
        ] {
            let refused = refused(prompt);
            let expected = format!("error[value]: generate: {problem}\n   --> {}", file!());
            assert!(refused.starts_with(&expected), "{refused}");
        }
        let none = generator.generate(&model(), &[1], 0, random::key(0)).unwrap();
        assert!(none.is_empty());
    }
    /// Several prompts of one length are continued together, each as it is alone.
    #[test]
    fn prompts_of_a_batch_are_continued_independently() {
        let (model, generator) = (model(), TextGenerator::new(Sampling::GREEDY));
        let prompts = Array::from_slice(&[40, 41, 200, 300, 17, 5], [2, 3]).unwrap();
        let keys = random::split(random::key(0), [8]);
        let together = generator.generate_batch(&model, &prompts, &keys).unwrap();
        assert_eq!(together.shape().dims(), [8, 2]);
        for (row, prompt) in [[40, 41, 200], [300, 17, 5]].iter().enumerate() {
            let alone = generator.generate(&model, prompt, 8, random::key(0)).unwrap();
            let alone: Vec<i32> = alone.into_iter().map(|token| token as i32).collect();
            assert_eq!(together.index(i![.., row as isize]).to_vec::<i32>().unwrap(), alone);
        }
        assert_eq!(generator.stats().compiles, 2);
        let long = random::split(random::key(0), [254]);
        let refused = generator.generate_batch(&model, &prompts, &long).unwrap_err().to_string();
        let expected = "error[value]: Gpt2: 257 tokens; the model has 256 positions";
        assert!(refused.starts_with(expected), "{refused}");
    }

    #[test]
    fn negative_temperatures_are_refused() {
        for temperature in [-1.0, f64::NAN] {
            let generator = TextGenerator::new(Sampling { temperature, top_k: None });
            let refused = generator.generate(&model(), &[1], 1, random::key(0)).unwrap_err();
            let expected = format!("the temperature is {temperature}, not 0 or greater");
            assert!(refused.to_string().contains(&expected), "{refused}");
        }
    }
}
