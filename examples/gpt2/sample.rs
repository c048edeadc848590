//! Texts from a model: one compiled program reads the prompt and writes all tokens after it, and keeps keys and
//! values of what it has seen.

use super::model::Gpt2;
use anyhow::{bail, ensure};
use oxidax::prelude::*;

/// How the next token is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sampling {
    /// Divides the logits: below 1 likely tokens become likelier; 0 takes the likeliest.
    pub(crate) temperature: f64,
    /// Chooses among so many of the likeliest alone.
    pub(crate) top_k: Option<usize>,
}

impl Sampling {
    #[allow(dead_code, reason = "the tests' way of sampling")]
    pub(crate) const GREEDY: Sampling = Sampling { temperature: 0.0, top_k: None };

    /// Tokens `i32[b]` by logits `[b, vocabulary]`.
    pub(crate) fn choose(self, logits: &Array, key: random::Key) -> Array {
        if self.temperature == 0.0 {
            return logits.argmax_axis(-1);
        }
        let logits = logits / self.temperature;
        let Some(k) = self.top_k else { return random::categorical(key, &logits) };
        let [_, vocabulary] = logits.dims();
        let (best, tokens) = top_k(&logits, k.clamp(1, vocabulary), -1);
        let place = random::categorical(key, &best);
        take_along_axis(&tokens, &place.expand_dims(-1), -1).squeeze_axes([-1])
    }
}

/// The program: from a model, prompts `i32[b, t]` and `n` keys to the tokens that follow, `i32[n, b]`.
pub(crate) fn writer(
    how: Sampling,
    policy: nn::DTypePolicy,
) -> Jit<(Gpt2, Array, random::Key), Array> {
    jit(move |model: Gpt2, prompts: Array, keys: random::Key| {
        let model = policy.cast_to_compute(&model);
        let ([b, t], n) = (prompts.dims(), keys.shape()[0]);
        let start = model.decode(&prompts, &model.cache(b, t + n));
        let step = |(logits, cache), key: random::Key| {
            let token = how.choose(&policy.cast_to_output(&logits), key);
            (model.decode(&token.expand_dims(-1), &cache), token)
        };
        scan(step, start, keys).1
    })
    .name("write")
}

/// `n` tokens after a prompt. A text that outgrows the model's positions goes on from its last half.
pub(crate) fn continued(
    writer: &Jit<(Gpt2, Array, random::Key), Array>,
    model: &Gpt2,
    prompt: &[u32],
    n: usize,
    key: random::Key,
) -> anyhow::Result<Vec<u32>> {
    ensure!(!prompt.is_empty(), "a prompt needs a token to begin with");
    let [vocabulary, positions] = [&model.wte, &model.wpe].map(|table| table.weight.shape()[0]);
    if let Some(unknown) = prompt.iter().find(|&&token| token as usize >= vocabulary) {
        bail!("token {unknown} of a prompt; the model knows {vocabulary}");
    }
    let mut text: Vec<i32> = prompt.iter().map(|&token| token as i32).collect();
    let end = text.len() + n;
    for part in 0u32.. {
        if text.len() >= end {
            break;
        }
        let seen = if text.len() < positions { text.len() } else { positions / 2 };
        let wanted = (end - text.len()).min(positions - seen);
        let keys = random::split_batch(random::fold_in(key.clone(), part), [wanted]);
        let window = Array::from_slice(&text[text.len() - seen..], [1, seen])?;
        text.extend(writer.call(model, window, keys)?.to_vec::<i32>()?);
    }
    Ok(text[prompt.len()..prompt.len() + n].iter().map(|&token| token as u32).collect())
}
