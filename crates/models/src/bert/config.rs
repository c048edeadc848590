//! The sizes of a BERT encoder, and the configuration files of Hugging Face and
//! `sentence-transformers`.

use crate::hugging_face::{UnsupportedSettings, exists, read_json, refused};
use oxidax::Error;
use oxidax::nn::Activation;
use serde::Deserialize;
use std::path::Path;

/// The sizes of a [`Bert`](super::Bert), and its options.
///
/// ```
/// use oxidax_models::bert::BertConfig;
/// let short = BertConfig { layers: 4, ..BertConfig::base() };
/// assert_eq!((short.width, short.heads), (768, 12));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BertConfig {
    /// Number of tokens.
    #[doc(alias = "vocab_size")]
    pub vocabulary: usize,
    /// The longest text, in tokens.
    #[doc(alias = "max_position_embeddings")]
    pub positions: usize,
    /// Number of segments: tokens of a first and of a second text.
    #[doc(alias = "type_vocab_size")]
    pub segments: usize,
    /// Number of features of a token. The heads divide it.
    #[doc(alias = "hidden_size")]
    pub width: usize,
    /// Number of attention heads in each layer.
    #[doc(alias = "num_attention_heads")]
    pub heads: usize,
    /// Number of layers.
    #[doc(alias = "num_hidden_layers")]
    pub layers: usize,
    /// Width between the two linear maps of a layer.
    #[doc(alias = "intermediate_size")]
    pub inner: usize,
    /// The function between the two linear maps of a layer.
    #[doc(alias = "hidden_act")]
    pub activation: Activation,
    /// Added to the variances in layer norms.
    #[doc(alias = "layer_norm_eps")]
    pub epsilon: f64,
    /// Reduction of a text's vectors to one, in [`Bert::embed`](super::Bert::embed).
    pub pooling: Pooling,
    /// The model has a pooler.
    pub pooler: bool,
}

/// Reduction of the vectors of a text's tokens to one vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pooling {
    /// Their mean.
    Mean,
    /// The first token.
    First,
}

impl BertConfig {
    /// The published model `bert-base-uncased`: 12 layers, width 768, 109M parameters without its
    /// pooler.
    pub const fn base() -> BertConfig {
        BertConfig::of_size(12, 12, 768)
    }

    /// The published model `bert-large-uncased`: 24 layers, width 1024, 334M parameters without its
    /// pooler.
    pub const fn large() -> BertConfig {
        BertConfig::of_size(24, 16, 1024)
    }

    /// The published model `all-MiniLM-L6-v2`: 6 layers, width 384, 23M parameters without its
    /// pooler.
    ///
    /// Wang, Wei, Dong, Bao, Yang, Zhou: MiniLM: Deep self-attention distillation for task-agnostic
    /// compression of pre-trained transformers (2020).
    pub const fn mini_lm() -> BertConfig {
        BertConfig::of_size(6, 12, 384)
    }

    const fn of_size(layers: usize, heads: usize, width: usize) -> BertConfig {
        BertConfig {
            vocabulary: 30522,
            positions: 512,
            segments: 2,
            width,
            heads,
            layers,
            inner: 4 * width,
            activation: Activation::GeluExact,
            epsilon: 1e-12,
            pooling: Pooling::Mean,
            pooler: false,
        }
    }

    /// Reads `config.json` in a folder or at an address, the optional `1_Pooling/config.json`, and
    /// the names of the weights, which tell if there is a pooler.
    ///
    /// # Errors
    /// `Io` if a file cannot be read. `Checkpoint` if the configuration lacks a size, or has a
    /// setting that [`Bert`](super::Bert) does not support; the error names all of them.
    pub fn load(folder: impl AsRef<Path>) -> Result<BertConfig, Error> {
        let folder = folder.as_ref();
        let config = stored(folder)?;
        let pooling = pooling(folder)?;
        let pooler = super::weights::open(folder)?.types()?.contains_key("pooler.weight");
        Ok(BertConfig { pooling, pooler, ..config })
    }
}

/// The fields of `config.json` that affect the computation.
#[derive(Deserialize)]
struct StoredConfig {
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
struct PoolingModes {
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

/// Reads `config.json`, with mean pooling and without a pooler.
fn stored(folder: &Path) -> Result<BertConfig, Error> {
    let path = folder.join("config.json");
    let stored: StoredConfig = read_json(&path)?;
    let mut settings = UnsupportedSettings::default();
    settings
        .refuse_if(stored.model_type != "bert", format!("model_type is `{}`", stored.model_type));
    let activation = match stored.hidden_act.as_str() {
        "gelu_new" | "gelu_pytorch_tanh" => Activation::Gelu,
        "relu" => Activation::Relu,
        "silu" | "swish" => Activation::Silu,
        name => {
            let is_gelu = ["gelu", "gelu_python"].contains(&name);
            settings.refuse_if(!is_gelu, format!("hidden_act is `{name}`"));
            Activation::GeluExact
        }
    };
    let position_type = &stored.position_embedding_type;
    settings.refuse_if(
        position_type != "absolute",
        format!("position_embedding_type is `{position_type}`"),
    );
    settings.refuse_if(stored.is_decoder, "is_decoder is true");
    settings.refuse_if(stored.add_cross_attention, "add_cross_attention is true");
    let config = BertConfig {
        vocabulary: stored.vocab_size,
        positions: stored.max_position_embeddings,
        segments: stored.type_vocab_size,
        width: stored.hidden_size,
        heads: stored.num_attention_heads,
        layers: stored.num_hidden_layers,
        inner: stored.intermediate_size,
        activation,
        epsilon: stored.layer_norm_eps,
        pooling: Pooling::Mean,
        pooler: false,
    };
    let BertConfig { vocabulary, positions, segments, width, heads, layers, inner, .. } = config;
    let sizes = [vocabulary, positions, segments, width, heads, layers, inner];
    settings.refuse_if(sizes.contains(&0), "a size is 0");
    let divides = heads != 0 && width.is_multiple_of(heads);
    settings
        .refuse_if(!divides, format!("hidden_size {width} is not divisible into {heads} heads"));
    settings.check(&path, "BERT encoder")?;
    Ok(config)
}

/// Reads the pooling mode; the mean by default.
fn pooling(folder: &Path) -> Result<Pooling, Error> {
    let path = folder.join("1_Pooling").join("config.json");
    if !exists(&path)? {
        return Ok(Pooling::Mean);
    }
    let modes: PoolingModes = read_json(&path)?;
    let supported = [modes.pooling_mode_mean_tokens, modes.pooling_mode_cls_token];
    let other = modes.pooling_mode_max_tokens
        || modes.pooling_mode_mean_sqrt_len_tokens
        || modes.pooling_mode_weightedmean_tokens
        || modes.pooling_mode_lasttoken;
    match supported {
        [true, false] if !other => Ok(Pooling::Mean),
        [false, true] if !other => Ok(Pooling::First),
        _ => Err(refused(&path, "the pooling mode is neither mean nor first token")),
    }
}
