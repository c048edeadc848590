//! Compares `examples/resnet` with Flax and itself. `python-compat/README.md` describes the
//! recordings.

mod pictures;
mod recorded;
mod training;
