//! Checkpoints: single files, the folder of a run, models in several files, and killed runs.

mod files;
mod folder;
mod killed;
mod rules;
mod sharded;
mod support;
