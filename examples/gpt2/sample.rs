//! Sampling: one compiled program reads the prompt and generates all tokens, with a key-value
//! cache.

use super::model::Gpt2;
use anyhow::{bail, ensure};
use oxidax::prelude::*;

/// Options for choosing the next token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Divides the logits. 0 chooses the most likely token.
    pub temperature: f64,
    /// Limits the choice to the most likely tokens.
    pub top_k: Option<usize>,
}

impl Sampling {
    #[cfg(test)]
    pub const GREEDY: Sampling = Sampling { temperature: 0.0, top_k: None };

    /// Chooses tokens `i32[b]` from logits `[b, vocabulary]`.
    pub fn choose(self, logits: &Array, key: random::Key) -> Array {
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

/// Maps a model, prompts `i32[b, t]` and `n` keys to the next tokens, `i32[n, b]`.
pub type Generator = Jit<'static, (Gpt2, Array, random::Key), Array>;

pub fn generator(sampling: Sampling, policy: nn::DTypePolicy) -> Generator {
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
    jit(generate).name("generate")
}

/// Generates `n` tokens after a prompt. A text that outgrows the model's positions continues from
/// its second half.
pub fn generate(
    generator: &Generator,
    model: &Gpt2,
    prompt: &[u32],
    n: usize,
    key: random::Key,
) -> anyhow::Result<Vec<u32>> {
    ensure!(!prompt.is_empty(), "the prompt is empty, it needs at least one token");
    let [vocabulary, positions] = [&model.wte, &model.wpe].map(|table| table.weight.shape()[0]);
    if let Some(token) = prompt.iter().find(|&&token| token as usize >= vocabulary) {
        bail!("token {token} of the prompt; the model has {vocabulary} tokens");
    }
    let mut text: Vec<i32> = prompt.iter().map(|&token| token as i32).collect();
    let end = text.len() + n;
    for part in 0u32.. {
        if text.len() >= end {
            break;
        }
        let context = if text.len() < positions { text.len() } else { positions / 2 };
        let count = (end - text.len()).min(positions - context);
        let keys = random::split_batch(random::fold_in(key.clone(), part), [count]);
        let window = Array::from_slice(&text[text.len() - context..], [1, context])?;
        text.extend(generator.call(model, window, keys)?.to_vec::<i32>()?);
    }
    Ok(text[prompt.len()..].iter().map(|&token| token as u32).collect())
}
