//! Layers, and functions on layers.

mod attention_weights;
mod conv_local;
mod conv_lstm;
mod einsum;
mod fp8;
mod instance_norm;
mod linear_general;
mod lora;
mod prelu;
mod project;
mod recurrent_cells;
mod rnn;
mod sequential;
mod spectral_norm;
mod weight_norm;

pub use attention_weights::{AttentionWeightsOptions, dot_product_attention_weights};
pub use conv_local::ConvLocal;
pub use conv_lstm::ConvLstmCell;
pub use einsum::Einsum;
pub use fp8::{Fp8DotGeneral, Fp8Formats, Fp8Scale, overwrite_with_gradient};
pub use instance_norm::InstanceNorm;
pub use linear_general::{LinearGeneral, LinearGeneralOptions};
pub use lora::{Lora, LoraLinear, lora_mask};
pub use prelu::PRelu;
pub use recurrent_cells::{MguCell, SimpleCell};
pub use rnn::{Bidirectional, RecurrentCell, Rnn, RnnScanOptions, flip_sequences};
pub use sequential::{Layer, Sequential};
pub use spectral_norm::{SpectralNorm, SpectralStats};
pub use weight_norm::WeightNorm;
