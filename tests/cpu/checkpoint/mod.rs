//! Checkpoints: single files, the folder of a run, models in several files, and runs that are killed.

mod files;
mod folder;
mod killed;
mod rules;
mod sharded;
mod support;
