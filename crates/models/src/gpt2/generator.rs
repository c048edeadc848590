//! Text generation with a key-value cache, by [`Generator`].

use super::Gpt2;
use crate::argument_error::argument_error;
use oxidax::core::{RuleError, throw_operands};
use oxidax::jit::JitStats;
use oxidax::prelude::*;
use oxidax_flax::generate::{GenerateOptions, Generator};

/// Options for choosing the next token.
///
/// Fan, Lewis, Dauphin: Hierarchical neural story generation (2018), section 5.4, for `top_k`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Divides the logits. 0 chooses the most likely token.
    pub temperature: f64,
    /// Limits the choice to this number of most likely tokens, at least 1. `None` allows every
    /// token.
    pub top_k: Option<usize>,
}

impl Sampling {
    /// Chooses the most likely token.
    pub const GREEDY: Sampling = Sampling { temperature: 0.0, top_k: None };

    /// Chooses tokens `i32[b]` from logits `{float}[b, vocabulary]`.
    ///
    /// Throws `Op` (value) if the temperature is negative or NaN.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// use oxidax_models::gpt2::Sampling;
    /// let sampling = Sampling { temperature: 0.8, top_k: Some(50) };
    /// let choose = move |logits: Array, key: random::Key| sampling.choose(&logits, key);
    /// let logits = Aval::new(DType::F32, [4, 50257]);
    /// let tokens = eval_shape(choose, (logits, random::Key::of_type()))?;
    /// assert_eq!(tokens.aval().to_string(), "i32[4]");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn choose(self, logits: &Array, key: random::Key) -> Array {
        if self.temperature.is_nan() || self.temperature < 0.0 {
            let problem = format!("the temperature is {}, not 0 or greater", self.temperature);
            throw_operands("Sampling", RuleError::value(problem), &[logits]);
        }
        if self.temperature == 0.0 {
            return logits.argmax_axis(-1);
        }
        let logits = logits / self.temperature;
        let Some(k) = self.top_k else { return random::categorical(key, &logits) };
        let [_, vocabulary] = logits.dims();
        let (best, tokens) = top_k(&logits, k.clamp(1, vocabulary), -1);
        let choice = random::categorical(key, &best);
        take_along_axis(&tokens, &choice.expand_dims(-1), -1).squeeze_axes([-1])
    }
}

/// Continues prompts with a [`Gpt2`].
///
/// Lengths of prompts and texts are padded to powers of two. A program is compiled for each padded
/// length, and kept for later calls.
///
/// ```no_run
/// use oxidax::prelude::*;
/// use oxidax_models::gpt2::{Gpt2, Sampling, TextGenerator};
/// let model = Gpt2::load("gpt2")?;
/// let generator = TextGenerator::new(Sampling::GREEDY);
/// let tokens = generator.generate(&model, &[2514, 307, 11], 20, random::key(0))?;
/// println!("{} tokens", tokens.len()); // 20 tokens
/// # Ok::<(), oxidax::Error>(())
/// ```
pub struct TextGenerator {
    generator: Generator<Gpt2>,
    program: Jit<'static, (Gpt2, Array, random::Key), Array>,
}

impl TextGenerator {
    /// Creates a generator that computes in the dtype of the model.
    pub fn new(sampling: Sampling) -> TextGenerator {
        TextGenerator::with_policy(sampling, nn::DTypePolicy::full())
    }

    /// Creates a generator that computes in the dtypes of `policy`, such as
    /// [`mixed_bf16`](nn::DTypePolicy::mixed_bf16).
    pub fn with_policy(sampling: Sampling, policy: nn::DTypePolicy) -> TextGenerator {
        let generate = move |model: Gpt2, prompts: Array, keys: random::Key| {
            let model = policy.cast_to_compute(&model);
            let ([b, t], n) = (prompts.dims(), keys.shape()[0]);
            let start = model.decode(&prompts, &model.cache(b, t + n));
            let step = |(logits, cache), key: random::Key| {
                let token = sampling.choose(&policy.cast_to_output(&logits), key);
                (model.decode(&token.expand_dims(-1), &cache), token)
            };
            scan(step, start, keys).1
        };
        let generator = Generator::with_functions(
            move |model: &Gpt2| policy.cast_to_compute(model),
            move |logits: &Array, key| sampling.choose(&policy.cast_to_output(logits), key),
            GenerateOptions::default(),
        );
        TextGenerator { generator, program: jit(generate).name("generate") }
    }

    /// Returns the `n` tokens that follow a prompt.
    ///
    /// A text that outgrows the model's positions continues from its second half, which is read
    /// again: positions are absolute, so a cache cannot slide.
    ///
    /// # Errors
    /// `Op` (value) if the prompt is empty, or has a token that the model does not have. Errors of
    /// compilation and execution.
    #[track_caller]
    pub fn generate(
        &self,
        model: &Gpt2,
        prompt: &[u32],
        n: usize,
        key: random::Key,
    ) -> Result<Vec<u32>, Error> {
        let [vocabulary, positions] = [&model.wte, &model.wpe].map(|table| table.weight.shape()[0]);
        if prompt.is_empty() {
            let problem = "the prompt is empty, it needs at least one token";
            return Err(argument_error("generate", problem));
        }
        if let Some(token) = prompt.iter().find(|&&token| token as usize >= vocabulary) {
            let problem = format!("token {token} of the prompt; the model has {vocabulary} tokens");
            return Err(argument_error("generate", problem));
        }
        let mut text: Vec<i32> = prompt.iter().map(|&token| token as i32).collect();
        let end = text.len() + n;
        for part in 0u32.. {
            if text.len() >= end {
                break;
            }
            let context = if text.len() < positions { text.len() } else { positions / 2 };
            let count = (end - text.len()).min(positions - context);
            let window: Vec<u32> =
                text[text.len() - context..].iter().map(|&token| token as u32).collect();
            let key = random::fold_in(key.clone(), part);
            let texts = self.generator.generate(model, &[window], count, key)?;
            text.extend(texts.iter().flatten().map(|&token| token as i32));
        }
        Ok(text[prompt.len()..].iter().map(|&token| token as u32).collect())
    }

    /// Continues prompts of equal length, `i32[b, t]`, by one token for each of `n` keys.
    ///
    /// Returns the new tokens, `i32[n, b]`. [`random::split`] creates the keys.
    ///
    /// # Errors
    /// `Op` (value) if `t + n` exceeds the model's positions. Errors of compilation and execution.
    pub fn generate_batch(
        &self,
        model: &Gpt2,
        prompts: &Array,
        keys: &random::Key,
    ) -> Result<Array, Error> {
        Ok(self.program.call(model, prompts, keys)?)
    }

    /// Returns the numbers of calls and compilations so far, and the compile time.
    pub fn stats(&self) -> JitStats {
        let (mut stats, batch) = (self.generator.stats(), self.program.stats());
        stats.calls += batch.calls;
        stats.hits += batch.hits;
        stats.misses += batch.misses;
        stats.traces += batch.traces;
        stats.compiles += batch.compiles;
        stats.compile_time += batch.compile_time;
        stats
    }
}
