//! Loads folders in Hugging Face's layout: `config.json`, `model.safetensors` or its shards, and
//! the optional `1_Pooling/config.json` of `sentence-transformers`.

use super::model::{Bert, Config, Pooling};
use anyhow::{Context, ensure};
use oxidax::prelude::*;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fs;
use std::path::Path;

/// The fields of `config.json` that affect the computation.
#[derive(Deserialize)]
struct Stored {
    model_type: String,
    vocab_size: usize,
    max_position_embeddings: usize,
    hidden_size: usize,
    num_attention_heads: usize,
    num_hidden_layers: usize,
    intermediate_size: usize,
    #[serde(default = "two")]
    type_vocab_size: usize,
    #[serde(default = "tiny")]
    layer_norm_eps: f64,
    #[serde(default = "gelu_by_erf")]
    hidden_act: String,
    #[serde(default = "absolute")]
    position_embedding_type: String,
    #[serde(default)]
    is_decoder: bool,
    #[serde(default)]
    add_cross_attention: bool,
}

fn two() -> usize {
    2
}

fn tiny() -> f64 {
    1e-12
}

fn gelu_by_erf() -> String {
    "gelu".into()
}

fn absolute() -> String {
    "absolute".into()
}

/// `1_Pooling/config.json`: the active pooling modes.
#[derive(Deserialize)]
struct Modes {
    #[serde(default)]
    pooling_mode_cls_token: bool,
    #[serde(default)]
    pooling_mode_mean_tokens: bool,
    #[serde(default)]
    pooling_mode_max_tokens: bool,
    #[serde(default)]
    pooling_mode_mean_sqrt_len_tokens: bool,
    #[serde(default)]
    pooling_mode_weightedmean_tokens: bool,
    #[serde(default)]
    pooling_mode_lasttoken: bool,
}

/// Loads a model from a folder, in `f32`.
pub fn load(folder: &Path) -> anyhow::Result<(Bert, Config)> {
    let config = config(folder)?;
    let stored = checkpoint::open(folder)?
        // Full language models store the encoder under `bert.`, beside task heads.
        .rename("bert.*", "*")
        .ignore(["cls.*", "classifier.*", "qa_outputs.*"])
        // Constant position ids in older files.
        .ignore(["embeddings.position_ids"])
        // Names converted from TensorFlow.
        .rename("*LayerNorm.gamma", "*LayerNorm.weight")
        .rename("*LayerNorm.beta", "*LayerNorm.bias")
        .rename("*LayerNorm.weight", "*norm.scale")
        .rename("*LayerNorm.bias", "*norm.bias")
        .rename("embeddings.*_embeddings.*", "embeddings.*.*")
        .rename("encoder.layer.*.*", "layers[*].*")
        .rename("layers[*].attention.self.*", "layers[*].attention.*")
        .rename("layers[*].attention.output.norm.*", "layers[*].attention.norm.*")
        .rename("layers[*].attention.output.dense.*", "layers[*].attention.output.*")
        .rename("layers[*].intermediate.dense.*", "layers[*].up.*")
        .rename("layers[*].output.dense.*", "layers[*].down.*")
        .rename("layers[*].output.norm.*", "layers[*].norm.*")
        .rename("pooler.dense.*", "pooler.*")
        // Matrices are stored `[out, in]`.
        .transpose("layers*.weight", [1, 0])
        .transpose("pooler.weight", [1, 0])
        .convert(["*"]);
    let config = Config { pooler: stored.types()?.contains_key("pooler.weight"), ..config };
    let new = move |key: random::Key| Bert::new(key, &config);
    Ok((stored.load(&eval_shape(new, random::Key::of_type())?)?, config))
}

fn config(folder: &Path) -> anyhow::Result<Config> {
    let path = folder.join("config.json");
    let stored: Stored = read(&path)?;
    let mut unsupported = Vec::new();
    let mut refuse = |is: bool, what: String| {
        if is {
            unsupported.push(what)
        }
    };
    refuse(stored.model_type != "bert", format!("model_type is `{}`", stored.model_type));
    let activation = match stored.hidden_act.as_str() {
        "gelu" | "gelu_python" => Some(nn::Activation::GeluExact),
        "gelu_new" | "gelu_pytorch_tanh" => Some(nn::Activation::Gelu),
        "relu" => Some(nn::Activation::Relu),
        "silu" | "swish" => Some(nn::Activation::Silu),
        _ => None,
    };
    refuse(activation.is_none(), format!("hidden_act is `{}`", stored.hidden_act));
    let position_type = &stored.position_embedding_type;
    refuse(position_type != "absolute", format!("position_embedding_type is `{position_type}`"));
    refuse(stored.is_decoder, "is_decoder is true".into());
    refuse(stored.add_cross_attention, "add_cross_attention is true".into());
    let Stored { hidden_size: width, num_attention_heads: heads, .. } = stored;
    let sizes = [
        stored.vocab_size,
        stored.max_position_embeddings,
        stored.type_vocab_size,
        stored.num_hidden_layers,
        stored.intermediate_size,
        width,
        heads,
    ];
    refuse(sizes.contains(&0), "a size is 0".into());
    let divides = heads != 0 && width.is_multiple_of(heads);
    refuse(!divides, format!("hidden_size {width} is not divisible into {heads} heads"));
    ensure!(
        unsupported.is_empty(),
        "{}: unsupported by this BERT encoder: {}",
        path.display(),
        unsupported.join("; ")
    );
    Ok(Config {
        vocabulary: stored.vocab_size,
        positions: stored.max_position_embeddings,
        kinds: stored.type_vocab_size,
        width,
        heads,
        layers: stored.num_hidden_layers,
        inner: stored.intermediate_size,
        activation: activation.expect("others are refused"),
        epsilon: stored.layer_norm_eps,
        pooling: pooling(folder)?,
        pooler: false,
    })
}

/// Reads the pooling mode; the mean by default.
fn pooling(folder: &Path) -> anyhow::Result<Pooling> {
    let path = folder.join("1_Pooling").join("config.json");
    if !path.exists() {
        return Ok(Pooling::Mean);
    }
    let modes: Modes = read(&path)?;
    let known = [modes.pooling_mode_mean_tokens, modes.pooling_mode_cls_token];
    let other = modes.pooling_mode_max_tokens
        || modes.pooling_mode_mean_sqrt_len_tokens
        || modes.pooling_mode_weightedmean_tokens
        || modes.pooling_mode_lasttoken;
    match known {
        [true, false] if !other => Ok(Pooling::Mean),
        [false, true] if !other => Ok(Pooling::First),
        _ => anyhow::bail!("{}: the pooling mode is neither mean nor first token", path.display()),
    }
}

pub fn read<T: DeserializeOwned>(path: &Path) -> anyhow::Result<T> {
    let text = fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{}", path.display()))
}
