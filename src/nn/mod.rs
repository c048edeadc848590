//! Layers, initializers, losses and metrics.
//!
//! Layers are plain structs of arrays with `#[derive(Tree)]`, and models are plain structs of
//! layers. A layer's `forward` is an ordinary function. This module uses only the public API, so
//! your own layers are written in the same way.
//!
//! ```
//! use oxidax::prelude::*;
//!
//! #[derive(Tree, Clone)]
//! struct Mlp {
//!     hidden: nn::Linear,
//!     head: nn::Linear,
//! }
//!
//! impl Mlp {
//!     fn new(key: random::Key) -> Mlp {
//!         let [hidden, head] = key.split();
//!         Mlp { hidden: nn::Linear::new(hidden, 784, 128), head: nn::Linear::new(head, 128, 10) }
//!     }
//!
//!     fn forward(&self, x: &Array) -> Array {
//!         self.head.forward(&relu(&self.hidden.forward(x)))
//!     }
//! }
//!
//! let logits = eval_shape(
//!     |key: random::Key, x: Array| Mlp::new(key).forward(&x),
//!     (random::Key::of_type(), Aval::new(DType::F32, [32, 784])),
//! )?;
//! assert_eq!(logits.aval().to_string(), "f32[32,10]");
//! # Ok::<(), oxidax::Error>(())
//! ```

mod attention;
mod batch_norm;
pub mod check;
mod conv;
mod ctc;
mod dot_product_attention;
mod dropout;
mod embedding;
pub mod image;
pub mod init;
mod layers;
mod linear;
mod losses;
mod lstm;
mod masks;
mod metrics;
mod mixed;
mod mlp;
mod norm;
mod quantized;
mod recurrent;
mod rotary;
mod statistics;
mod summary;
mod tabulate;

pub use crate::tree::StaticFloat as Number;
pub use attention::{AttendOptions, AttentionFeatures, KvCache, MultiHeadAttention};
pub use batch_norm::{BatchNorm, BatchStats};
pub use conv::{Conv, ConvTranspose, PaddingMode};
pub use ctc::{CtcLossOptions, ctc_loss, ctc_loss_with};
pub use dot_product_attention::{
    AttentionImplementation, AttentionOptions, dot_product_attention, dot_product_attention_with,
    dot_product_attention_with_residual,
};
pub use dropout::Dropout;
pub use embedding::Embedding;
pub use layers::Layers;
pub use linear::Linear;
pub use losses::{
    CosineOptions, HuberLossOptions, absolute_error, accuracy, cosine_distance,
    cosine_distance_with, cosine_similarity, cosine_similarity_with, huber_loss, huber_loss_with,
    kl_divergence, l2_loss, mean_squared_error, sigmoid_binary_cross_entropy, smooth_labels,
    smoothed_cross_entropy, softmax_cross_entropy, softmax_cross_entropy_with_integer_labels,
    squared_error,
};
pub use lstm::{LstmOptions, LstmSizes, init_lstm_weight, lstm, lstm_with};
pub use masks::{combine_masks, make_attention_mask, make_attention_mask_with, make_causal_mask};
pub use metrics::{Average, confusion_matrix, top_k_accuracy};
pub use mixed::{DTypePolicy, LossScale, all_finite, select_tree};
pub use mlp::{Activation, GatedMlp, Mlp};
pub use norm::{GroupNorm, LayerNorm, RmsNorm};
pub use quantized::{QuantizedLinear, quantize};
pub use recurrent::{GruCell, LstmCell, LstmState, RnnOptions};
pub use rotary::Rotary;
pub use statistics::{BatchNormOptions, NormLayerOptions, VarianceFormula};
pub use summary::{Summary, SummaryRow, summary};
pub use tabulate::{LayerRow, LayerTable, tabulate};
