//! BERT encoders: the model, its weights, and sentence embeddings.
//!
//! Devlin, Chang, Lee, Toutanova: BERT: Pre-training of deep bidirectional transformers for
//! language understanding (2018). Reimers, Gurevych: Sentence-BERT: Sentence embeddings using
//! Siamese BERT-networks (2019).
//!
//! [`Bert`] is the encoder, [`BertConfig`] its sizes. [`Bert::load`] reads a folder in Hugging
//! Face's layout. With the feature `tokenizers`, `SentenceEncoder` computes the vectors of
//! sentences. `examples/bert` is a program that prints their similarity.
#![cfg_attr(
    feature = "tokenizers",
    doc = r#"
```no_run
use oxidax_models::bert::SentenceEncoder;

let encoder = SentenceEncoder::load("all-MiniLM-L6-v2")?;
let found = encoder.embed(&["A cat sits.", "A feline rests."], 2)?;
let cosines = found.vectors.matmul(&found.vectors.swapaxes(0, 1));
println!("{cosines}");
# Ok::<(), oxidax::Error>(())
```
"#
)]

mod config;
mod model;
#[cfg(feature = "tokenizers")]
mod sentence_encoder;
#[cfg(feature = "tokenizers")]
mod tokenizer;
mod weights;

pub use config::{BertConfig, Pooling};
pub use model::{Bert, BertEmbeddings, BertLayer, BertSelfAttention, TextBatch};
#[cfg(feature = "tokenizers")]
pub use sentence_encoder::{SentenceEmbeddings, SentenceEncoder, SentenceEncoderOptions};
#[cfg(feature = "tokenizers")]
pub use tokenizer::{BertTokenizer, EncodedSentence};
