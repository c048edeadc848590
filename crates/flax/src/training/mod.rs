//! The state of a training run, metrics, early stopping, and batches over devices.

mod common_utils;
mod early_stopping;
mod metrics;
mod train_state;

pub use common_utils::{
    OnehotValues, get_metrics, onehot, onehot_with, pad_shard_unpad, replicate, shard,
    shard_prng_key, stack_forest, unreplicate,
};
pub use early_stopping::EarlyStopping;
pub use metrics::{Accuracy, MultiMetric, RunningMetric, Statistics, Welford};
pub use train_state::TrainState;
