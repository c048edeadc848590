//! Checkpoints of Orbax.
