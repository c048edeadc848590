//! Compares `examples/resnet` with Flax, PyTorch and itself. `python-compat/README.md` describes
//! the recordings.

mod pictures;
mod recorded;
mod shapes;
mod torchvision;
mod training;
