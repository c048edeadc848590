//! `examples/resnet` against Flax and PyTorch, and against itself. `python-compat/README.md` says how the numbers were recorded.

mod pictures;
mod recorded;
mod shapes;
mod torchvision;
mod training;
