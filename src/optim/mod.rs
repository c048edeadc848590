//! Optimizers: chains of gradient transformations.
//!
//! An [`Optimizer`] is a value without arrays. Its [`State`] is a tree that a training step takes
//! and returns, like the model. Both work on any tree: leaves are matched by their paths, so the
//! type of a state does not depend on that of the model. Integer and boolean leaves are not
//! trained: their updates are zero.
//!
//! Definitions and names are those of Optax, and on the same platform the results are too.
//!
//! - [`chain()`] applies transformations in order, such as [`clip_by_global_norm`],
//!   [`scale_by_adam`] and [`add_decayed_weights`].
//! - [`partition()`] applies different optimizers to groups of leaves.
//! - [`multi_steps`] and [`apply_if_finite`] wrap an optimizer.
//! - [`minimize()`] runs L-BFGS on a function from start to end.
//! - [`transformation()`] and the trait [`GradientTransformation`] define transformations with a
//!   state; [`stateless`] and [`stateful`] define them leaf by leaf.
//! - A learning rate is a number, a [`Schedule`], or a [`hyperparam()`] that changes between steps.
//! - `adam(…)` has Optax's defaults, and `adam_with(…, AdamOptions { .. })` has options. The other
//!   functions have the same form.
//!
//! ```no_run
//! use oxidax::prelude::*;
//! let optimizer = optim::adamw(1e-3);
//! let mut weights = zeros([3]);
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

mod adadelta;
mod adafactor;
mod adam;
mod adam_variants;
mod amsgrad;
mod clip;
mod conditional;
mod extra_args;
mod gradient_transformation;
mod layerwise;
mod lbfgs;
mod leaves;
mod line_search;
mod lookahead;
mod mask;
mod minimize;
mod moments;
mod monitor;
mod multi_steps;
mod muon;
mod optimistic;
mod optimizer;
mod rms;
mod schedule;
mod sgd;
mod slots;
mod state;
mod wrappers;
mod zoom_line_search;

