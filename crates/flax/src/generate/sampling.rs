//! The choice of the next token.

use oxidax::core::{RuleError, throw_operands};
use oxidax::prelude::*;
use oxidax::random::Key;

/// Options of [`sample_logits`]. The restrictions hold together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SamplingOptions {
    /// Divides the logits. 0 chooses the most likely token. 1 by default.
    pub temperature: f64,
    /// Limits the choice to this number of most likely tokens.
    pub top_k: Option<usize>,
    /// Limits the choice to the most likely tokens whose probabilities add up to this number, from
    /// 0 to 1. The most likely token is always allowed.
    pub top_p: Option<f64>,
    /// Limits the choice to tokens of at least this fraction of the largest probability.
    pub min_p: Option<f64>,
}

impl Default for SamplingOptions {
    fn default() -> SamplingOptions {
        SamplingOptions { temperature: 1.0, top_k: None, top_p: None, min_p: None }
    }
}

impl SamplingOptions {
    /// Chooses the most likely token.
    pub fn greedy() -> SamplingOptions {
        SamplingOptions { temperature: 0.0, ..SamplingOptions::default() }
    }
}

/// Chooses tokens, `i32[…]`, from logits, `{float}[…, vocabulary]`. Probabilities are computed in
/// `f32`.
///
/// Throws `Op` (value) unless the temperature is 0 or greater and probabilities are from 0 to 1.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::generate::{SamplingOptions, sample_logits};
/// let logits = log(array![0.5f32, 0.1, 0.3, 0.1]);
/// let options = SamplingOptions { top_p: Some(0.6), ..SamplingOptions::default() };
/// for seed in 0..10 {
///     let token = sample_logits(&logits, random::key(seed), &options).item::<i32>()?;
///     assert!([0, 2].contains(&token)); // 0.5 + 0.3 is the first sum of at least 0.6
/// }
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Fan, Lewis, Dauphin: Hierarchical neural story generation (2018) for `top_k`; Holtzman et al.:
/// The curious case of neural text degeneration (2019) for `top_p`; Nguyen et al.: Turning up the
/// heat: min-p sampling (2024) for `min_p`.
#[track_caller]
pub fn sample_logits(logits: &Array, key: Key, options: &SamplingOptions) -> Array {
    let SamplingOptions { temperature, top_k: k, top_p, min_p } = *options;
    expect_options(logits, options);
    if temperature == 0.0 {
        return logits.argmax_axis(-1);
    }
    let mut logits = logits.astype(DType::F32) / temperature;
    if let Some(k) = k {
        let vocabulary = logits.shape()[logits.rank() - 1];
        let (best, _) = top_k(&logits, k.clamp(1, vocabulary), -1);
        let smallest = best.min_axes(axes(-1).keepdims());
        logits = keep(&logits, &ge(&logits, &smallest));
    }
    if let Some(p) = top_p {
        let sorted = sort_descending(&logits, -1);
        let probabilities = softmax(&sorted, -1);
        // The sum of the probabilities of more likely tokens.
        let before = cumsum(&probabilities, -1) - &probabilities;
        let first = eq(broadcasted_iota(DType::I32, sorted.shape(), sorted.rank() - 1), 0);
        let allowed = lt(&before, p) | first;
        let smallest = where_(&allowed, &sorted, f64::INFINITY).min_axes(axes(-1).keepdims());
        logits = keep(&logits, &ge(&logits, &smallest));
    }
    if let Some(p) = min_p {
        let probabilities = softmax(&logits, -1);
        let largest = probabilities.max_axes(axes(-1).keepdims());
        logits = keep(&logits, &ge(&probabilities, largest * p));
    }
    random::categorical(key, &logits)
}

/// Gives the other tokens probability 0.
#[track_caller]
fn keep(logits: &Array, allowed: &Array) -> Array {
    where_(allowed, logits, f64::NEG_INFINITY)
}

#[track_caller]
fn expect_options(logits: &Array, options: &SamplingOptions) {
    let problem = if options.temperature.is_nan() || options.temperature < 0.0 {
        format!("the temperature is {}, not 0 or greater", options.temperature)
    } else {
        let probabilities = [("top_p", options.top_p), ("min_p", options.min_p)];
        let wrong = probabilities
            .into_iter()
            .find_map(|(name, p)| p.filter(|p| !(0.0..=1.0).contains(p)).map(|p| (name, p)));
        match wrong {
            Some((name, p)) => format!("{name} is {p}, not from 0 to 1"),
            None if logits.rank() == 0 => format!("logits {} have no vocabulary", logits.aval()),
            None => return,
        }
    };
    throw_operands("sample_logits", RuleError::value(problem), &[logits]);
}
