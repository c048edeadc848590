//! `examples/resnet` against Flax and PyTorch, and against itself. `python-compat/README.md` says how the numbers were recorded.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../examples/resnet/images.rs"]
mod images;
#[path = "../../examples/resnet/model.rs"]
mod model;
#[path = "../../examples/resnet/recipe.rs"]
mod recipe;
#[path = "../../examples/resnet/weights.rs"]
mod weights;

mod pictures;
mod recorded;
mod shapes;
mod torchvision;
mod training;
