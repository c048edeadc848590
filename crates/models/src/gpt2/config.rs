//! The sizes of a GPT-2, and Hugging Face's `config.json`.

use crate::hugging_face::{UnsupportedSettings, read_json};
use oxidax::Error;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The sizes of a [`Gpt2`](super::Gpt2), and its dropout rate.
///
/// ```
/// use oxidax_models::gpt2::Gpt2Config;
/// let baby = Gpt2Config { layers: 4, heads: 4, width: 128, ..Gpt2Config::small() };
/// assert_eq!((baby.vocabulary, baby.positions), (50257, 1024));
/// ```
#[doc(alias = "GPT2Config")]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gpt2Config {
    /// Number of tokens.
    #[doc(alias = "vocab_size")]
    pub vocabulary: usize,
    /// The longest text, in tokens.
    #[doc(alias = "n_positions")]
    pub positions: usize,
    /// Number of features of a token. The heads divide it.
    #[doc(alias = "n_embd")]
    pub width: usize,
    /// Number of attention heads in each layer.
    #[doc(alias = "n_head")]
    pub heads: usize,
    /// Number of transformer blocks.
    #[doc(alias = "n_layer")]
    pub layers: usize,
    /// Added to the variances in layer norms.
    #[doc(alias = "layer_norm_epsilon")]
    pub epsilon: f64,
    /// Dropout rate in training: of embeddings, attention weights, and the results of attention
    /// and feed-forward layers.
    #[doc(alias("resid_pdrop", "embd_pdrop", "attn_pdrop"))]
    pub dropout: f64,
}

impl Gpt2Config {
    /// The published model `gpt2`: 12 layers, width 768, 124M parameters.
    pub const fn small() -> Gpt2Config {
        Gpt2Config::of_size(12, 12, 768)
    }

    /// The published model `gpt2-medium`: 24 layers, width 1024, 355M parameters.
    pub const fn medium() -> Gpt2Config {
        Gpt2Config::of_size(24, 16, 1024)
    }

    /// The published model `gpt2-large`: 36 layers, width 1280, 774M parameters.
    pub const fn large() -> Gpt2Config {
        Gpt2Config::of_size(36, 20, 1280)
    }

    /// The published model `gpt2-xl`: 48 layers, width 1600, 1558M parameters.
    pub const fn xl() -> Gpt2Config {
        Gpt2Config::of_size(48, 25, 1600)
    }

    /// Returns the sizes of a published model: `gpt2`, `gpt2-medium`, `gpt2-large` or `gpt2-xl`.
    pub fn published(name: &str) -> Option<Gpt2Config> {
        match name {
            "gpt2" => Some(Gpt2Config::small()),
            "gpt2-medium" => Some(Gpt2Config::medium()),
            "gpt2-large" => Some(Gpt2Config::large()),
            "gpt2-xl" => Some(Gpt2Config::xl()),
            _ => None,
        }
    }

    const fn of_size(layers: usize, heads: usize, width: usize) -> Gpt2Config {
        let (vocabulary, positions) = (50257, 1024);
        Gpt2Config { vocabulary, positions, width, heads, layers, epsilon: 1e-5, dropout: 0.0 }
    }

    /// Reads `config.json` in a folder or at an address. The dropout rate is 0.
    ///
    /// # Errors
    /// `Io` if the file cannot be read. `Checkpoint` if it lacks a size, or has a setting that
    /// [`Gpt2`](super::Gpt2) does not support; the error names all of them.
    pub fn load(folder: impl AsRef<Path>) -> Result<Gpt2Config, Error> {
        let path = folder.as_ref().join("config.json");
        let stored: StoredConfig = read_json(&path)?;
        stored.unsupported().check(&path, "GPT-2")?;
        Ok(Gpt2Config {
            vocabulary: stored.vocab_size,
            positions: stored.n_positions,
            width: stored.n_embd,
            heads: stored.n_head,
            layers: stored.n_layer,
            epsilon: stored.layer_norm_epsilon,
            dropout: 0.0,
        })
    }
}

/// The fields of `config.json` that affect the computation.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredConfig {
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

impl StoredConfig {
    pub(super) fn new(config: &Gpt2Config) -> StoredConfig {
        // `transformers` expects an end-of-text token, which is the last of the published
        // vocabulary.
        let end = (config.vocabulary == 50257).then_some(50256);
        StoredConfig {
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
        }
    }

    fn unsupported(&self) -> UnsupportedSettings {
        let &StoredConfig { vocab_size, n_positions, n_embd, n_head, n_layer, .. } = self;
        let mut settings = UnsupportedSettings::default();
        settings
            .refuse_if(self.model_type != "gpt2", format!("model_type is `{}`", self.model_type));
        let activation = self.activation_function.as_str();
        let is_gelu = ["gelu_new", "gelu_pytorch_tanh"].contains(&activation);
        settings.refuse_if(!is_gelu, format!("activation_function is `{activation}`"));
        let inner = self.n_inner.unwrap_or(4 * n_embd);
        settings.refuse_if(inner != 4 * n_embd, format!("n_inner is {inner}, not {}", 4 * n_embd));
        settings.refuse_if(!self.scale_attn_weights, "scale_attn_weights is false");
        settings.refuse_if(
            self.scale_attn_by_inverse_layer_idx,
            "scale_attn_by_inverse_layer_idx is true",
        );
        settings.refuse_if(self.add_cross_attention, "add_cross_attention is true");
        settings.refuse_if(!self.tie_word_embeddings, "tie_word_embeddings is false");
        let sizes = [vocab_size, n_positions, n_embd, n_head, n_layer];
        settings.refuse_if(sizes.contains(&0), "a size is 0");
        let divides = n_head != 0 && n_embd.is_multiple_of(n_head);
        settings
            .refuse_if(!divides, format!("n_embd {n_embd} is not divisible into {n_head} heads"));
        settings
    }
}
