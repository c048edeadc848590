//! Loads and saves folders in Hugging Face's layout: `config.json`, and `model.safetensors` or its
//! shards.
//!
//! GPT-2's matrices are stored `[in, out]`, as in `nn::Linear`. The head is not stored, because it
//! is the token embedding.

use super::model::{Config, Gpt2};
use anyhow::{Context, ensure};
use oxidax::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The name of the token embedding, which is also the head.
const TABLE: &str = "wte.weight";

/// The fields of `config.json` that affect the computation.
#[derive(Serialize, Deserialize)]
struct Stored {
    model_type: String,
    vocab_size: usize,
    n_positions: usize,
    n_embd: usize,
    n_head: usize,
    n_layer: usize,
    layer_norm_epsilon: f64,
    #[serde(default)]
    bos_token_id: Option<usize>,
    #[serde(default)]
    eos_token_id: Option<usize>,
    #[serde(default)]
    n_inner: Option<usize>,
    #[serde(default = "gelu_by_tanh")]
    activation_function: String,
    #[serde(default = "yes")]
    scale_attn_weights: bool,
    #[serde(default)]
    scale_attn_by_inverse_layer_idx: bool,
    #[serde(default)]
    add_cross_attention: bool,
    #[serde(default = "yes")]
    tie_word_embeddings: bool,
}

fn gelu_by_tanh() -> String {
    "gelu_new".into()
}

fn yes() -> bool {
    true
}

/// Loads a model from a folder, in `f32`.
pub fn load(folder: &Path, dropout: f64) -> anyhow::Result<(Gpt2, Config)> {
    let config = Config { dropout, ..config(folder)? };
    let stored = || -> anyhow::Result<checkpoint::Reader> {
        Ok(checkpoint::open(folder)?
            // Full language models have this prefix, bare transformers do not.
            .rename("transformer.*", "*")
            .rename("h.*.*", "h.layers[*].*")
            .rename("*ln_*.weight", "*ln_*.scale")
            // Causal masks in older files.
            .ignore(["*.attn.bias", "*.attn.masked_bias"])
            .convert(["*"]))
    };
    let weights = stored()?;
    if let Some(head) = weights.types()?.get("lm_head.weight") {
        let names = [TABLE, "lm_head.weight"];
        let pair = BTreeMap::from(names.map(|name| (name, Array::of_type(head.clone()))));
        let pair = stored()?.only(names).load(&pair)?;
        let same = pair[TABLE].to_bytes()? == pair["lm_head.weight"].to_bytes()?;
        ensure!(same, "{}: `lm_head.weight` is not `{TABLE}`", folder.display());
    }
    let new = move |key: random::Key| Gpt2::new(key, &config);
    let template = eval_shape(new, random::Key::of_type())?;
    Ok((weights.ignore(["lm_head.weight"]).load(&template)?, config))
}

/// Saves a model for [`load`] and `transformers`.
pub fn save(folder: &Path, model: &Gpt2, config: &Config) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
    // `transformers` expects an end-of-text token, which is the last of the published vocabulary.
    let end = (config.vocabulary == 50257).then_some(50256);
    let stored = Stored {
        model_type: "gpt2".into(),
        vocab_size: config.vocabulary,
        n_positions: config.positions,
        n_embd: config.width,
        n_head: config.heads,
        n_layer: config.layers,
        layer_norm_epsilon: config.epsilon,
        bos_token_id: end,
        eos_token_id: end,
        n_inner: None,
        activation_function: gelu_by_tanh(),
        scale_attn_weights: true,
        scale_attn_by_inverse_layer_idx: false,
        add_cross_attention: false,
        tie_word_embeddings: true,
    };
    fs::write(folder.join("config.json"), serde_json::to_string_pretty(&stored)? + "\n")?;
    let model = Gpt2 { h: model.h.unrolled(), ..model.clone() };
    let names =
        tree::paths(&model).into_iter().map(|path| format!("transformer.{}", stored_name(&path)));
    let leaves: BTreeMap<String, Array> = names.zip(tree::leaves(&model)).collect();
    Ok(checkpoint::save(folder.join("model.safetensors"), &leaves)?)
}

/// Returns the name in a file of the leaf at a path: `h.3.ln_1.weight` for
/// `h.layers[3].ln_1.scale`.
pub fn stored_name(path: &str) -> String {
    path.replace("h.layers[", "h.").replace(']', "").replace(".scale", ".weight")
}

fn config(folder: &Path) -> anyhow::Result<Config> {
    let path = folder.join("config.json");
    let text = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
    let stored: Stored =
        serde_json::from_str(&text).with_context(|| format!("{}", path.display()))?;
    let Stored { vocab_size, n_positions, n_embd, n_head, n_layer, .. } = stored;
    let mut unsupported = Vec::new();
    let mut refuse = |is: bool, what: String| {
        if is {
            unsupported.push(what)
        }
    };
    refuse(stored.model_type != "gpt2", format!("model_type is `{}`", stored.model_type));
    let gelu = ["gelu_new", "gelu_pytorch_tanh"].contains(&stored.activation_function.as_str());
    refuse(!gelu, format!("activation_function is `{}`", stored.activation_function));
    let inner = stored.n_inner.unwrap_or(4 * n_embd);
    refuse(inner != 4 * n_embd, format!("n_inner is {inner}, not {}", 4 * n_embd));
    refuse(!stored.scale_attn_weights, "scale_attn_weights is false".into());
    refuse(
        stored.scale_attn_by_inverse_layer_idx,
        "scale_attn_by_inverse_layer_idx is true".into(),
    );
    refuse(stored.add_cross_attention, "add_cross_attention is true".into());
    refuse(!stored.tie_word_embeddings, "tie_word_embeddings is false".into());
    refuse([vocab_size, n_positions, n_embd, n_head, n_layer].contains(&0), "a size is 0".into());
    let divides = n_head != 0 && n_embd.is_multiple_of(n_head);
    refuse(!divides, format!("n_embd {n_embd} is not divisible into {n_head} heads"));
    ensure!(
        unsupported.is_empty(),
        "{}: unsupported by this GPT-2: {}",
        path.display(),
        unsupported.join("; ")
    );
    Ok(Config {
        vocabulary: vocab_size,
        positions: n_positions,
        width: n_embd,
        heads: n_head,
        layers: n_layer,
        epsilon: stored.layer_norm_epsilon,
        dropout: 0.0,
    })
}
