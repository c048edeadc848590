//! Optimizers: from gradients to updates, as chains of small gradient transformations.
//!
//! An [`Optimizer`] is a value without arrays; what it remembers between steps is a [`State`], a tree
//! that is passed in and out of the training step like the model. Both work on any tree: leaves are
//! matched by their paths, so a state does not carry the model's type. Leaves of integer or boolean
//! dtype are not trained: their updates are zero.
//!
//! The definitions, and on the same platform the numbers, are those of Optax, and so are the names.
//! An optimizer is a chain: [`chain()`] puts [`scale_by_adam`], [`clip_by_global_norm`],
//! [`add_decayed_weights`] and their kin one after the other, [`partition()`] gives groups of leaves optimizers of
//! their own, [`multi_steps`] and [`apply_if_finite`] go around a whole. Wherever a learning rate is
//! taken it may be a number, a [`Schedule`], or a [`hyperparam()`] that is changed between steps.
//!
//! ```no_run
//! use oxidax::prelude::*;
//! let optimizer = optim::adamw(1e-3);
//! let mut weights = zeros([3], DType::F32);
//! let mut state = optimizer.init(&weights);
//! let step = jit(move |weights: Array, state: optim::State| {
//!     let gradient = grad(|w: &Array| ((w - 1.0) * (w - 1.0)).sum())(&weights);
//!     let (updates, state) = optimizer.update(&gradient, &state, &weights);
//!     (optim::apply_updates(&weights, &updates), state)
//! });
//! for _ in 0..1000 {
//!     (weights, state) = step.call(weights, state)?;
//! }
//! # Ok::<(), oxidax::Error>(())
//! ```

mod adafactor;
mod adam;
mod basic;
mod clip;
mod kin;
mod leaves;
mod mask;
mod memory;
mod muon;
mod optimizer;
mod rms;
mod schedule;
mod schedules;
mod state;
mod wrappers;

pub use adafactor::{Adafactor, adafactor};
pub use adam::{Adam, adam, adamw, nadam, nadamw, scale_by_adam};
pub use basic::{
    Trace, add_decayed_weights, identity, momentum, nesterov, scale, scale_by_learning_rate,
    scale_by_sign, set_to_zero, sgd, sign_sgd, stateless, trace,
};
pub use clip::{adaptive_grad_clip, clip, clip_by_block_rms, clip_by_global_norm};
pub use kin::{
    Lion, adabelief, adamax, lion, radam, scale_by_adamax, scale_by_belief, scale_by_lion,
    scale_by_radam,
};
pub use mask::{Mask, masked, partition};
pub use muon::{Muon, muon, orthogonalize_via_newton_schulz};
pub use optimizer::{Optimizer, apply_updates, chain, incremental_update};
pub use rms::{
    RmsProp, adagrad, lamb, rmsprop, scale_by_param_block_rms, scale_by_rss, scale_by_trust_ratio,
};
pub use schedule::{Schedule, hyperparam};
pub use schedules::{
    ExponentialDecay, Interpolation, WarmupCosineDecay, constant_schedule, cosine_decay_schedule,
    cosine_onecycle_schedule, exponential_decay, join_schedules, linear_onecycle_schedule,
    linear_schedule, piecewise_constant_schedule, piecewise_interpolate_schedule,
    polynomial_schedule, sgdr_schedule, warmup_constant_schedule, warmup_cosine_decay_schedule,
    warmup_exponential_decay_schedule, warmup_stable_decay_schedule,
};
pub use state::State;
pub use wrappers::{Ema, apply_if_finite, ema, multi_steps, params_ema};
