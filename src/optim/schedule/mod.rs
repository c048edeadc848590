//! Schedules: numbers that change from step to step.

mod constructors;
mod kind;

pub use constructors::{
    CosineDecayOptions, ExponentialDecayOptions, Interpolation, OnecycleOptions, TransitionOptions,
    WarmupCosineDecay, constant_schedule, cosine_decay_schedule, cosine_decay_schedule_with,
    cosine_onecycle_schedule, cosine_onecycle_schedule_with, exponential_decay,
    exponential_decay_with, join_schedules, linear_onecycle_schedule,
    linear_onecycle_schedule_with, linear_schedule, linear_schedule_with,
    piecewise_constant_schedule, piecewise_interpolate_schedule, polynomial_schedule,
    polynomial_schedule_with, sgdr_schedule, warmup_constant_schedule,
    warmup_cosine_decay_schedule, warmup_exponential_decay_schedule, warmup_stable_decay_schedule,
};
pub(super) use kind::Hyperparams;
pub use kind::{Schedule, hyperparam};