pub use adadelta::{
    AdadeltaOptions, NovogradOptions, RpropOptions, ScaleByAdadeltaOptions, ScaleBySm3Options,
    adadelta, adadelta_with, novograd, novograd_with, rprop, rprop_with, scale_by_adadelta,
    scale_by_adadelta_with, scale_by_novograd, scale_by_novograd_with, scale_by_rprop,
    scale_by_rprop_with, scale_by_sm3, scale_by_sm3_with, sm3, sm3_with,
};
pub use adafactor::{
    AdafactorOptions, FactoredRmsOptions, adafactor, adafactor_with, scale_by_factored_rms,
    scale_by_factored_rms_with,
};
pub use adam::{
    AdamOptions, AdamWOptions, adam, adam_with, adamw, adamw_with, nadam, nadam_with, nadamw,
    nadamw_with, scale_by_adam, scale_by_adam_with,
};
pub use adam_variants::{
    AdabeliefOptions, AdamaxOptions, AdamaxWOptions, LionMode, LionOptions, RadamOptions,
    ScaleByLionOptions, adabelief, adabelief_with, adamax, adamax_with, adamaxw, adamaxw_with,
    lion, lion_with, radam, radam_with, scale_by_adamax, scale_by_adamax_with, scale_by_belief,
    scale_by_belief_with, scale_by_lion, scale_by_lion_with, scale_by_radam, scale_by_radam_with,
};
pub use amsgrad::{
    AdanOptions, AmsgradOptions, ScaleByAdanOptions, YogiOptions, adan, adan_with, amsgrad,
    amsgrad_with, scale_by_adan, scale_by_adan_with, scale_by_amsgrad, scale_by_amsgrad_with,
    scale_by_yogi, scale_by_yogi_with, yogi, yogi_with,
};
pub use clip::{
    AdaptiveGradClipOptions, adaptive_grad_clip, adaptive_grad_clip_with, clip, clip_by_block_rms,
    clip_by_global_norm, global_norm,
};
pub use conditional::{
    conditionally_mask, conditionally_transform, keep_params_nonnegative, zero_nans,
};
pub use extra_args::UpdateOptions;
pub use gradient_transformation::{GradientTransformation, UpdateArgs, transformation};
pub use layerwise::{
    DistanceOverGradientsOptions, FromageOptions, LarsOptions, NormalizeOptions, centralize,
    fromage, fromage_with, lars, lars_with, normalize_by_update_norm,
    normalize_by_update_norm_with, scale_by_distance_over_gradients,
    scale_by_distance_over_gradients_with, scale_by_param_block_norm,
};
pub use lbfgs::{
    LbfgsOptions, ScaleByLbfgsOptions, lbfgs, lbfgs_with, scale_by_lbfgs, scale_by_lbfgs_with,
};
pub use leaves::Leaves;
pub use line_search::{
    BacktrackingOptions, scale_by_backtracking_linesearch, scale_by_backtracking_linesearch_with,
    value_and_grad_from_state,
};
pub use lookahead::{InnerState, LookaheadOptions, flatten, lookahead, lookahead_with};
pub use mask::{Mask, freeze, masked, partition, selective_transform};
pub use minimize::{
    LineSearchOptions, MinimizeOptions, Minimum, backtracking_line_search, minimize, minimize_with,
};
pub use moments::{
    bias_correction, safe_increment, safe_norm, safe_norm_with, safe_root_mean_squares,
    update_infinity_moment, update_moment, update_moment_per_elem_norm,
};
pub use monitor::{
    Measure, StatefulSchedule, inject_stateful_hyperparams, measure_with_ema,
    measure_with_ema_with, monitor, snapshot,
};
pub use multi_steps::{
    Accumulation, MultiStepsOptions, SkipRule, apply_every, multi_steps, multi_steps_with,
    skip_large_updates, skip_not_finite,
};
pub use muon::{
    MuonDimensionNumbers, MuonOptions, MuonPreconditioning, ScaleByMuonOptions, muon, muon_with,
    orthogonalize_via_newton_schulz, scale_by_muon, scale_by_muon_with,
};
pub use optimistic::{
    NoisySgdOptions, OptimisticAdamOptions, OptimisticGradientOptions, PolyakOptions,
    PolyakVariant, SignumOptions, add_noise, noisy_sgd, noisy_sgd_with, optimistic_adam,
    optimistic_adam_with, optimistic_gradient_descent, optimistic_gradient_descent_with,
    polyak_sgd, polyak_sgd_with, scale_by_optimistic_gradient, scale_by_optimistic_gradient_with,
    scale_by_polyak, scale_by_polyak_with, signum, signum_with,
};
pub use optimizer::{
    Optimizer, apply_updates, chain, incremental_update, named_chain, periodic_update,
};
pub use rms::{
    AdagradOptions, LambOptions, RmsPropOptions, ScaleByRmsOptions, TrustRatioOptions, adagrad,
    adagrad_with, lamb, lamb_with, rmsprop, rmsprop_with, scale_by_param_block_rms, scale_by_rms,
    scale_by_rms_with, scale_by_rss, scale_by_rss_with, scale_by_trust_ratio,
    scale_by_trust_ratio_with,
};
pub use schedule::{
    CosineDecayOptions, ExponentialDecayOptions, Interpolation, OnecycleOptions, Schedule,
    TransitionOptions, WarmupCosineDecay, constant_schedule, cosine_decay_schedule,
    cosine_decay_schedule_with, cosine_onecycle_schedule, cosine_onecycle_schedule_with,
    exponential_decay, exponential_decay_with, hyperparam, join_schedules,
    linear_onecycle_schedule, linear_onecycle_schedule_with, linear_schedule, linear_schedule_with,
    piecewise_constant_schedule, piecewise_interpolate_schedule, polynomial_schedule,
    polynomial_schedule_with, sgdr_schedule, warmup_constant_schedule,
    warmup_cosine_decay_schedule, warmup_exponential_decay_schedule, warmup_stable_decay_schedule,
};
pub use sgd::{
    AddDecayedWeightsOptions, LeafUpdate, SgdOptions, TraceOptions, add_decayed_weights,
    add_decayed_weights_with, identity, momentum, nesterov, scale, scale_by_learning_rate,
    scale_by_sign, set_to_zero, sgd, sgd_with, sign_sgd, stateful, stateless, trace, trace_with,
};
pub use state::State;
pub use wrappers::{EmaOptions, apply_if_finite, ema, ema_with, params_ema};
pub use zoom_line_search::{
    InitialGuess, ZoomLineSearchOptions, scale_by_zoom_linesearch, scale_by_zoom_linesearch_with,
};
