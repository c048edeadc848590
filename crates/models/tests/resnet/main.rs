//! Compares ResNet with weights and logits of PyTorch, and with the published numbers of
//! parameters. `examples/resnet` compares training steps with Flax.
#![allow(clippy::unwrap_used, reason = "in a test, unwrapping is the assertion")]

mod shapes;
mod torchvision;
