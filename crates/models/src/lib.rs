//! GPT-2, BERT and ResNet for oxidax, with loaders for published weights.
//!
//! A model is a plain struct of arrays with [`#[derive(Tree)]`](derive@oxidax::Tree). Its forward
//! pass is a method of arrays, so it works with [`jit`](oxidax::jit::jit),
//! [`grad`](oxidax::transforms::grad) and [`vmap`](oxidax::transforms::vmap()) like any other
//! function.
//!
//! | model | configurations | weights |
//! |---|---|---|
//! | [`gpt2::Gpt2`] | [`Gpt2Config::small`](gpt2::Gpt2Config::small) to [`xl`](gpt2::Gpt2Config::xl) | [loads](gpt2::Gpt2::load) and [saves](gpt2::Gpt2::save) Hugging Face's folders |
//! | [`bert::Bert`] | [`BertConfig::base`](bert::BertConfig::base), [`large`](bert::BertConfig::large), [`mini_lm`](bert::BertConfig::mini_lm) | [loads](bert::Bert::load) Hugging Face's folders |
//! | [`resnet::ResNet`] | [`ResNetConfig::resnet18`](resnet::ResNetConfig::resnet18) to [`resnet152`](resnet::ResNetConfig::resnet152) | [loads](resnet::ResNetVariables::load) torchvision's files |
//!
//! Each model is a feature of this crate, and all are enabled by default. The feature `tokenizers`
//! adds byte-pair encoding for GPT-2, and sentences as input of BERT.
//!
//! ```
//! use oxidax::prelude::*;
//! use oxidax_models::gpt2::{Gpt2, Gpt2Config};
//!
//! // The types of GPT-2 with 124M parameters, without computing anything.
//! let config = Gpt2Config::small();
//! let model = eval_shape(move |key| Gpt2::new(key, &config), random::Key::of_type())?;
//! assert_eq!(nn::summary(&model).parameters(), 124_439_808);
//! let forward = |model: Gpt2, tokens: Array| model.forward(&tokens, None);
//! let logits = eval_shape(forward, (&model, Aval::new(DType::I32, [4, 1024])))?;
//! assert_eq!(logits.aval().to_string(), "f32[4,1024,50257]");
//! # Ok::<(), oxidax::Error>(())
//! ```
//!
//! Nothing is downloaded: the loaders read files that you have. Every model is compared with the
//! framework that published it, by values recorded from `transformers`, PyTorch and Flax.
#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

#[cfg(any(feature = "gpt2", all(feature = "bert", feature = "tokenizers")))]
mod argument_error;
#[cfg(feature = "bert")]
pub mod bert;
#[cfg(feature = "gpt2")]
pub mod gpt2;
#[cfg(any(feature = "bert", feature = "gpt2"))]
mod hugging_face;
#[cfg(feature = "resnet")]
pub mod resnet;

/// The code in the README compiles.
#[cfg(all(doctest, feature = "gpt2"))]
#[doc = include_str!("../README.md")]
struct Readme;

/// The code of the page on weights compiles.
#[cfg(all(doctest, feature = "gpt2"))]
#[doc = include_str!("../../../docs/weights.md")]
struct WeightsPage;
